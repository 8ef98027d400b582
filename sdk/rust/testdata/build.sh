#!/bin/sh
# Builds the committed modules of this SDK: the example as "engine plugin new"
# lays it out, and the probe as either kind. RUSTC is the compiler.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/engine_step"
cp -r ../example/* "$tmp"
cp -r ../Cargo.toml ../src "$tmp/engine_step"
sh "$tmp/build.sh"
mv "$tmp/words.wasm" words_reactor.wasm
rustc="${RUSTC:-/usr/bin/rustc} --edition 2021 --target wasm32-wasi -C opt-level=s -C panic=abort -C strip=symbols --extern engine_step=$tmp/target/libengine_step.rlib probe.rs"
$rustc --crate-type cdylib -o probe_reactor.wasm
$rustc --crate-type bin --cfg 'feature="command"' -o probe_command.wasm

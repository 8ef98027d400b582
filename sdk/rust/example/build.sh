#!/bin/sh
# Builds the step with rustc alone. RUSTC names a compiler. With cargo it is
#   cargo build --release --target wasm32-wasip1
set -eu
cd "$(dirname "$0")"
name=words

found=
for rustc in ${RUSTC:-rustc /usr/bin/rustc}; do
  for target in wasm32-wasip1 wasm32-wasi; do
    if [ -z "$found" ] && [ -d "$("$rustc" --print target-libdir --target $target 2>/dev/null)" ]; then
      found="$rustc --edition 2021 --target $target -C opt-level=s -C panic=abort -C strip=symbols"
    fi
  done
done
if [ -z "$found" ]; then
  echo "no rustc with a WASI library found. Run: rustup target add wasm32-wasip1; or on Debian:" >&2
  echo "  apt-get install rustc libstd-rust-dev-wasm32" >&2
  exit 69
fi

mkdir -p target
$found --crate-name engine_step --crate-type rlib --out-dir target engine_step/src/lib.rs
if [ -f src/lib.rs ]; then set -- cdylib src/lib.rs; else set -- bin src/main.rs; fi
$found --crate-name $name --extern engine_step=target/libengine_step.rlib -o $name.wasm --crate-type "$@"

#!/bin/sh
# Builds the committed modules of this SDK: the example as "engine plugin new"
# lays it out, as either kind, and the probe. CLANG is the compiler.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp ../engine_step.h ../example/* "$tmp"
for kind in reactor command; do
  sed "s/^kind=.*/kind=$kind/" ../example/build.sh >"$tmp/build.sh"
  sh "$tmp/build.sh"
  mv "$tmp/words.wasm" words_$kind.wasm
done
cc="${CLANG:-clang-14} --target=wasm32-wasi -I.. -Os -s -Wall -Wextra -Werror -Wl,-z,stack-size=1048576"
$cc -mexec-model=reactor -o probe_reactor.wasm probe.c
$cc -DENGINE_COMMAND -o probe_command.wasm probe.c

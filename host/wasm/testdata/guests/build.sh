#!/bin/sh
# Builds the guests that are committed as .wasm. It needs clang-14, lld-14,
# wasi-libc, libclang-rt-14-dev-wasm32 and wabt (wat2wasm).
set -eu
cd "$(dirname "$0")"
cc="clang-14 --target=wasm32-wasi -Os -s -Wall"
$cc -o command.wasm command.c
for g in reactor probe; do
	$cc -mbulk-memory -mexec-model=reactor -Wl,-z,stack-size=1048576 -o $g.wasm $g.c
done

#!/bin/sh
# Builds the guests that are committed as .wasm. It needs clang-14, lld-14,
# wasi-libc, libclang-rt-14-dev-wasm32 and wabt (wat2wasm).
set -eu
cd "$(dirname "$0")"
cc="clang-14 --target=wasm32-wasi -Os -Wall -Wl,-z,stack-size=1048576"
reactor="-mbulk-memory -mexec-model=reactor"
$cc -s -o command.wasm command.c
$cc -s $reactor -o reactor.wasm reactor.c
$cc -Wl,--strip-debug $reactor -o probe.wasm probe.c # its function names are seen in traces
wat2wasm --enable-tail-call -o meter.wasm meter.wat

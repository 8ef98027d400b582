#!/bin/sh
# Builds sort of sbase (github.com/michaelforney/sbase, see LICENSE), a program
# that knows nothing of this engine. The sources are as they are there; what sort
# does not need is left out. It needs clang-14, lld-14, wasi-libc and
# libclang-rt-14-dev-wasm32.
set -eu
cd "$(dirname "$0")"
clang-14 --target=wasm32-wasi -Os -s -w -Wl,-z,stack-size=1048576 -I. -o ../sort.wasm sort.c libutil/*.c libutf/*.c

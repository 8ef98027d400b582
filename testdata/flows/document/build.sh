#!/bin/sh
# Builds the modules that are committed as .wasm, in C, Rust and AssemblyScript.
# It needs clang-14, lld-14, wasi-libc, libclang-rt-14-dev-wasm32, Debian's rustc
# 1.63 with libstd-rust-dev-wasm32, and ASC, the path of the AssemblyScript
# compiler; "make toolchains" installs all of them.
set -eu
cd "$(dirname "$0")/steps"
(cd sentiment && clang-14 --target=wasm32-wasi -mexec-model=reactor -Os -s -Wall -Wextra -Werror -Wl,-z,stack-size=1048576 -o sentiment.wasm sentiment.c json.c lexicon.c)
(cd keywords && /usr/bin/rustc --edition 2021 --target wasm32-wasi -O -C strip=symbols -o keywords.wasm keywords.rs)
(cd entities && node "$ASC" entities.ts -O --runtime incremental --use abort=entities/abort -o entities.wasm)

#!/bin/sh
# Builds the committed module of the example in C++. CLANGXX is the compiler;
# wasi-sdk's clang++ needs no -stdlib.
set -eu
cd "$(dirname "$0")/../cpp"
${CLANGXX:-clang++-14} --target=wasm32-wasi -stdlib=libc++ -mexec-model=reactor -fno-exceptions -Os -s -Wall -Wextra -Werror \
  -Wno-missing-field-initializers -Wl,-z,stack-size=1048576 -I../../c -o ../testdata/words_cpp.wasm words.cpp

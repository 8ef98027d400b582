#!/bin/sh
# Builds the step. CLANG names a compiler, WASI_SDK_PATH a wasi-sdk.
set -eu
cd "$(dirname "$0")"
name=words
kind=reactor

found=
for clang in ${CLANG:-"${WASI_SDK_PATH:-/opt/wasi-sdk}/bin/clang" clang clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14}; do
  for target in wasm32-wasip1 wasm32-wasi; do
    if [ -z "$found" ] && echo '#include <stdio.h>' | "$clang" --target=$target -x c -E - >/dev/null 2>&1; then
      found="$clang --target=$target"
    fi
  done
done
if [ -z "$found" ]; then
  echo "no clang with a WASI library found. Install wasi-sdk and set WASI_SDK_PATH, or on Debian:" >&2
  echo "  apt-get install clang lld wasi-libc libclang-rt-dev-wasm32" >&2
  exit 69
fi

case $kind in
reactor) set -- -mexec-model=reactor ;;
command) set -- -DENGINE_COMMAND ;;
esac
$found "$@" -Os -s -Wall -Wextra -Wl,-z,stack-size=1048576 -o $name.wasm $name.c

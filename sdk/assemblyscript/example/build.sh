#!/bin/sh
# Builds the step. ASC is the path of another compiler than the one that
# "npm install" puts here, ENGINE that of the engine.
set -eu
cd "$(dirname "$0")"
engine=${ENGINE:-engine}
command -v "$engine" > /dev/null || {
  echo "build.sh: $engine is not found; put it on your PATH, or: ENGINE=/path/to/engine sh build.sh" >&2
  exit 127
}
name=words

asc="${ASC:-node_modules/assemblyscript/bin/asc.js}"
if [ ! -f "$asc" ]; then
  echo "the AssemblyScript compiler is not there. Run: npm install" >&2
  exit 69
fi
node "$asc" $name.ts -O --runtime incremental --use abort=engine_step/abort -o $name.wasm
"$engine" plugin pack $name.wasm --manifest step.json

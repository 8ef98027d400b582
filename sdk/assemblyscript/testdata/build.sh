#!/bin/sh
# Builds the committed modules of this SDK: the example as "engine plugin new"
# lays it out, and the probe. ASC is the compiler, ENGINE the engine.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp ../engine_step.ts ../example/* probe.ts "$tmp"
sh "$tmp/build.sh"
mv "$tmp/words.wasm" words_reactor.wasm
(cd "$tmp" && node "$ASC" probe.ts -O --runtime incremental --use abort=engine_step/abort -o probe.wasm)
"${ENGINE:-engine}" plugin pack "$tmp/probe.wasm" --manifest probe.json
mv "$tmp/probe.wasm" probe_reactor.wasm

#!/bin/sh
# Builds the step: a module, or a native plugin. ENGINE is the engine.
set -eu
cd "$(dirname "$0")"
engine=${ENGINE:-engine}
command -v "$engine" > /dev/null || {
  echo "build.sh: $engine is not found; put it on your PATH, or: ENGINE=/path/to/engine sh build.sh" >&2
  exit 127
}
name=words
kind=command

if [ -f go.mod ] && [ ! -f go.sum ]; then
  go mod tidy || {
    echo "build.sh: the engine's SDK cannot be downloaded; with its repository at hand: engine plugin new go DIR --sdk CLONE" >&2
    exit 69
  }
fi
case $kind in
command)
  GOOS=wasip1 GOARCH=wasm go build -trimpath -ldflags="-s -w" -o $name.wasm .
  "$engine" plugin pack $name.wasm --manifest step.json
  ;;
native)
  CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o $name .
  "$engine" plugin pack $name --manifest step.json
  ;;
esac

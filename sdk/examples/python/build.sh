#!/bin/sh
# Builds the plugin: one executable file that Python runs. It needs protoc, and
# grpcio and protobuf for the Python that runs it: PYTHON, or the first that has
# them. ENGINE is the engine.
set -eu
cd "$(dirname "$0")"
engine=${ENGINE:-engine}
command -v "$engine" > /dev/null || {
  echo "build.sh: $engine is not found; put it on your PATH, or: ENGINE=/path/to/engine sh build.sh" >&2
  exit 127
}
name=words

found=
for python in ${PYTHON:-python3 /usr/bin/python3}; do
  if [ -z "$found" ] && "$python" -c 'import grpc, google.protobuf' 2>/dev/null; then
    found=$("$python" -c 'import sys; print(sys.executable)')
  fi
done
if [ -z "$found" ]; then
  echo "no Python with grpcio and protobuf found. Run: pip install grpcio protobuf; or on Debian:" >&2
  echo "  apt-get install python3-grpcio python3-protobuf" >&2
  exit 69
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp main.py "$tmp/__main__.py"
protoc --python_out="$tmp" step.proto
"$found" -m zipapp "$tmp" --python "$found" --output $name
"$engine" plugin pack $name --manifest step.json

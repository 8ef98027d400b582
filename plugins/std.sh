#!/bin/sh
# Builds the modules that ship inside the engine. The toolchain is pinned: its
# version decides the bytes of a module, and so the keys of what its steps gave.
# With --check it compares the committed modules with what their sources give, by
# their unpacked bytes, and writes nothing.
set -eu
cd "$(dirname "$0")"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for plugin in http json llm template text; do
	GOFLAGS= GOTOOLCHAIN=go1.26.8 GOOS=wasip1 GOARCH=wasm \
		go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o "$new/$plugin.wasm" "./$plugin"
done
(cd "$new" && sha256sum ./*.wasm | sed 's, \./, ,') > "$new/digests"
if [ "${1:-}" != --check ]; then
	for module in "$new"/*.wasm; do
		gzip -9 -n < "$module" > "dist/$(basename "$module").gz"
	done
	mv "$new/digests" dist/digests
	exit
fi
stale=0
cmp -s "$new/digests" dist/digests || stale=1
for module in "$new"/*.wasm; do
	gzip -d < "dist/$(basename "$module").gz" | cmp -s - "$module" || stale=1
done
if [ "$stale" = 1 ]; then
	echo "plugins/dist is not what its sources give: make std, then commit it" >&2
	diff "$new/digests" dist/digests >&2 || true
	exit 1
fi

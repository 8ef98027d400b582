// Package examples holds steps as files: in Go and Python, which "engine plugin
// new" makes projects of, and in further languages without an SDK. All of them
// are one step, which counts the words of a text, and have one manifest.
//
//   - go: with sdk/serve, as a module or a native plugin.
//   - goreactor: a reactor in Go by hand.
//   - cpp: with the header of sdk/c.
//   - python: a native plugin that speaks the wire itself.
//   - zig: a reactor by hand.
//
// There is no Go in it but this file. What is tested of it is in sdk/steptest.
package examples

import "embed"

// Files are the folders go and python.
//
//go:embed go/build.sh go/main.go go/main_test.go go/step.json
//go:embed python/build.sh python/main.py python/step.json
var Files embed.FS

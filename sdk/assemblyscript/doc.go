// Package assemblyscript holds the SDK for steps in AssemblyScript as files: the
// library engine_step.ts and the example that "engine plugin new
// assemblyscript" makes a project of. Its manual is the head of the library and
// sdk/README.md.
//
// There is no Go in it but this file. What is tested of it is in sdk/steptest:
// the modules in testdata, which testdata/build.sh makes of these sources.
//
// # Design
//
// Why reactors only? A command needs a second library, for WASI, and could do
// nothing more.
//
// Why is the manifest packed after the build? The compiler cannot write custom
// sections.
package assemblyscript

import "embed"

// Files are the library and the folder example.
//
//go:embed engine_step.ts example/build.sh example/package.json example/step.json example/words.ts
var Files embed.FS

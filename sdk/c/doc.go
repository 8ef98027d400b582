// Package c holds the SDK for steps in C as files: the header engine_step.h and
// the example that "engine plugin new c" makes a project of. Its manual is the
// head of the header and sdk/README.md.
//
// There is no Go in it but this file. What is tested of it is in sdk/steptest:
// the modules in testdata, which testdata/build.sh makes of these sources.
//
// # Design
//
// Why one header? A project copies it and has no build system to agree with.
//
// Why is nothing freed? An instance lives for one attempt, and its memory with
// it. Ownership rules would be the largest part of the manual.
//
// Why a reader that trusts its text? The host has read the request with a strict
// reader already. A second one would double the header and could only disagree.
package c

import "embed"

// Files are the header and the folder example.
//
//go:embed engine_step.h example/build.sh example/step.json example/words.c
var Files embed.FS

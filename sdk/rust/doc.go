// Package rust holds the SDK for steps in Rust as files: the crate engine_step,
// without dependencies, and the example that "engine plugin new rust" makes a
// project of. Its manual is the head of src/lib.rs and sdk/README.md.
//
// There is no Go in it but this file. What is tested of it is in sdk/steptest:
// the modules in testdata, which testdata/build.sh makes of these sources.
//
// # Design
//
// Why no serde? The crate builds with rustc 1.63 alone, as Debian has it, and
// with any later cargo. A project that wants serde parses Request.all's text
// with it.
//
// Why does Value keep numbers as they are written? A number that passes through
// a step keeps its digits.
//
// Why is Value::parse strict where the other SDKs trust the host? A step also
// reads what a server has answered.
package rust

import "embed"

// Files are the crate and the folder example.
//
//go:embed Cargo.toml src example/Cargo.toml example/build.sh example/step.json example/src/lib.rs
var Files embed.FS

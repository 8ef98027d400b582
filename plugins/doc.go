// Package plugins holds the plugins that ship inside the engine: a flow names
// them as source = "std/NAME". Their modules are built from the folders beside
// this file, compressed and committed, so that an installed engine needs no
// compiler and their digests change only on purpose.
//
// It imports nothing of the engine. Loading is host/wasm's; std/exec, which is
// native, is served by the engine's own executable.
//
// # Design
//
// Why are the modules committed? A digest is part of every key: a module built
// anew by each Go release would make every stored output out of date. `make
// std` builds them with a pinned toolchain, and the gate compares the unpacked
// bytes with what their source gives.
//
// Why one module per plugin and not per step type? A Go module has a megabyte,
// compressed, before it does anything.
//
// Why do the plugins import sdk and sdk/serve only? What they need is what any
// author gets.
package plugins

// Package sdk is the step contract: what a step receives, what it answers, and
// the one door through which it reaches its host.
//
// A step is a function from a JSON request to a JSON response. A Wasm module
// and a native subprocess carry the same bytes, so above its loader the host
// cannot tell them apart; the same Go source builds either (package
// sdk/serve). The package also holds the enums that every room of the engine
// shares (Class, State, Facet, Effects) and Digest.
//
// It is not the host: carriers are in host/wasm and host/subprocess, the host
// operations behind Host.Call in host/operation, the wire in sdk/wire.
//
// # Design
//
// Why only the standard library? A plugin author compiles this package and
// nothing of the engine; it must build for wasip1 and stay small.
//
// Why is the manifest data and not a method of Step? A plugin must be readable
// (validate, plan) without running any of its code.
//
// Why no optional interfaces beside Step? They would need a second vocabulary
// on every carrier and in every language. The contract grows by new host
// operations and new manifest fields only.
//
// Why a strict decoder of our own (CheckJSON)? encoding/json keeps the last of
// two equal keys, replaces invalid UTF-8 and lone surrogates silently, and
// nests until the stack ends. Two readers of such a text may disagree about
// what it says; here it is a protocol error.
//
// Why is Class a string? It is what crosses every wire, log and record; a
// second, numeric spelling would be one more thing to keep equal.
package sdk

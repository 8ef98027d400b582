// Package schema holds JSON Schemas (2020-12) of every message of the step
// contract, for those who write steps without an SDK: what a step receives and
// answers, its manifest, and in the folder op each host operation with its reply
// (under $defs).
//
// There is no Go in it but this file and the test that holds the schemas and the
// types of package sdk together. The engine does not read them: its own reader is
// strict about the text (sdk.CheckJSON) and lenient about members it does not know.
//
// # Design
//
// Why are unknown members allowed? The contract grows by members; who refuses
// those of a later version breaks with it.
//
// Why are the files not generated? They are read by people in other languages, and
// say what Go's types cannot: ranges, patterns, one of two members.
package schema

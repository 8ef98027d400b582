// Package checkpoint is what a run leaves behind: the records of its steps,
// attempts and runs, their keys, and the Store that holds them.
//
// A Checkpoint is one stored output of one step instance. It carries what
// identifies the computation (three fingerprints and the lineage), what
// explains it (the context) and how long it may be reused (the policy). The
// package makes the keys, sanitises outputs and reads and writes records; it
// does not decide what is reused (package recovery) nor run anything (package
// host). The durable store is checkpoint/pebblestore, the conformance suite of
// every store checkpoint/storetest.
//
// # Design
//
// Why does a Batch take only a Sanitized? What is stored is what everyone
// downstream sees and what keys are made of. Making the wrong call impossible
// is cheaper than reviewing for it.
//
// Why a Merkle hash over the value and not a hash of its bytes? Two encodings
// of one value (key order, 1 and 1.0, escapes) are one result; below them
// nothing needs to run again. SHA-256 of the bytes is kept for integrity only.
//
// Why is the Index a loaded snapshot without ctx and errors? The planner is a
// pure function of it; I/O happens once, before.
//
// Why do heads and records differ? The planner reads a head of every step
// instance; the context, which only explanations need, stays on disk. Heads are
// therefore stored in a binary form, all else as JSON behind a version byte.
//
// Why does the Sanitizer cut text instead of decoding and encoding it? What is
// not removed reaches the steps below as the step wrote it: no number loses a
// digit, no escape changes.
//
// Why does the memory store encode what it keeps? So that it gives what a
// durable store gives, and a test on it is a test of both.
//
// Why does retention decide in a pure function? What may go depends on all records
// at once, and a wrong answer loses work without a word. Select is compared with
// the rules written down the slow way; a store only carries out its Decision.
//
// Why XChaCha20-Poly1305? Every value is sealed under a random nonce, and one of
// 24 bytes never comes twice, however many records a tenant has. It is that of
// golang.org/x/crypto, the Go project's own; keys are derived with the standard
// library's HKDF.
//
// Why a key for each tenant, wrapped by one that is given? The given key can be
// changed without touching the data, and a tenant whose wrapped key is removed is
// gone for good, wherever copies of its data lie.
//
// Why is what is sealed bound to its place? Else who can write to the disk, but
// not read, could answer one step with the output of another, or with an old one.
//
// Why has a step its own Keep, and a run none? A run goes with its last record;
// what a flow says of a step must not remove the history of others.
//
// Why does a size budget make husks and remove no records? A record is small and
// keeps what is below it current; only who needs the output runs the step again.
package checkpoint

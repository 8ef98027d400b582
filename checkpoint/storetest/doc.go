// Package storetest is the conformance suite of every checkpoint.Store: what
// the planner and the run rely on, as tests. A store's own package adds what
// only it can show, such as what is left after a crash.
//
// # Design
//
// Why one entry point? A store that passes Run can be handed to the engine; a
// suite of which one could take parts would say less.
package storetest

// Command engine runs workflows written in HCL.
//
// It is the composition root: it builds the parts (loaders, store, host), hands
// them to each other, and shows what happens. One file per verb; each parses its
// flags into a struct, calls the host and hands the result to a view. Views for
// people and for machines read the same events.
//
// # Design
//
// Why is stdout only the result? So that `engine apply | jq` and `> file` work:
// the story of a run goes to stderr.
//
// Why a pass over the arguments before cobra? People who come from Terraform
// type -var and -json. Long flags with one dash are turned into two where they
// are known; there are no grouped shorthands that this could break.
//
// Why is a run's journal a file of its own beside the store? One process has
// the store open. `runs`, `show` and `output` read the journal, so they work
// while a run goes on, and after a crash.
package main

// Package recovery decides what a run must do: which checkpoints it reuses,
// which steps it runs and why.
//
// NewPlan is a pure function of the graph, the steps' definitions and an index
// of stored checkpoints: one forward pass gives every step a verdict, one
// backward walk (reverse BFS from the targets) finds what is needed. A first
// run is a recovery with nothing to reuse. Resolve makes the same decision for
// one step while the run goes on, when its upstreams have ended.
//
// The package has no clock, no I/O and no context and never sees an error; it
// runs nothing (package host) and stores nothing (package checkpoint).
//
// # Design
//
// Why a worklist and not repeated passes? Verdicts only fall (current to
// unknown) and needed only grows, so each node and edge is touched a constant
// number of times: 1,000,000 nodes plan in linear time, where repeating the
// pass until nothing changes is quadratic on a chain of volatile steps.
//
// Why does the search not stop at the first depth with a hit? That leaves
// branches of the graph without data. Each branch is followed until a current
// step with data.
//
// Why do the upstreams of an unknown step need data, when it may turn out to be
// reused? It may also turn out to run, and then it is too late: a step that is
// current only by name (a husk) would have to run in the middle, and its new
// answer could differ from the one others were built on.
//
// Why is a step that is skipped because its upstream was skipped not stored?
// It follows from the upstream alone; a record could only disagree with it.
//
// Why is a step first compared with its own newest record? Comparing digests
// is ten times cheaper than hashing a plan key, and almost always decides.
package recovery

// Package steptest checks what must hold for any step: that the examples of its
// manifest give their outputs, that outputs fit their schema, that bad input is
// refused as such, that a step without effects repeats itself, and that
// deadlines and cancels are obeyed. It also runs recorded cases.
//
// Run it in the test of a step, or on a plugin that a loader has loaded; it
// knows nothing of carriers. What it cannot know is whether the answer is
// right.
//
// # Design
//
// Why is Check beside Run? A command that tests a plugin has no *testing.T.
//
// Why cases with recorded http? A step that asks a model is testable without the
// model, the network and a key. Requests are matched by the parts that a case
// names, so that a new header of the step breaks no case.
//
// Why does a misspelt field of a case fail, when manifests and messages ignore
// what they do not know? A check that is misspelt would not be made, and nobody
// would notice.
package steptest

// Package steptest checks what must hold for any step: that the examples of its
// manifest give their outputs, that bad input is refused as such, that a step
// without effects repeats itself, and that deadlines and cancels are obeyed.
//
// Run it in the test of a step, or on a plugin that a loader has loaded; it
// knows nothing of carriers. What it cannot know is whether the answer is
// right.
//
// # Design
//
// Why is Check beside Run? A command that tests a plugin has no *testing.T.
//
// Why no cases with recorded http? This engine has no operation http yet.
package steptest

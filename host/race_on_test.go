//go:build race

package host

// largeFlow is the number of steps of TestLargeFlows: under the race detector a
// tenth, since it makes everything ten times slower.
const largeFlow = 2_000

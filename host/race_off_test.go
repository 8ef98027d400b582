//go:build !race

package host

// largeFlow is the number of steps of TestLargeFlows.
const largeFlow = 20_000

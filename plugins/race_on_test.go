//go:build race

package plugins_test

// underRace: the race detector makes the compiler of modules ten times slower,
// and sees nothing of what runs in one. One module shows the carrier.
const underRace = true

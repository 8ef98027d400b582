//go:build !race

package plugins_test

const underRace = false

//go:build !linux

package wasm

import "testing"

// eachLevel runs a test on the one level of isolation that there is here.
func eachLevel(t *testing.T, test func(t *testing.T, o Options)) { test(t, Options{}) }

//go:build !unix

package main

import (
	"os"
	"syscall"
)

// ansiByDefault: an older console shows escape sequences as text, so the live
// view must be asked for.
const ansiByDefault = false

const continued = syscall.Signal(0)

// There is no signal for a new size; each frame asks for it.
var screenSignals []os.Signal

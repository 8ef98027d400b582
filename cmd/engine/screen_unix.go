//go:build unix

package main

import (
	"os"
	"syscall"
)

// ansiByDefault: terminals understand escape sequences without being asked.
const ansiByDefault = true

// continued is the signal after a stop (Ctrl-Z, fg).
const continued = syscall.SIGCONT

var screenSignals = []os.Signal{syscall.SIGWINCH, continued}

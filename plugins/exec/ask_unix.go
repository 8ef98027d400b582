//go:build unix

package exec

import (
	"os"
	"syscall"
)

// ask tells a program to end. What it leaves behind is killed after grace, its
// descendants when the plugin's process ends.
func ask(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

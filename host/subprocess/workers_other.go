//go:build !linux

package subprocess

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// limitsTime says that confine limits the time of the processor; here the clock
// does.
const limitsTime = false

func dieWithUs() *syscall.SysProcAttr { return nil }

// confinement is what a process leaves itself where the system lets it give
// something up.
type confinement struct {
	memory, time, files, fileSize uint64
	read, write                   []string
}

func confine(confinement) error { return nil }

// Isolates says why this program cannot run modules in processes of their own.
func Isolates() error {
	return fmt.Errorf("modules run in processes of their own on Linux only, not on %s; use --isolation inprocess", runtime.GOOS)
}

// Compiles says why this program cannot compile modules in processes of its own;
// nil if it can.
func Compiles() error { return nil }

// Isolate says that there are no workers on this system.
func (l *Loader) Isolate(loader.Job) (loader.Isolated, error) {
	return nil, &sdk.Error{Class: sdk.ClassSandbox, Code: "isolation", Message: Isolates().Error()}
}

func workerMain(func([]byte, []*os.File) (sdk.Step, error)) {
	die(errors.New("there are no workers on this system"))
}

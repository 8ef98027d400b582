//go:build !linux

package subprocess

import (
	"os"
	"os/exec"
	"sync"
)

// tree is the process itself: what it has started cannot be found here.
type tree struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	done bool // it has ended
	dead bool // it was killed, perhaps before it was started
}

func (t *tree) under(string, *exec.Cmd) {}

func (t *tree) open(*exec.Cmd) error { return nil }

func (t *tree) lock() (unlock func()) { return func() {} }

func (t *tree) started(cmd *exec.Cmd, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cmd, t.done = cmd, err != nil
	if t.dead && !t.done {
		_ = cmd.Process.Kill()
	}
}

func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
	if t.cmd != nil && !t.done {
		_ = t.cmd.Process.Kill() // it may have ended
	}
}

func (t *tree) wait(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says all
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
}

func (t *tree) status() string { return "" }

// describeKilled is how a process ends that we have killed.
const describeKilled = "ended with signal: killed"

func describe(s *os.ProcessState) string {
	if s.Exited() {
		return exited(s.ExitCode())
	}
	return "ended with " + s.String()
}

// peakMemory is not told everywhere.
func peakMemory(*os.ProcessState) int64 { return 0 }

package subprocess

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/retrace-dev/engine/host/subprocess/internal/runner"
)

// tree kills a process with everything it has started. Under a runner the
// runner does; directly it is the process group, which what leaves its session
// escapes.
type tree struct {
	mu    sync.Mutex
	pid   int
	done  bool       // it has ended; its numbers may be another's
	dead  bool       // it was killed, perhaps before it was started
	given []*os.File // ends that the child has, closed once it has them

	life   *os.File // the runner kills when this is closed; nil without a runner
	report *os.File // how the plugin ended, in the runner's words
	text   string
}

// under arranges for cmd to run under a runner made of the executable self, or
// directly if self is "".
func (t *tree) under(self string, cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if self == "" {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		return
	}
	cmd.Args = []string{runner.Name, cmd.Path, cmd.Args[0]}
	cmd.Env = append(cmd.Env, runner.Env+"=1")
	cmd.Path = self
}

// open makes the pipes to a runner, once the process is to be started.
func (t *tree) open(cmd *exec.Cmd) error {
	if cmd.Args[0] != runner.Name {
		return nil
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		_ = lifeR.Close()
		_ = lifeW.Close()
		return err
	}
	t.life, t.report = lifeW, reportR
	t.given = []*os.File{lifeR, reportW}
	cmd.ExtraFiles = t.given // descriptors 3 and 4
	return nil
}

// lock keeps the goroutine on its thread: the death signal of a direct child
// comes when the thread that started it ends.
func (t *tree) lock() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func (t *tree) started(cmd *exec.Cmd, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.given {
		_ = f.Close()
	}
	if err != nil {
		t.done = true
		t.close()
		return
	}
	t.pid = cmd.Process.Pid
	if t.dead {
		t.killLocked()
	}
}

// close closes our ends.
func (t *tree) close() {
	for _, f := range []*os.File{t.life, t.report} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (t *tree) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
	if t.pid != 0 && !t.done {
		t.killLocked()
	}
}

func (t *tree) killLocked() {
	switch {
	case t.life == nil:
		_ = unix.Kill(-t.pid, unix.SIGKILL) // it may have ended
	default:
		_ = t.life.Close()
		_ = unix.Kill(t.pid, unix.SIGCONT) // a plugin may have stopped its runner
	}
}

// wait waits for the process and ends what it has left behind in its group,
// before the number of the group can be given to another.
func (t *tree) wait(cmd *exec.Cmd) {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	t.mu.Lock()
	_ = unix.Kill(-t.pid, unix.SIGKILL)
	t.done = true
	t.mu.Unlock()
	_ = cmd.Wait() // the state says all
	if t.report != nil {
		b, _ := io.ReadAll(io.LimitReader(t.report, 1<<10)) // what cannot be read is not reported
		t.text = string(b)
		if ws, ok := runner.ParseReport(t.text); ok {
			t.text = describeStatus(ws)
		}
	}
	t.close()
}

// status is how the plugin ended in the runner's words, "" without a runner.
func (t *tree) status() string { return t.text }

// describeKilled is how a process ends that we have killed.
var describeKilled = describeStatus(unix.WaitStatus(unix.SIGKILL))

func describe(s *os.ProcessState) string {
	ws, ok := s.Sys().(syscall.WaitStatus)
	if !ok {
		return "ended with " + s.String()
	}
	return describeStatus(unix.WaitStatus(ws))
}

// peakMemory is how many bytes of memory a process that has ended held at most.
func peakMemory(s *os.ProcessState) int64 {
	use, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return use.Maxrss << 10
}

func describeStatus(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%s)", int(ws.Signal()), unix.SignalName(ws.Signal()))
	}
	return exited(ws.ExitStatus())
}

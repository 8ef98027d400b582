package subprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

var _ loader.Workers = (*Loader)(nil)

// compileJob is what a compile worker is started with.
type compileJob struct {
	Dir    string        `json:"dir"`
	Time   time.Duration `json:"time"`
	Memory int64         `json:"memory"`
}

// compileAnswer is what it prints.
type compileAnswer struct {
	Done    bool       `json:"done"`
	Refused string     `json:"refused,omitempty"`
	Error   *sdk.Error `json:"error,omitempty"`
}

// patience is how much longer than CompileTime a compile worker may take by the
// clock: a busy machine must not make a module unusable.
const patience = 60

// Compile starts a compile worker: this executable again, confined to dir, with
// Options.CompileTime and CompileMemory. It ends with ctx.
func (l *Loader) Compile(ctx context.Context, module []byte, dir string) error {
	job, err := sdk.Marshal(compileJob{dir, l.o.CompileTime, l.o.CompileMemory})
	if err != nil {
		return sdk.AsError(err)
	}
	wall := l.o.CompileTime
	if limitsTime {
		wall *= patience
	}
	own, cancel := context.WithTimeoutCause(ctx, wall, l.tooSlow())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := &exec.Cmd{
		Path: l.self, Args: []string{compilerName, string(job)}, Env: []string{jobEnv + "=1"},
		Stdin: bytes.NewReader(module), Stdout: &stdout, Stderr: &stderr, SysProcAttr: dieWithUs(),
	}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() { // a death signal comes when the thread that started the process ends
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("the compile worker did not start: %v", err)}
	}
	select {
	case err = <-ended:
	case <-own.Done():
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		return sdk.Ended(own)
	}
	var a compileAnswer
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &a)
	}
	switch {
	case err == nil && a.Error != nil:
		return a.Error
	case err == nil && a.Refused != "" && !outOfMemory(a.Refused):
		return fmt.Errorf("%s", a.Refused)
	case err == nil && a.Done:
		return nil
	case outOfMemory(a.Refused) || starved(stderr.String(), cmd.ProcessState, l.o.CompileMemory):
		return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: loader.CodeCompileMemory, Message: fmt.Sprintf("compiling took more than %d MiB of memory; use fewer or smaller functions", l.o.CompileMemory>>20)}
	case limitsTime && usedUp(cmd.ProcessState, l.o.CompileTime):
		return l.tooSlow()
	}
	return &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("the compile worker %s: %s", describe(cmd.ProcessState), firstLineOf(stderr.Bytes()))}
}

func (l *Loader) tooSlow() *sdk.Error {
	return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: loader.CodeCompileTime, Message: fmt.Sprintf("compiling took more than %s; use fewer or smaller functions", l.o.CompileTime)}
}

// usedUp reports whether a process that was killed had taken the processor for
// so long: the kernel counts the limit in ticks, and what it tells afterwards
// more exactly, so that the two differ on a busy machine.
func usedUp(s *os.ProcessState, limit time.Duration) bool {
	return s.UserTime()+s.SystemTime() >= limit/2
}

// outOfMemory reports whether a message is of Go's runtime, or of a system call,
// that got no memory.
func outOfMemory(text string) bool {
	for _, words := range []string{"out of memory", "cannot allocate", "cannot map pages"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// starved reports whether a process that said this died for want of memory, of which
// it could have so much. Go's runtime does not see everywhere that it got none, and
// breaks a little later.
func starved(said string, s *os.ProcessState, limit int64) bool {
	return outOfMemory(said) || strings.HasPrefix(said, "SIGSEGV") && peakMemory(s) >= limit/2
}

// firstLineOf is the first line of what a worker has left on stderr.
func firstLineOf(stderr []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(stderr), []byte("\n"))
	if len(line) == 0 {
		return "it said nothing"
	}
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), "\uFFFD")
}

// compilerMain does a compile worker's work and exits.
func compilerMain(compile func([]byte, string) error) {
	var job compileJob
	if err := json.Unmarshal([]byte(os.Args[1]), &job); err != nil {
		die(err)
	}
	module, err := io.ReadAll(os.Stdin)
	if err != nil {
		die(err)
	}
	if err := confine(confinement{
		memory: uint64(job.Memory), time: uint64((job.Time + time.Second - 1) / time.Second),
		files: 64, fileSize: compiledSize, write: []string{job.Dir},
	}); err != nil {
		die(err)
	}
	debug.SetMemoryLimit(job.Memory * 3 / 4) // collect more often before it fails
	a := compileAnswer{Done: true}
	if err := compile(module, job.Dir); err != nil {
		a = compileAnswer{Refused: err.Error()}
		if e, ok := err.(*sdk.Error); ok {
			a = compileAnswer{Error: e}
		}
	}
	b, err := sdk.Marshal(a)
	if err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		die(err)
	}
	os.Exit(0)
}

// compiledSize bounds the files that a compile worker writes.
const compiledSize = 1 << 30

// die ends a worker that cannot do its work. The parent shows the line.
func die(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

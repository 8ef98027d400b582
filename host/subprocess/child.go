package subprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin/runner"
)

// maxHandshake is how long the first line of stdout may be.
const maxHandshake = 4 << 10

// child is the operating system's side of a process. It is go-plugin's Runner:
// go-plugin sees the first line of stdout and nothing of stderr.
type child struct {
	path, exe string
	cmd       *exec.Cmd
	socketDir string
	tree      tree // how to kill what it has started
	stdout    *firstLine
	stderr    *stderrLines
	exited    chan struct{} // closed when it has ended and its output was read
	startErr  error         // set before Start returns
	killed    atomic.Bool   // by us, while it may have lived

	endOnce sync.Once
}

var _ runner.Runner = (*child)(nil)

func newChild(o Options, path, exe, tmp string) *child {
	c := &child{path: path, exe: exe, stdout: newFirstLine(), stderr: &stderrLines{logger: o.Logger.With("plugin", path)}, exited: make(chan struct{})}
	c.cmd = &exec.Cmd{Path: exe, Args: []string{path}, Dir: tmp, Env: []string{"TMPDIR=" + tmp, "TMP=" + tmp, "TEMP=" + tmp}}
	for _, k := range inheritedEnv {
		if v, ok := os.LookupEnv(k); ok {
			c.cmd.Env = append(c.cmd.Env, k+"="+v)
		}
	}
	c.tree.under(o.Self, c.cmd)
	return c
}

// prepare takes what go-plugin wants in the environment.
func (c *child) prepare(env []string, socketDir string) {
	c.cmd.Env = append(c.cmd.Env, env...)
	c.socketDir = socketDir
}

// Start runs the command. Its output is read to the end by goroutines that end
// with the process; exited is closed after them.
func (c *child) Start(context.Context) error {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return c.notStarted(err)
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		return c.notStarted(errors.Join(err, stdout.Close(), stdoutW.Close()))
	}
	c.cmd.Stdout, c.cmd.Stderr = stdoutW, stderrW
	started := make(chan error)
	go c.supervise(started, stdout, stderr, stdoutW, stderrW)
	if err := <-started; err != nil {
		return c.notStarted(err)
	}
	return nil
}

func (c *child) notStarted(err error) error {
	c.startErr = err
	c.stdout.end()
	c.endOnce.Do(func() { close(c.exited) })
	return err
}

// supervise owns the process from its start to its end.
func (c *child) supervise(started chan<- error, stdout, stderr, stdoutW, stderrW *os.File) {
	unlock := c.tree.lock()
	defer unlock()
	err := c.tree.open(c.cmd)
	if err == nil {
		err = startRetrying(c.cmd)
	}
	_ = stdoutW.Close() // the child has its own
	_ = stderrW.Close()
	c.tree.started(c.cmd, err)
	if err != nil {
		_ = stdout.Close()
		_ = stderr.Close()
		started <- err
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		_, _ = io.Copy(c.stdout, stdout) // ends at the end of the process, however that comes
		c.stdout.end()
		_ = stdout.Close()
	})
	c.stderr.drain = readLines(&reading, stderr, c.stderr)
	started <- nil
	c.tree.wait(c.cmd)
	finish(stdout, stderr)
	reading.Wait()
	c.endOnce.Do(func() { close(c.exited) })
}

// startRetrying starts the command. A file that was written a moment ago may be
// held open by a process that another goroutine is just starting.
func startRetrying(cmd *exec.Cmd) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := cmd.Start()
		if err == nil || !isTextBusy(err) || wait > time.Second {
			return err
		}
		time.Sleep(wait)
		next := *cmd
		*cmd = exec.Cmd{Path: next.Path, Args: next.Args, Env: next.Env, Dir: next.Dir, Stdout: next.Stdout, Stderr: next.Stderr, ExtraFiles: next.ExtraFiles, SysProcAttr: next.SysProcAttr}
	}
}

// how says how the process ended. It must be called after exited is closed.
func (c *child) how() string {
	if s := c.tree.status(); s != "" {
		return s
	}
	if c.startErr != nil {
		return "could not be started"
	}
	return describe(c.cmd.ProcessState)
}

// killTree kills the process with everything it has started. It does not wait.
func (c *child) killTree() {
	c.killed.Store(true)
	c.tree.kill()
}

// byItself reports whether a process that ended as how did so before it was
// killed.
func (c *child) byItself(how string) bool {
	return !c.killed.Load() || how != describeKilled
}

// Wait, Kill and the rest are for go-plugin.

// Wait returns when the process has ended.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return nil
}

// Kill kills the tree.
func (c *child) Kill(context.Context) error {
	c.killTree()
	return nil
}

// Stdout gives the handshake line alone.
func (c *child) Stdout() io.ReadCloser { return c.stdout.reader() }

// Stderr gives nothing; it is read elsewhere.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the plugin's path.
func (c *child) Name() string { return c.path }

// ID is anything but empty, which for go-plugin means that nothing runs.
func (c *child) ID() string { return c.path }

// Diagnose says nothing; startError does.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost refuses an address that is not in the directory of this process.
func (c *child) PluginToHost(network, addr string) (string, string, error) {
	if network == "unix" && filepath.Dir(filepath.Clean(addr)) != filepath.Clean(c.socketDir) {
		return "", "", fmt.Errorf("its socket %s is not in $PLUGIN_UNIX_SOCKET_DIR", addr)
	}
	if network != "unix" && !autoMTLS {
		return "", "", fmt.Errorf("it listens on %s, want a unix socket in $PLUGIN_UNIX_SOCKET_DIR", network)
	}
	return network, addr, nil
}

// HostToPlugin returns its arguments.
func (c *child) HostToPlugin(network, addr string) (string, string, error) { return network, addr, nil }

var handshakeRE = regexp.MustCompile(`^\d+\|\d+\|[a-z]+\|`)

func looksLikeHandshake(line []byte) bool { return handshakeRE.Match(line) }

// firstLine takes all of stdout, passes the first line on and keeps the first
// bytes for messages.
type firstLine struct {
	mu    sync.Mutex
	line  []byte
	head  []byte
	whole bool          // line is complete
	ready chan struct{} // closed when the line is complete or nothing more will come
}

func newFirstLine() *firstLine { return &firstLine{ready: make(chan struct{})} }

func (f *firstLine) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head = append(f.head, b[:min(len(b), maxHandshake-len(f.head))]...)
	if f.done() {
		return len(b), nil
	}
	line, _, complete := bytes.Cut(b, []byte("\n"))
	f.line = append(f.line, line[:min(len(line), maxHandshake-len(f.line))]...)
	if complete || len(f.line) == maxHandshake {
		f.whole = true
		close(f.ready)
	}
	return len(b), nil
}

func (f *firstLine) done() bool {
	select {
	case <-f.ready:
		return true
	default:
		return false
	}
}

func (f *firstLine) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.done() {
		close(f.ready)
	}
}

func (f *firstLine) firstLine() (line []byte, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.line), f.whole
}

func (f *firstLine) seen() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.head)
}

// reader waits for the line, gives it and ends.
func (f *firstLine) reader() io.ReadCloser { return &lineReader{f: f} }

type lineReader struct {
	f    *firstLine
	rest io.Reader
}

func (r *lineReader) Read(b []byte) (int, error) {
	if r.rest == nil {
		<-r.f.ready
		line, whole := r.f.firstLine()
		if whole {
			line = append(line, '\n')
		}
		r.rest = bytes.NewReader(line)
	}
	return r.rest.Read(b)
}

func (r *lineReader) Close() error { return nil }

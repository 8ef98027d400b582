package subprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess/internal/runner"
	"github.com/retrace-dev/engine/sdk"
)

var buildWorker = sync.OnceValues(func() (string, error) {
	exe := filepath.Join(buildDir, "worker")
	c := exec.Command("go", "build", "-o", exe, "./testdata/worker")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return string(out), err
	}
	return exe, os.Chmod(buildDir, 0o755) // for an unprivileged user
})

// workerExe is the executable of workers, built without cgo.
func workerExe(t testing.TB) string {
	t.Helper()
	exe, err := buildWorker()
	if err != nil {
		t.Fatal(exe, err)
	}
	return exe
}

// acts returns workers that do what they are told.
func acts(t testing.TB, l *Loader, limits loader.Limits) *isolated {
	t.Helper()
	return works(t, l, `"acts"`, limits)
}

func works(t testing.TB, l *Loader, spec string, limits loader.Limits) *isolated {
	t.Helper()
	w, err := l.Isolate(loader.Job{Path: "acts.wasm", Limits: limits.WithDefaults(), Spec: []byte(spec)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w.(*isolated)
}

func newWorkers(t testing.TB) *Loader {
	t.Helper()
	return New(Options{Self: workerExe(t), TempDir: tempDir(t)})
}

func TestIsolatedAttempts(t *testing.T) {
	t.Parallel()
	s := acts(t, newWorkers(t), loader.Limits{})
	if out, err := run(t, s, `{"do":"echo","text":"中文 🏴 עברית <&>\u2028"}`); err != nil || out != `"中文 🏴 עברית <&>\u2028"` {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(t, s, `{"do":"big","text":"\u2028abc","n":2700000}`); err != nil || len(out) != 9*2700000+2 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	for in, want := range map[string]*sdk.Error{
		`{"do":"quota"}`: {Class: sdk.ClassQuota, Code: "c", Message: "中文", RetryAfterMS: 7},
		`{"do":"stack"}`: {Class: sdk.ClassPluginCrash, Code: "stack_overflow", Details: json.RawMessage(`{"trace":["f"]}`), Stderr: "last\nlines"},
		`{"do":"?"}`:     {Class: sdk.ClassInternal, Message: `no act: "?"`},
	} {
		_, err := run(t, s, in)
		if d := cmp.Diff(want, sdk.AsError(err)); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
}

// TestAWorkerIsReplaced: one serves many attempts, unless an attempt has ended in
// a way that casts doubt on it, or it has served enough.
func TestAWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	s := acts(t, newWorkers(t), loader.Limits{})
	token := func() string {
		t.Helper()
		out, err := run(t, s, `{"do":"token"}`)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for in, c := range map[string]struct {
		class sdk.Class
		text  string
		kept  bool
	}{
		`{"do":"quota"}`:      {sdk.ClassQuota, "", true},
		`{"do":"stack"}`:      {sdk.ClassPluginCrash, "", false},
		`{"do":"exit","n":3}`: {sdk.ClassPluginCrash, "the worker process of module acts.wasm exited with status 3 during the attempt", false},
		`{"do":"hog"}`:        {sdk.ClassResourceExhausted, "the step needs more than 64 MiB", false},
		`{"do":"wait"}`:       {sdk.ClassTimeout, "the attempt's deadline", false},
		`{"do":"late"}`:       {sdk.ClassTimeout, "the attempt's deadline", false},
		`{"do":"hang"}`:       {sdk.ClassTimeout, "the attempt's deadline", false},
	} {
		before := token()
		ctx, cancel := context.WithCancelCause(t.Context())
		here := hostFunc(func(context.Context, []byte) ([]byte, error) {
			cancel(context.DeadlineExceeded)
			return nil, nil
		})
		_, err := s.Run(ctx, request(in), here)
		cancel(nil)
		if e := sdk.AsError(err); e == nil || e.Class != c.class || !strings.Contains(e.Message, c.text) {
			t.Errorf("%s: %v", in, err)
		} else if last := in == `{"do":"late"}`; last != (e.Stderr == "last words") || e.Code == codeFailed {
			t.Errorf("%s: code %q, stderr %q", in, e.Code, e.Stderr)
		}
		if kept := token() == before; kept != c.kept {
			t.Errorf("%s: the worker was kept: %t", in, kept)
		}
	}
	first, served := token(), s.idle[0].used
	for ; served < workerAttempts; served++ {
		if got := token(); got != first {
			t.Fatalf("replaced after %d attempts", served)
		}
	}
	if token() == first {
		t.Errorf("still there after %d attempts", served)
	}
}

// TestWorkersAtOnce: a worker has one attempt at a time.
func TestWorkersAtOnce(t *testing.T) {
	t.Parallel()
	s := acts(t, newWorkers(t), loader.Limits{})
	const n = 3
	var mu sync.Mutex
	here, tokens := 0, map[string]bool{}
	all := make(chan struct{})
	host := hostFunc(func(context.Context, []byte) ([]byte, error) {
		mu.Lock()
		if here++; here == n {
			close(all)
		}
		mu.Unlock()
		<-all
		return []byte("all"), nil
	})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			r, err := s.Run(t.Context(), request(`{"do":"meet"}`), host)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tokens[string(r.Output)] = true
		})
	}
	wg.Wait()
	if len(tokens) != n {
		t.Errorf("%d attempts ran in %d processes", n, len(tokens))
	}
}

// TestPreparedAttemptsFindAWorker: as many as are prepared, and no more are started
// than that.
func TestPreparedAttemptsFindAWorker(t *testing.T) {
	t.Parallel()
	s := acts(t, newWorkers(t), loader.Limits{})
	prepare := func() func() {
		t.Helper()
		release, err := s.Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	there := func(want int) {
		t.Helper()
		if len(s.idle) != want || s.live != want {
			t.Fatalf("%d workers wait, %d live, want %d", len(s.idle), s.live, want)
		}
	}
	there(0)
	first, second := prepare(), prepare()
	there(2)
	first()
	first = prepare()
	there(2)
	if _, err := run(t, s, `{"do":"token"}`); err != nil {
		t.Fatal(err)
	}
	there(2)
	if _, err := run(t, s, `{"do":"exit","n":3}`); err == nil {
		t.Fatal("it lives")
	}
	there(1)
	first()
	first = prepare()
	there(2)
	dead := s.idle[0]
	dead.kill()
	second()
	second = prepare()
	there(2)
	if s.idle[0] == dead || s.idle[1] == dead {
		t.Error("a dead worker is still there")
	}
	first()
	second()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Prepare(t.Context()); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Errorf("after Close: %v", err)
	}
}

// TestCloseOfWorkers ends attempts, and leaves no process and no file.
func TestCloseOfWorkers(t *testing.T) {
	t.Parallel()
	s := acts(t, newWorkers(t), loader.Limits{})
	closeEnds(t, s, s, `{"do":"hang"}`)
}

func TestWorkerStartFails(t *testing.T) {
	t.Parallel()
	l := newWorkers(t)
	w, err := l.Isolate(loader.Job{Path: "m.wasm", Limits: loader.Limits{}.WithDefaults(), Spec: []byte(`"none"`)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Prepare(t.Context())
	if e := sdk.AsError(err); e == nil || e.Code != loader.CodeStart {
		t.Error(err)
	}
	_, err = w.Run(t.Context(), request(`{}`), &recorder{})
	if e := sdk.AsError(err); e.Class != sdk.ClassInternal || e.Code != loader.CodeStart || e.Message != "module m.wasm: its worker process did not start: there is no such module: 中文" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Run(ctx, request(`{}`), &recorder{}); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Error(err)
	}
}

// wantConfined checks what testdata/worker's escape answers.
func wantConfined(t *testing.T, got map[string]string) {
	t.Helper()
	may := map[string]bool{"write the own directory": true, "threads": true}
	if len(got) < 20 {
		t.Errorf("only %q was tried", got)
	}
	for what, answer := range got {
		switch {
		case what == "user":
		case may[what] != (answer == "done"):
			t.Errorf("%s: %s", what, answer)
		case may[what]:
		case !strings.Contains(answer, "not permitted") && !strings.Contains(answer, "denied") && what != "8 GiB":
			t.Errorf("%s: %s, which is not the sandbox's answer", what, answer)
		}
	}
}

// TestEscape: a worker that was taken over reaches nothing, whichever namespaces
// the system allows.
func TestEscape(t *testing.T) {
	t.Parallel()
	for k := range kinds {
		t.Run(kinds[k].name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			o := Options{Self: workerExe(t), TempDir: tempDir(t), Logger: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})}
			l := New(o)
			l.namespaces.Store(int32(k))
			out, err := run(t, acts(t, l, loader.Limits{}), fmt.Sprintf(`{"do":"escape","n":%d}`, os.Getpid()))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatal(err)
			}
			wantConfined(t, got)
			if used := l.namespaces.Load(); strings.Contains(log.String(), kinds[len(kinds)-1].name) != (int(used) == len(kinds)-1) && landlockABI() > 0 {
				t.Errorf("with %s the log says %q", kinds[used].name, log.String())
			}
		})
	}
}

// TestTheLogNamesTheConfinement: at warn where something is missing, once.
func TestTheLogNamesTheConfinement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, abi int
		want      string
	}{
		{0, 6, `[DEBUG] subprocess: modules run in worker processes: landlock_abi=6 seccomp=true namespaces="user, pid, net and ipc namespaces"`},
		{1, 1, `[DEBUG] subprocess: modules run in worker processes: landlock_abi=1 seccomp=true namespaces="pid, net and ipc namespaces"`},
		{2, 6, `[WARN]  subprocess: modules run in worker processes: landlock_abi=6 seccomp=true namespaces="no namespaces"`},
		{0, 0, `[WARN]  subprocess: modules run in worker processes: landlock_abi=0 seccomp=true namespaces="user, pid, net and ipc namespaces"`},
	} {
		var log bytes.Buffer
		l := New(Options{Logger: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug, DisableTime: true})})
		l.tellConfinement(int32(c.kind), c.abi)
		l.tellConfinement(int32(c.kind), c.abi)
		if got := strings.TrimSpace(log.String()); got != c.want {
			t.Errorf("%s, Landlock %d: %s", kinds[c.kind].name, c.abi, got)
		}
	}
}

// TestUnprivilegedEngine: the same holds for an engine that is nobody.
func TestUnprivilegedEngine(t *testing.T) {
	t.Parallel()
	c, out := startActor(t, `{"do":"escape"}`, true)
	defer c.stop(t)
	var got map[string]string
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(out, err)
	}
	wantConfined(t, got)
}

// TestNoWorkerOutlivesTheEngine: the engine is killed with SIGKILL.
func TestNoWorkerOutlivesTheEngine(t *testing.T) {
	t.Parallel()
	c, _ := startActor(t, `{"do":"token"}`, false)
	workers := descendants(c.cmd.Process.Pid)
	if len(workers) == 0 {
		t.Fatal("there is no worker")
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.stop(t)
	for _, pid := range workers {
		for syscall.Kill(pid, 0) != syscall.ESRCH { // the test's own limit says if it never ends
			if t.Context().Err() != nil {
				t.Fatalf("worker %d lives", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// actor is testdata/worker playing the engine.
type actor struct {
	cmd *exec.Cmd
	in  interface{ Close() error }
}

func (a *actor) stop(t *testing.T) {
	t.Helper()
	_ = a.in.Close()
	_ = a.cmd.Wait() // it may have been killed
}

// startActor starts an engine that has a worker do in, and returns its answer.
func startActor(t *testing.T, in string, unprivileged bool) (*actor, string) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) }) // a killed engine leaves its files
	c := exec.Command(workerExe(t), in)
	c.Env, c.Stderr = append(os.Environ(), "TMPDIR="+tmp), os.Stderr
	if unprivileged && os.Getuid() == 0 {
		if err := os.Chown(tmp, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		c.Dir = tmp
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	a := &actor{c, stdin}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		a.stop(t)
		t.Fatalf("%q, %v", line, err)
	}
	return a, line
}

// descendants are the processes that descend from pid.
func descendants(pid int) (found []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var child int
		if _, err := fmt.Sscan(e.Name(), &child); err != nil {
			continue
		}
		if ppid, ok := runner.ParentOf(child); ok && ppid == pid {
			found = append(append(found, child), descendants(child)...)
		}
	}
	return found
}

package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRun is a run that does what a test says.
type fakeRun struct {
	mu        sync.Mutex
	at        control.Snapshot
	cancelled chan string
}

func newRun() *fakeRun {
	return &fakeRun{at: control.Snapshot{PID: 1, Run: "r_1", Workflow: "流程", Running: []string{`step.a["k"]`}}, cancelled: make(chan string, 8)}
}

func (r *fakeRun) Snapshot() control.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *fakeRun) Cancel(reason string) { r.cancelled <- reason }

func (r *fakeRun) end(s checkpoint.RunStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at.Status, r.at.Running = s, nil
}

// longDir is a state directory whose name does not fit into a socket's
// address.
func longDir(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func listen(t *testing.T, state string, r control.Run) *control.Server {
	t.Helper()
	s, err := control.Listen(state, r, checkpoint.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAsk(t *testing.T) {
	t.Parallel()
	state, r := longDir(t), newRun()
	if _, err := control.Ask(t.Context(), state); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("without a socket: %v", err)
	}
	s := listen(t, state, r)
	got, err := control.Ask(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r.at, *got); d != "" {
		t.Error(d)
	}
	for path, want := range map[string]os.FileMode{"control": 0o700, "control/run.sock": 0o600} {
		if info, err := os.Stat(filepath.Join(state, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	s.Close()
	s.Close()
	if _, err := control.Ask(t.Context(), state); !errors.Is(err, control.ErrNoRun) {
		t.Errorf("after Close: %v", err)
	}
}

// Cancel is answered when the run has ended, and to everybody who asked.
func TestCancel(t *testing.T) {
	t.Parallel()
	state, r := longDir(t), newRun()
	s := listen(t, state, r)
	if _, err := control.Cancel(t.Context(), state, "r_2", ""); err == nil || !strings.Contains(err.Error(), "run r_1 is going on, not r_2") {
		t.Errorf("another run: %v", err)
	}
	type answer struct {
		at  *control.Snapshot
		err error
	}
	answers := make(chan answer, 2)
	for _, run := range []checkpoint.RunID{"r_1", ""} {
		go func() {
			at, err := control.Cancel(t.Context(), state, run, "enough")
			answers <- answer{at, err}
		}()
	}
	for range 2 {
		if reason := <-r.cancelled; reason != "enough" {
			t.Errorf("reason %q", reason)
		}
	}
	select {
	case a := <-answers:
		t.Fatalf("answered before the run had ended: %+v", a)
	default:
	}
	r.end(checkpoint.RunCancelled)
	s.Close()
	for range 2 {
		if a := <-answers; a.err != nil || a.at.Status != checkpoint.RunCancelled {
			t.Errorf("%+v, %v", a.at, a.err)
		}
	}
}

// Whoever waits may go away; what a dead process left is no obstacle; what is
// said wrongly is answered.
func TestFaults(t *testing.T) {
	t.Parallel()
	state, r := t.TempDir(), newRun()
	ctx, cancel := context.WithCancelCause(t.Context())
	listen(t, state, newRun()) // as if killed: its socket stays
	s := listen(t, state, r)
	gone := errors.New("gone")
	go func() { <-r.cancelled; cancel(gone) }()
	if _, err := control.Cancel(ctx, state, "", ""); !errors.Is(err, gone) {
		t.Errorf("a waiting client: %v", err)
	}
	for text, want := range map[string]string{
		"{\n":                       "is not JSON",
		`{"v":2,"verb":"x"}` + "\n": "version 2 of the protocol is asked for, the run speaks 1",
		`{"v":1,"verb":"x"}` + "\n": `does not know \"x\"`,
	} {
		c, err := net.Dial("unix", filepath.Join(state, "control", "run.sock"))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<10)
		_, _ = c.Write([]byte(text))
		n, _ := c.Read(b)
		if !strings.Contains(string(b[:n]), want) {
			t.Errorf("%q is answered %q", text, b[:n])
		}
		_ = c.Close()
	}
	r.end(checkpoint.RunSucceeded)
	s.Close()
}

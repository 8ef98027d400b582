//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// watched is what a command wrote to its terminal so far.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
	end  chan struct{}
}

func watch(r io.Reader) *watched {
	w := &watched{more: make(chan struct{}, 1), end: make(chan struct{})}
	go func() {
		defer close(w.end)
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			w.mu.Lock()
			w.buf.Write(b[:n])
			w.mu.Unlock()
			select {
			case w.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return w
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await returns when the command has written text, or has ended.
func (w *watched) await(text string) bool {
	for !strings.Contains(w.String(), text) {
		select {
		case <-w.more:
		case <-w.end:
			return strings.Contains(w.String(), text)
		}
	}
	return true
}

// TestTerminalIsLeftWhole runs a step that never ends on a real terminal and
// ends the engine in every way: the cursor is visible and at the start of a
// line, lines wrap, and the terminal's own modes are as they were.
func TestTerminalIsLeftWhole(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "engine")
	build(t, ".", bin)
	probe, err := filepath.Abs("../../host/wasm/testdata/guests/probe.wasm")
	if err != nil {
		t.Fatal(err)
	}
	flow := `workflow "spins" {}
plugin "q" { source = "` + probe + `" }
step "spins" {
  uses = plugin.q.run
  input = { do = "spin" }
}
`
	for name, end := range map[string]struct {
		signals []syscall.Signal

		code int // -1: killed
	}{
		"interrupt":       {[]syscall.Signal{syscall.SIGINT}, exitCancel},
		"terminate":       {[]syscall.Signal{syscall.SIGTERM}, exitCancel},
		"interrupt twice": {[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, exitCancel},
		"quit":            {[]syscall.Signal{syscall.SIGQUIT}, 2}, // Go's own end: stacks of all goroutines
		"kill":            {[]syscall.Signal{syscall.SIGKILL}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "flow.hcl"), []byte(flow), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bin, "apply", "--progress", "tty", dir)
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=", "CI=")
			tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 20, Cols: 80})
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			w := watch(tty)
			if !w.await("running    step.spins") {
				t.Fatalf("the step was not seen to run:\n%s", w)
			}
			for _, s := range end.signals {
				if err := cmd.Process.Signal(s); err != nil && name != "interrupt twice" {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			<-w.end
			if code := cmd.ProcessState.ExitCode(); code != end.code {
				t.Errorf("exit %d, want %d:\n%s", code, end.code, w)
			}
			out := w.String()
			term := newTerminal(80, 20)
			if _, err := term.Emulator.Write([]byte(out)); err != nil {
				t.Fatal(err)
			}
			if p := term.CursorPosition(); p.X != 0 || term.hidden {
				t.Errorf("the cursor is in column %d, hidden %v:\n%s", p.X, term.hidden, term.text())
			}
			if strings.Count(out, "\x1b[?7l") != strings.Count(out, "\x1b[?7h") {
				t.Errorf("lines do not wrap any more: %q", out)
			}
			if seen := term.text(); strings.Contains(name, "interrupt") && len(end.signals) == 1 && !strings.Contains(seen, "the run was ended: cancelled") {
				t.Errorf("the end is not told:\n%s", seen)
			}
		})
	}
}

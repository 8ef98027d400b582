package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// terminal is an emulated one behind a line discipline, as a tty in its usual
// mode is.
type terminal struct {
	*vt.Emulator
	hidden bool
	writes int
}

func newTerminal(width, height int) *terminal {
	e := &terminal{Emulator: vt.NewEmulator(width, height)}
	e.SetCallbacks(vt.Callbacks{CursorVisibility: func(visible bool) { e.hidden = !visible }})
	return e
}

func (e *terminal) Write(p []byte) (int, error) {
	e.writes++
	_, err := e.Emulator.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}

// text is what a person sees, with what has scrolled away above it.
func (e *terminal) text() string {
	var b strings.Builder
	for y := range e.ScrollbackLen() {
		var l strings.Builder
		for x := range e.Width() {
			if c := e.ScrollbackCellAt(x, y); c != nil && c.Width > 0 {
				l.WriteString(c.Content)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	if b.Len() > 0 {
		b.WriteString("~~~ top of the window\n")
	}
	for _, l := range strings.Split(e.String(), "\n") {
		b.WriteString(strings.TrimRight(l, " \r") + "\n")
	}
	return b.String()
}

// stage is a live view on an emulated terminal whose frames the test draws.
type stage struct {
	t     *testing.T
	term  *terminal
	view  *liveApply
	now   time.Time
	began time.Time
}

func newStage(t *testing.T, width, height int) *stage {
	e := newTerminal(width, height)
	s := &screen{out: e, size: func() (int, int) { return e.Width(), e.Height() }, quit: make(chan struct{}), stopped: make(chan struct{})}
	close(s.stopped) // no goroutine draws
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &stage{t, e, &liveApply{screen: s}, began, began}
}

// at draws a frame so long after the start.
func (g *stage) at(d time.Duration) {
	g.now = g.began.Add(d)
	g.view.screen.draw(g.now)
	g.check()
}

// check: the terminal can be left at any moment.
func (g *stage) check() {
	g.t.Helper()
	if p := g.term.CursorPosition(); p.X != 0 || g.term.hidden {
		g.t.Errorf("the cursor is in column %d, hidden %v", p.X, g.term.hidden)
	}
}

func (g *stage) see(events ...host.Event) {
	for i := range events {
		events[i].Run = "r_one"
		if events[i].Time.IsZero() {
			events[i].Time = g.now
		}
	}
	g.view.Observe(events)
}

func started(step string) host.Event {
	return host.Event{Type: host.EventStarted, Step: step, Attempt: 1}
}

func begin(total, run int) host.Event {
	return host.Event{Type: host.EventRunStarted, Workflow: "w", Counts: &host.Counts{Total: total, ToRun: run}}
}

var unavailable = &sdk.Error{Class: sdk.ClassUnavailable, Message: "503 from\nthe host \x1b[2J"}

func TestScreen(t *testing.T) {
	t.Parallel()
	stages := map[string]func(t *testing.T) *stage{
		"run": func(t *testing.T) *stage {
			g := newStage(t, 100, 14)
			g.see(begin(9, 7),
				host.Event{Type: host.EventReused, Step: "step.old", Checkpoint: "chk_1", Reason: "unchanged", Saved: 192 * time.Second, SavedTokens: 41_234},
				host.Event{Type: host.EventReused, Step: "step.older", Checkpoint: "chk_2", Taken: true, Reason: "unchanged", Saved: time.Second})
			g.see(started("step.a"), started("step.b"), started("step.c"), started("step.d"))
			g.at(2 * time.Second)
			g.see(host.Event{Type: host.EventSucceeded, Step: "step.a", Attempt: 1, Checkpoint: "chk_3", Took: 2 * time.Second})
			g.see(host.Event{Type: host.EventAttemptFailed, Step: "step.b", Attempt: 1, Error: unavailable, Took: time.Second, Delay: 8 * time.Second})
			g.see(host.Event{Type: host.EventProgress, Step: "step.c", Fraction: 0.456, Message: "chapter 3\tof 7"})
			g.see(host.Event{Type: host.EventEmit, Step: "step.d", Message: "Es war einmal\n"}, host.Event{Type: host.EventEmit, Step: "step.d", Message: "从前有一个\x1b[31m国王"})
			g.see(host.Event{Type: host.EventLog, Step: "step.c", Level: "warn", Message: "slow\r", Fields: map[string]any{"n": 1}})
			g.at(6 * time.Second)
			return g
		},
		"failed": func(t *testing.T) *stage {
			g := newStage(t, 80, 12)
			g.see(begin(3, 3), started("step.a"), started("step.b"))
			g.at(0)
			g.see(host.Event{Type: host.EventFailed, Step: "step.a", Attempt: 2, Error: unavailable, Took: time.Second})
			g.see(host.Event{Type: host.EventSkipped, Step: "step.c", Reason: "upstream_failed: step.a failed"})
			g.view.screen.region.stopping = true
			g.at(3 * time.Second)
			return g
		},
		"narrow": func(t *testing.T) *stage {
			g := newStage(t, 24, 8)
			g.see(begin(4, 4), started("step.中文名字很长很长很长"), started("step.👩‍👩‍👧‍👦🏴󠁧󠁢󠁳󠁣󠁴󠁿👍🏽"), started("step.x"))
			g.see(host.Event{Type: host.EventEmit, Step: "step.x", Message: "שלום 你好 the newest words are at the end"})
			g.at(time.Second)
			return g
		},
		"thousand": func(t *testing.T) *stage {
			g := newStage(t, 60, 12)
			g.see(begin(1200, 1200))
			for i := range 1000 {
				g.see(started(fmt.Sprintf("step.s%04d", i)))
			}
			for i := range 5 {
				step := fmt.Sprintf("step.s%04d", 100+i)
				g.see(host.Event{Type: host.EventFailed, Step: step, Attempt: 1, Error: unavailable})
				g.see(host.Event{Type: host.EventAttemptFailed, Step: fmt.Sprintf("step.s%04d", 200+i), Attempt: 1, Error: unavailable, Delay: time.Minute})
			}
			g.at(10 * time.Second)
			return g
		},
		"resized": func(t *testing.T) *stage {
			g := newStage(t, 90, 10)
			g.see(begin(3, 3), started("step.one"), started("step.two"))
			g.at(time.Second)
			g.term.Resize(40, 10)
			g.see(host.Event{Type: host.EventSucceeded, Step: "step.one", Attempt: 1, Took: time.Second})
			g.at(2 * time.Second)
			return g
		},
		"ended": func(t *testing.T) *stage {
			g := newStage(t, 80, 8)
			g.see(begin(2, 2), started("step.a"))
			g.at(time.Second)
			fmt.Fprint(g.view.screen, "waiting for pid 7\nhalf a ")
			g.at(2 * time.Second)
			fmt.Fprint(g.view.screen, "line\n")
			g.see(host.Event{Type: host.EventSucceeded, Step: "step.a", Attempt: 1, Took: time.Second})
			g.view.close()
			g.check()
			fmt.Fprintln(g.view.screen, "run r_one succeeded")
			g.check()
			return g
		},
	}
	for name, play := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, "screen/"+name+".txt", play(t).term.text())
		})
	}
}

// TestRegionFits: whatever the window, the region is at most its height less
// two and narrower than it.
func TestRegionFits(t *testing.T) {
	t.Parallel()
	g := newStage(t, 80, 24)
	g.see(begin(60, 60))
	for i := range 40 {
		g.see(started(fmt.Sprintf("step.中文👩‍👩‍👧‍👦%d", i)))
		switch i % 4 {
		case 0:
			g.see(host.Event{Type: host.EventFailed, Step: fmt.Sprintf("step.中文👩‍👩‍👧‍👦%d", i), Error: unavailable})
		case 1:
			g.see(host.Event{Type: host.EventAttemptFailed, Step: fmt.Sprintf("step.中文👩‍👩‍👧‍👦%d", i), Error: unavailable, Delay: time.Hour})
		case 2:
			g.see(host.Event{Type: host.EventEmit, Step: fmt.Sprintf("step.中文👩‍👩‍👧‍👦%d", i), Message: strings.Repeat("长文 ", 100)})
		}
	}
	for width := 1; width < 100; width += 1 + width/20 {
		for _, height := range []int{1, 2, 3, 4, 5, 8, 13, 60} {
			lines := g.view.screen.region.lines(width, height, g.began.Add(time.Minute))
			if len(lines) > max(height-2, 1) {
				t.Fatalf("%dx%d: %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if w := uniseg.StringWidth(l); w > width-1 {
					t.Fatalf("%dx%d: %d columns: %q", width, height, w, l)
				}
			}
		}
	}
}

// TestScreenReflow: a terminal that wraps the old region when it becomes
// narrower is cleared of all of it.
func TestScreenReflow(t *testing.T) {
	t.Parallel()
	s := &screen{}
	s.shown, s.width = []string{strings.Repeat("x", 50), "中文中文", "short"}, 20
	if got := s.rows(); got != 3+1+1 {
		t.Errorf("%d rows", got)
	}
	s.width = 7
	if got := s.rows(); got != 8+2+1 {
		t.Errorf("%d rows", got)
	}
}

// blockedTerminal takes nothing until it is opened, like one stopped by Ctrl-S.
type blockedTerminal struct {
	open chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (b *blockedTerminal) Write(p []byte) (int, error) {
	<-b.open
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// TestScreenNeverBlocks: a terminal that takes nothing holds nobody up, and
// what was too much is counted.
func TestScreenNeverBlocks(t *testing.T) {
	t.Parallel()
	b := &blockedTerminal{open: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newScreen(ctx, b, progress{size: func() (int, int) { return 80, 24 }})
	line := []byte(strings.Repeat("y", 1023) + "\n")
	for range 3 * maxPending / len(line) {
		if _, err := s.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	close(b.open)
	s.close()
	s.close()
	out := b.buf.String()
	shown := strings.Count(out, "yyy\n")
	var dropped int
	for l := range strings.Lines(out) {
		var n int
		if k, _ := fmt.Sscanf(l, "… %d lines not shown", &n); k == 1 {
			dropped += n
		}
	}
	if want := 3 * maxPending / len(line); shown+dropped != want || dropped == 0 {
		t.Errorf("%d lines shown and %d dropped of %d", shown, dropped, want)
	}
}

func TestChooseProgress(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	var stderr bytes.Buffer
	for flag, want := range map[string]string{"auto": "plain", "plain": "plain", "quiet": "quiet"} {
		if p, err := chooseProgress(flag, &stderr, false, none); err != nil || p.mode != want {
			t.Errorf("%s: %q, %v", flag, p.mode, err)
		}
	}
	if p, _ := chooseProgress("auto", &stderr, true, none); p.mode != "quiet" {
		t.Errorf("with --json: %q", p.mode)
	}
	for _, flag := range []string{"tty", "fancy", ""} {
		if _, err := chooseProgress(flag, &stderr, false, none); err == nil {
			t.Errorf("%q without a terminal is no error", flag)
		}
	}
}

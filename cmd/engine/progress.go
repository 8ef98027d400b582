package main

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/retrace-dev/engine/host"
)

// progressModes are the values of --progress.
var progressModes = []string{"auto", "tty", "plain", "quiet"}

// progress is how a run is told on stderr.
type progress struct {
	mode  string // tty, plain or quiet
	color bool
	size  func() (width, height int)
}

// chooseProgress settles --progress. auto is tty where stderr is a terminal
// that a person looks at, and plain elsewhere; with --json, whose reader has
// the events, it is quiet.
func chooseProgress(flag string, stderr io.Writer, asJSON bool, env func(string) string) (progress, error) {
	p := progress{mode: flag}
	f, isFile := stderr.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	switch flag {
	case "auto":
		switch {
		case asJSON:
			p.mode = "quiet"
		case terminal && ansiByDefault && env("NO_COLOR") == "" && env("TERM") != "dumb" && env("CI") == "":
			p.mode = "tty"
		default:
			p.mode = "plain"
		}
	case "plain", "quiet":
	case "tty":
		if !terminal {
			return p, exit(exitUsage, "--progress tty needs a terminal on stderr; use --progress plain")
		}
	default:
		return p, exit(exitUsage, "--progress %q is none of %s", flag, strings.Join(progressModes, ", "))
	}
	p.color = env("NO_COLOR") == "" && env("TERM") != "dumb"
	p.size = func() (int, int) {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
		return 80, 24
	}
	return p, nil
}

// newApplyView makes the view of a run, and the streams through which
// everything else must speak while it is open: a live view owns the terminal.
func newApplyView(ctx context.Context, io streams, asJSON bool, p progress) (applyView, streams) {
	var story applyView
	switch p.mode {
	case "tty":
		s := newScreen(ctx, io.err, p)
		io.err = s
		story = &liveApply{textApply: textApply{textDiags: textDiags{io}}, screen: s}
	case "quiet":
		story = &quietApply{textApply{textDiags: textDiags{io}}}
	default:
		story = &textApply{textDiags: textDiags{io}}
	}
	if !asJSON {
		return story, io
	}
	writeVersion(io.out)
	j := &jsonApply{jsonDiags: jsonDiags{io}}
	if p.mode != "quiet" {
		j.story = story
	}
	return j, io
}

// quietApply tells of a run only what went wrong.
type quietApply struct{ textApply }

func (v *quietApply) Observe([]host.Event) {}

func (v *quietApply) result(res *host.Result) {
	v.failures(res)
}

// liveApply lets what has ended scroll away as textApply's lines and keeps
// what goes on in the region below.
type liveApply struct {
	textApply
	screen *screen
}

func (v *liveApply) Observe(events []host.Event) {
	var b strings.Builder
	for i := range events {
		e := &events[i]
		if e.Type == host.EventStarted || e.Type == host.EventWaiting {
			continue // the region has it
		}
		if s := v.line(e); s != "" {
			b.WriteString(v.paint(e, s) + "\n")
		}
	}
	v.screen.observe(events, b.String())
}

// paint colours the status word, which stays readable without.
func (v *liveApply) paint(e *host.Event, line string) string {
	color := ""
	switch e.Type {
	case host.EventFailed:
		color = "31"
	case host.EventSucceeded:
		color = "32"
	case host.EventAttemptFailed, host.EventCancelled:
		color = "33"
	case host.EventReused:
		color = "36"
	}
	const from, to = 2, 12 // where textApply puts the word
	if color == "" || !v.screen.color || len(line) < to {
		return line
	}
	return line[:from] + "\x1b[" + color + "m" + line[from:to] + "\x1b[m" + line[to:]
}

func (v *liveApply) close() { v.screen.close() }

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/rivo/uniseg"

	"github.com/retrace-dev/engine/host"
)

// screen shows lines that scroll away and a live region below them. Whoever
// tells it something never waits for the terminal: one goroutine draws.
//
// It changes no mode of the terminal that outlives one write, and leaves the
// cursor visible at the start of a line: however the process ends, the
// terminal is as it was.
type screen struct {
	out   io.Writer
	color bool
	size  func() (width, height int)

	mu      sync.Mutex
	pending []byte // lines to scroll away
	dropped int    // lines that a stopped terminal could not take
	region  region
	closed  bool

	quit, stopped chan struct{}
	drawer
}

// drawer is what the drawing goroutine alone knows.
type drawer struct {
	shown         []string // the region on the terminal, the cursor below it
	width, height int
	last          time.Time
}

const (
	frame      = 100 * time.Millisecond // at most ten frames a second
	maxPending = 4 << 20
)

// newScreen starts a screen; close ends it.
func newScreen(ctx context.Context, out io.Writer, p progress) *screen {
	s := &screen{out: out, color: p.color, size: p.size, quit: make(chan struct{}), stopped: make(chan struct{})}
	go s.loop(ctx)
	return s
}

func (s *screen) loop(ctx context.Context) {
	defer close(s.stopped)
	tick := time.NewTicker(frame)
	defer tick.Stop()
	signals := make(chan os.Signal, 1)
	if len(screenSignals) > 0 {
		signal.Notify(signals, screenSignals...)
		defer signal.Stop(signals)
	}
	cancelled := ctx.Done()
	for {
		select {
		case <-tick.C:
			s.draw(time.Now())
		case sig := <-signals:
			if sig == continued { // others have written meanwhile: begin below
				s.shown = nil
			}
			if time.Since(s.last) >= frame {
				s.draw(time.Now())
			}
		case <-cancelled:
			cancelled = nil
			s.mu.Lock()
			s.region.stopping = true
			s.mu.Unlock()
		case <-s.quit:
			return
		}
	}
}

// observe takes in events and the lines that tell them.
func (s *screen) observe(events []host.Event, lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		s.region.observe(&events[i])
	}
	s.push([]byte(lines))
}

// Write lets text scroll away above the region; a line is shown when it ends.
// After close it goes to the terminal itself.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.out.Write(p)
	}
	s.push(p)
	return len(p), nil
}

func (s *screen) push(p []byte) {
	if len(s.pending)+len(p) > maxPending {
		s.dropped += bytes.Count(p, []byte("\n"))
		return
	}
	s.pending = append(s.pending, p...)
}

// draw brings the terminal up to date, in one write.
func (s *screen) draw(now time.Time) {
	width, height := s.size()
	s.mu.Lock()
	whole := bytes.LastIndexByte(s.pending, '\n') + 1
	lines := s.take(s.pending[:whole:whole])
	s.pending = append([]byte(nil), s.pending[whole:]...)
	region := s.region.lines(width, height, now)
	s.mu.Unlock()
	if len(lines) == 0 && slices.Equal(region, s.shown) && width == s.width && height == s.height {
		return
	}
	s.width, s.height, s.last = width, height, now
	_, _ = s.out.Write(s.frame(lines, region)) // a terminal that went away must not end the run
}

// frame replaces the region on the terminal.
func (s *screen) frame(lines []byte, region []string) []byte {
	var b bytes.Buffer
	if rows := s.rows(); rows > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", rows)
	}
	if len(s.shown) > 0 {
		b.WriteString("\r\x1b[J")
	}
	b.Write(lines)
	if len(region) > 0 {
		// Without wrapping a width that the terminal sees differently cannot
		// move the lines below.
		b.WriteString("\x1b[?7l")
		for _, l := range region {
			b.WriteString(l + "\n")
		}
		b.WriteString("\x1b[?7h")
	}
	s.shown = region
	return b.Bytes()
}

// rows is how many rows the shown region takes. A window that became narrower
// has wrapped its lines.
func (s *screen) rows() int {
	rows := 0
	for _, l := range s.shown {
		rows += max(1, (uniseg.StringWidth(l)+s.width-1)/max(s.width, 1))
	}
	return rows
}

// close takes the region away and leaves everything else on the terminal.
func (s *screen) close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	close(s.quit)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width, _ = s.size()
	lines := s.pending
	if len(lines) > 0 && lines[len(lines)-1] != '\n' {
		lines = append(lines, '\n')
	}
	_, _ = s.out.Write(s.frame(s.take(lines), nil))
	s.pending = nil
}

// take adds to lines how many were dropped.
func (s *screen) take(lines []byte) []byte {
	if s.dropped > 0 {
		lines = fmt.Appendf(lines, "… %s not shown: the terminal took none\n", count(s.dropped, "line"))
		s.dropped = 0
	}
	return lines
}

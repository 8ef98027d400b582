package subprocess

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/sdk"
)

const (
	headLines = 3
	tailLines = 20
	tailBytes = 16 << 10
	maxLine   = 64 << 10
)

// listener is an attempt's ear on stderr.
type listener struct {
	ctx      context.Context // not ended by the attempt's end: the last lines say why
	host     sdk.Host
	limit    int64
	exceeded func(*sdk.Error)

	total int64
	tail  []string
}

func (l *listener) line(text string, n int) {
	if l.total > l.limit {
		return
	}
	if l.total += int64(n); l.total > l.limit {
		l.exceeded(&sdk.Error{Class: sdk.ClassResourceExhausted, Code: "stderr_too_large", Message: fmt.Sprintf("the step wrote more than %d bytes to stderr", l.limit)})
		return
	}
	if len(l.tail) == tailLines {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, text)
	sdk.Log(l.ctx, l.host, "info", text, nil)
}

// text returns the last lines, at most tailBytes of them. It must be called
// after detach.
func (l *listener) text() string {
	s := strings.Join(l.tail, "\n")
	if len(s) > tailBytes {
		s = strings.ToValidUTF8(s[len(s)-tailBytes:], "")
	}
	return s
}

// stderrLines splits a process's stderr into lines and gives each to the
// attempts that run; what is said between attempts goes to the logger.
type stderrLines struct {
	logger hclog.Logger
	drain  func() // reads what is there; nil where that cannot be told

	mu        sync.Mutex
	part      []byte
	head      []string // the first lines of the process: the runtime's own reason to die
	tail      []string // the last ones, for a failed start
	listeners []*listener
}

func (s *stderrLines) attach(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

// detach ends a line that the attempt has left open, unless another attempt may
// have begun it.
func (s *stderrLines) detach(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) == 1 && len(s.part) > 0 {
		s.line()
	}
	s.listeners = slices.DeleteFunc(s.listeners, func(o *listener) bool { return o == l })
}

// barrier returns when everything the plugin had written has been given to the
// listeners, where the system can tell.
func (s *stderrLines) barrier() {
	if s.drain != nil {
		s.drain()
	}
}

func (s *stderrLines) write(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(b) > 0 {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		s.part = append(s.part, line...)
		if complete || len(s.part) > maxLine {
			s.line()
		}
		b = rest
	}
}

// flush gives away the last line, which has no end.
func (s *stderrLines) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.part) > 0 {
		s.line()
	}
}

func (s *stderrLines) line() {
	n := len(s.part) + 1
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(s.part, []byte("\r"))), "\uFFFD")
	s.part = s.part[:0]
	if len(s.head) < headLines {
		s.head = append(s.head, text)
	}
	if len(s.tail) == tailLines {
		s.tail = append(s.tail[:0], s.tail[1:]...)
	}
	s.tail = append(s.tail, text)
	if len(s.listeners) == 0 {
		s.logger.Debug("stderr", "line", text)
	}
	for _, l := range s.listeners {
		l.line(text, n)
	}
}

// text returns the last lines of the process.
func (s *stderrLines) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (&listener{tail: s.tail}).text()
}

// first returns the first lines of the process.
func (s *stderrLines) first() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.head, "\n")
}

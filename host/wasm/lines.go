package wasm

import (
	"bytes"
	"context"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

const (
	tailLines = 20
	tailBytes = 16 << 10
	maxLine   = 64 << 10
)

// lines is what an attempt says on stderr: every line goes to the host, the
// last ones are kept for the error. It implements io.Writer for the guest.
type lines struct {
	a     *attempt
	total int64
	part  []byte // of the line that is not complete
	tail  []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.a.check()
	if l.total += int64(len(b)); l.total > l.a.limits.Stderr {
		l.a.end(exhausted(codeStderrTooLarge, "the step wrote more than %d bytes to stderr", l.a.limits.Stderr))
	}
	if l.a.program != nil {
		l.a.program.stderr.Write(b)
	}
	for rest := b; len(rest) > 0; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		l.part = append(l.part, line...)
		if !complete {
			if len(l.part) > maxLine {
				l.flush()
			}
			break
		}
		l.line()
		rest = after
	}
	return len(b), nil
}

// flush sends the last line, which has no end.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.line()
	}
}

func (l *lines) line() {
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(l.part, []byte("\r"))), "\uFFFD")
	l.part = l.part[:0]
	if len(l.tail) == tailLines {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, text)
	// A line is logged even when the attempt is ending: it may say why.
	sdk.Log(context.WithoutCancel(l.a.ctx), l.a.host, "info", text, nil)
}

// text returns the last lines, at most tailBytes of them.
func (l *lines) text() string {
	s := strings.Join(l.tail, "\n")
	if len(s) > tailBytes {
		s = strings.ToValidUTF8(s[len(s)-tailBytes:], "")
	}
	return s
}

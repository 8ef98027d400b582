package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// patience is how long a stream may be silent. Only a token counts: a server
// that sends pings while it hangs is silent too.
type patience struct {
	began       time.Time // the request, then the last token
	first, idle time.Duration
	begun       bool // a token has come
}

func (p *patience) token() { p.begun, p.began = true, time.Now() }

// left is what a read may take, at least one millisecond; 0 for any time.
func (p *patience) left() int64 {
	limit := p.first
	if p.begun {
		limit = p.idle
	}
	if limit == 0 {
		return 0
	}
	return max((limit - time.Since(p.began)).Milliseconds(), 1)
}

// stream reads the body of a reply as it comes.
type stream struct {
	ctx  context.Context // of the attempt: a Reader has no other place for it
	host sdk.Host
	id   int
	patience
	rest  []byte
	ended bool
}

var _ io.Reader = (*stream)(nil)

func (s *stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		ok, data, err := sdk.Operate(s.ctx, s.host, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: s.id, TimeoutMS: s.left()}, nil)
		if err != nil {
			return 0, err
		}
		var rep sdk.StreamReply
		if err := sdk.Unmarshal(ok, &rep); err != nil {
			return 0, err
		}
		s.rest, s.ended = data, rep.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) close() {
	if !s.ended {
		_, _, _ = sdk.Operate(s.ctx, s.host, sdk.StreamCloseOp{Op: sdk.OpStreamClose, Stream: s.id}, nil)
	}
}

// events reads server-sent events: blocks of lines, of which only those with
// data count. What is not ended by an empty line is no event.
type events struct {
	r    *bufio.Reader
	left int64 // bytes until a stream is too long
}

func newEvents(r io.Reader) *events { return &events{bufio.NewReaderSize(r, 64<<10), maxStream} }

// maxStream bounds a stream: a model that never ends fills the sandbox.
const maxStream = 64 << 20

// next is the data of the next event, or io.EOF.
func (e *events) next() ([]byte, error) {
	var data []byte
	some := false
	for {
		line, err := e.line()
		if err != nil {
			return nil, err
		}
		switch {
		case len(line) == 0 && some:
			return data, nil
		case len(line) == 0:
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue // a comment, the name of the event, which the data repeats, an id
		}
		if some {
			data = append(data, '\n')
		}
		data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true
	}
}

// line is one line without its end, which may be written in any of three ways.
func (e *events) line() ([]byte, error) {
	line, err := e.r.ReadBytes('\n')
	if e.left -= int64(len(line)); e.left < 0 {
		return nil, &sdk.Error{Class: sdk.ClassAPIError, Code: "stream_too_long", Message: "the stream has more than 64 MiB"}
	}
	if err != nil {
		return nil, err // also of a line that is not ended
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

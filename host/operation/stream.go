package operation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// maxRead bounds what one stream_read or blob_get gives.
const maxRead = 1 << 20

// stream is the body of a response that is read bit by bit.
type stream struct {
	end    func()       // closes the connection; may be called often, also during a read
	expire func()       // ends the request because nothing arrives
	cause  func() error // why the request was ended, nil if it was not

	mu   sync.Mutex // held by the read that runs
	r    io.Reader
	done int64
}

// read gives at least one byte or the end.
func (s *stream) read(b []byte, limit int64) (n int, eof bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n == 0 && err == nil {
		n, err = s.r.Read(b)
	}
	if s.done += int64(n); s.done > limit {
		return 0, true, exhausted(CodeReplyTooLarge, "a stream gave more than %d bytes", limit)
	}
	if errors.Is(err, io.EOF) {
		return n, true, nil
	}
	return n, err != nil, err
}

// streams are those of an attempt that are open.
type streams struct {
	last int
	open map[int]*stream
}

func (s *streams) take() map[int]*stream {
	open := s.open
	s.open = nil
	return open
}

// openStream gives s a number, or ends it.
func (h *Host) openStream(s *stream) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		s.end()
		return 0, errOver
	case len(h.streams.open) >= h.o.MaxStreams:
		s.end()
		return 0, exhausted(CodeStreams, "more than %d streams are open at once; read them to their end or close them", h.o.MaxStreams)
	case h.streams.open == nil:
		h.streams.open = map[int]*stream{}
	}
	h.streams.last++
	h.streams.open[h.streams.last] = s
	return h.streams.last, nil
}

func (h *Host) closeStream(id int) {
	h.mu.Lock()
	s := h.streams.open[id]
	delete(h.streams.open, id)
	h.mu.Unlock()
	if s != nil {
		s.end()
	}
}

func streamRead(_ context.Context, h *Host, head json.RawMessage, _ []byte) (any, []byte, error) {
	op, e := read[sdk.StreamReadOp](head)
	if e != nil {
		return nil, nil, refusal{e}
	}
	h.mu.Lock()
	s := h.streams.open[op.Stream]
	h.mu.Unlock()
	if s == nil {
		return nil, nil, refusal{invalid("", "stream %d is not open", op.Stream)}
	}
	b := make([]byte, chunk(op.Max))
	stop := after(op.TimeoutMS, func() { s.expire() })
	n, eof, err := s.read(b, h.o.MaxBlob)
	stop()
	if eof {
		defer h.closeStream(op.Stream)
	}
	var limit *sdk.Error
	switch {
	case errors.As(err, &limit) && limit.Class == sdk.ClassResourceExhausted: // else it is why the stream was ended
		return nil, nil, err
	case err != nil:
		return nil, nil, refusal{h.failure(s.cause(), err)}
	}
	return sdk.StreamReply{EOF: eof}, b[:n], nil
}

// chunk is how many bytes one reply holds at most.
func chunk(wanted int) int {
	if wanted <= 0 || wanted > maxRead {
		return maxRead
	}
	return wanted
}

func streamClose(_ context.Context, h *Host, head json.RawMessage, _ []byte) (any, []byte, error) {
	op, e := read[sdk.StreamCloseOp](head)
	if e != nil {
		return nil, nil, refusal{e}
	}
	h.closeStream(op.Stream)
	return struct{}{}, nil, nil
}

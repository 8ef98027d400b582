package wire

import (
	"bytes"
	"fmt"

	"google.golang.org/grpc/mem"

	"github.com/retrace-dev/engine/sdk"
)

const (
	// MaxFrame is the largest data of one frame.
	MaxFrame = 256 << 10
	// MaxCalls is how many calls of one attempt may wait for their replies.
	MaxCalls = 64
	// MaxMessage is the largest message the plugin's end accepts.
	MaxMessage = 64 << 20
)

// message is one whole message that was received.
type message struct {
	kind Kind
	id   uint32
	data []byte
}

// split cuts a message, given in pieces, into frames and gives them to send in
// order. A message without data is one empty frame. What is in data is used up.
func split(kind Kind, id uint32, data [][]byte, send func(*frame) error) error {
	for {
		f := &frame{kind: kind, id: id}
		for len(data) > 0 && f.size < MaxFrame {
			n := min(len(data[0]), MaxFrame-f.size)
			f.data = append(f.data, data[0][:n])
			f.size += n
			if data[0] = data[0][n:]; len(data[0]) == 0 {
				data = data[1:]
			}
		}
		f.more = len(data) > 0
		if err := send(f); err != nil || !f.more {
			return err
		}
	}
}

// assembler puts one direction's frames together. It holds at most twice its
// largest limit, in buffers at most twice as large. After an error it must not be
// used again.
type assembler struct {
	limits map[Kind]int64 // the kinds of this direction and the sizes of their messages
	parts  map[partKey]*parts
	held   int64
}

type partKey struct {
	kind Kind
	id   uint32
}

// parts are the frames of a message that is not complete.
type parts struct {
	size int64
	data [][]byte
	held mem.BufferSlice
	own  bool // the last of data is ours and grows
}

// add takes over the data of f.
func (p *parts) add(f *frame) {
	p.size += int64(f.size)
	if f.size >= smallPiece {
		p.data = append(p.data, f.data...)
		p.held = append(p.held, f.held...)
		p.own = false
		return
	}
	if !p.own {
		p.data = append(p.data, nil)
		p.own = true
	}
	last := &p.data[len(p.data)-1]
	for _, d := range f.data {
		*last = append(*last, d...)
	}
	f.held.Free()
}

func newAssembler(limits map[Kind]int64) *assembler {
	return &assembler{limits: limits, parts: map[partKey]*parts{}}
}

// add takes the next frame and returns the message it completes, or nil. The
// error is an *sdk.Error. The frame must not be used any more.
func (a *assembler) add(f *frame) (*message, error) {
	limit, ok := a.limits[f.kind]
	switch hasID := f.kind == Kind_CALL || f.kind == Kind_REPLY; {
	case !ok:
		return nil, broken("a frame of kind %s is not for this direction", f.kind)
	case hasID != (f.id != 0):
		return nil, broken("a frame of kind %s with id %d", f.kind, f.id)
	case f.size > MaxFrame:
		return nil, broken("a frame of %d bytes, the limit is %d", f.size, MaxFrame)
	case f.more && f.size == 0:
		return nil, broken("an empty frame that is to be continued")
	}
	key := partKey{f.kind, f.id}
	p := a.parts[key]
	if p == nil && !f.more && int64(f.size) <= limit {
		return &message{key.kind, key.id, whole(f.data, f.held)}, nil
	}
	if p == nil {
		p = &parts{}
	}
	if p.size+int64(f.size) > limit {
		return nil, tooLarge(f.kind, limit)
	}
	if !f.more {
		delete(a.parts, key)
		a.held -= p.size
		p.add(f)
		return &message{key.kind, key.id, whole(p.data, p.held)}, nil
	}
	if a.held += int64(f.size); a.held > 2*a.largest() {
		return nil, broken("%d bytes of unfinished messages", a.held)
	}
	p.add(f)
	a.parts[key] = p
	return nil, nil
}

// whole makes one slice of pieces and gives back the memory they lie in.
func whole(pieces [][]byte, held mem.BufferSlice) []byte {
	if len(pieces) == 1 && held == nil {
		return pieces[0]
	}
	b := bytes.Join(pieces, nil)
	held.Free()
	return b
}

func (a *assembler) largest() (n int64) {
	for _, l := range a.limits {
		n = max(n, l)
	}
	return n
}

func broken(format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassProtocol, Message: "wire: " + fmt.Sprintf(format, args...)}
}

func tooLarge(kind Kind, limit int64) *sdk.Error {
	switch kind {
	case Kind_RESPONSE:
		return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "output_too_large", Message: fmt.Sprintf("the response is larger than %d bytes", limit)}
	case Kind_CALL:
		return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "message_too_large", Message: fmt.Sprintf("an operation message is larger than %d bytes; send less at a time", limit)}
	}
	return broken("a message of kind %s is larger than %d bytes", kind, limit)
}

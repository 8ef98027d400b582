package wire

import (
	"fmt"

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

// message is one whole message.
type message struct {
	kind Kind
	id   uint32
	data []byte
}

// split cuts a message into frames and gives them to send in order. A message
// without data is one empty frame.
func split(m message, send func(*Frame) error) error {
	for {
		n := min(len(m.data), MaxFrame)
		f := &Frame{Kind: m.kind, Id: m.id, More: n < len(m.data), Data: m.data[:n]}
		m.data = m.data[n:]
		if err := send(f); err != nil || !f.More {
			return err
		}
	}
}

// assembler puts one direction's frames together. It holds at most twice its
// largest limit. After an error it must not be used again.
type assembler struct {
	limits map[Kind]int64 // the kinds of this direction and the sizes of their messages
	parts  map[partKey][]byte
	held   int64
}

type partKey struct {
	kind Kind
	id   uint32
}

func newAssembler(limits map[Kind]int64) *assembler {
	return &assembler{limits: limits, parts: map[partKey][]byte{}}
}

// add takes the next frame and returns the message it completes, or nil. The
// error is an *sdk.Error.
func (a *assembler) add(f *Frame) (*message, error) {
	limit, ok := a.limits[f.GetKind()]
	switch hasID := f.GetKind() == Kind_CALL || f.GetKind() == Kind_REPLY; {
	case !ok:
		return nil, broken("a frame of kind %s is not for this direction", f.GetKind())
	case hasID != (f.GetId() != 0):
		return nil, broken("a frame of kind %s with id %d", f.GetKind(), f.GetId())
	case len(f.GetData()) > MaxFrame:
		return nil, broken("a frame of %d bytes, the limit is %d", len(f.GetData()), MaxFrame)
	case f.GetMore() && len(f.GetData()) == 0:
		return nil, broken("an empty frame that is to be continued")
	}
	key := partKey{f.GetKind(), f.GetId()}
	part, begun := a.parts[key]
	if n := int64(len(part) + len(f.GetData())); n > limit {
		return nil, tooLarge(f.GetKind(), limit)
	}
	if !f.GetMore() {
		delete(a.parts, key)
		a.held -= int64(len(part))
		if !begun {
			return &message{key.kind, key.id, f.GetData()}, nil
		}
		return &message{key.kind, key.id, append(part, f.GetData()...)}, nil
	}
	if a.held += int64(len(f.GetData())); a.held > 2*a.largest() {
		return nil, broken("%d bytes of unfinished messages", a.held)
	}
	a.parts[key] = append(part, f.GetData()...)
	return nil, nil
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

package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ParseResponse reads the bytes a step answered with. It is strict (see
// CheckJSON) and wants exactly one of output and error, a context that is an
// object of at most MaxContext bytes, and no negative usage; the step's error
// is already normalized. The error is an *Error of ClassProtocol that quotes
// the first bytes seen.
func ParseResponse(b []byte) (*Response, error) {
	var r Response
	if err := Unmarshal(b, &r); err != nil {
		return nil, protocolError(b, "the response is not one JSON object as the contract says: "+err.Error())
	}
	if err := r.check(); err != nil {
		return nil, protocolError(b, err.Error())
	}
	if r.Error != nil {
		r.Error = r.Error.Normalize()
	}
	return &r, nil
}

func (r *Response) check() error {
	switch {
	case r.Output == nil && r.Error == nil:
		return errors.New("the response has neither output nor error")
	case r.Output != nil && r.Error != nil:
		return errors.New("the response has both output and error")
	case len(r.Context) > MaxContext:
		return fmt.Errorf("the response's context has %d bytes, the limit is %d", len(r.Context), MaxContext)
	case len(r.Context) > 0 && r.Context[0] != '{' && string(r.Context) != "null":
		return errors.New("the response's context is not an object")
	}
	for _, u := range r.Usage {
		if err := u.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses negative counts.
func (u Usage) Check() error {
	if min(u.Calls, u.Counted, u.InputTokens, u.OutputTokens, u.CachedTokens, u.CacheWriteTokens) < 0 {
		return fmt.Errorf("usage of model %q has a negative count", u.Model)
	}
	return nil
}

// ParseRespond reads an operation message if it is a RespondOp; any other
// message gives nil and nil. Carriers call it on each message before they hand
// it to the host: the response belongs to the attempt they carry. The error is
// ParseResponse's.
func ParseRespond(msg []byte) (*Response, error) {
	if !bytes.Contains(msg, []byte("respond")) { // most messages need no second decoding
		return nil, nil
	}
	head, data := Split(msg)
	var op struct {
		Op       string          `json:"op"`
		Response json.RawMessage `json:"response"`
	}
	if err := Unmarshal(head, &op); err != nil || op.Op != OpRespond {
		return nil, nil // the host says what is wrong with it
	}
	if data != nil {
		return nil, &Error{Class: ClassProtocol, Message: "operation respond carries raw bytes; it takes none"}
	}
	return ParseResponse(op.Response)
}

// protocolError quotes what was seen, at most 200 bytes of it.
func protocolError(seen []byte, message string) *Error {
	return &Error{Class: ClassProtocol, Message: message + Seen(seen)}
}

// Seen returns "; saw " and a quotation of the first 200 bytes of b, or "; saw
// nothing": the tail of messages about output that is not what was expected.
func Seen(b []byte) string {
	b = bytes.TrimSpace(b)
	switch {
	case len(b) == 0:
		return "; saw nothing"
	case len(b) > 200:
		return fmt.Sprintf("; saw %q ... (%d bytes)", bytes.ToValidUTF8(b[:200], []byte("\uFFFD")), len(b))
	}
	return fmt.Sprintf("; saw %q", bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retrace-dev/engine/sdk"
)

// SanitizerOptions says what does not belong into a step's stored output.
//
// A pattern is a path of member names joined by dots: "meta.took" is the
// member took of the member meta of the output. Within a name `*` stands for
// any characters, so that "*" is any name; "**" stands for any number of
// names, none among them. An element of an array has its index as its name:
// "items.*.request_id". A backslash takes the meaning from the character after
// it. Only members of objects are removed, never elements of arrays.
type SanitizerOptions struct {
	Transient []string // from the manifest: fields that differ between equal results
	Redact    []string // from the flow: fields that must not be stored
}

// Sanitizer makes the stored form of outputs. It is immutable and safe for
// concurrent use.
type Sanitizer struct {
	patterns []pattern
}

// NewSanitizer checks and compiles the patterns. The error names the pattern
// and what is wrong with it.
func NewSanitizer(o SanitizerOptions) (*Sanitizer, error) {
	s := &Sanitizer{}
	for _, set := range []struct {
		name string
		list []string
	}{{"transient", o.Transient}, {"redact", o.Redact}} {
		for _, text := range set.list {
			p, err := parsePattern(text)
			if err != nil {
				return nil, fmt.Errorf("%s pattern %q: %w", set.name, text, err)
			}
			s.patterns = append(s.patterns, p)
		}
	}
	return s, nil
}

// Sanitize makes the stored form of an attempt's output and context. The
// members that a pattern names are removed, all other bytes stay as they are;
// if nothing is removed the result shares the output's memory, which must not
// change any more. The context, an object or nothing, loses at any depth the
// members that differ between equal attempts; beyond sdk.MaxContext only its
// size is kept, since it explains and decides nothing.
//
// The error is an *sdk.Error of ClassProtocol.
func (s *Sanitizer) Sanitize(output, context json.RawMessage) (Sanitized, error) {
	if err := sdk.CheckJSON(output); err != nil {
		return Sanitized{}, protocolError("output", err)
	}
	if len(s.patterns) > 0 {
		output = prune(output, s.patterns)
	}
	context, err := sanitizeContext(context)
	if err != nil {
		return Sanitized{}, err
	}
	d := digester{b: output}
	digest := d.value()
	return Sanitized{data: output, digest: digest, sum: sha256.Sum256(output), context: context, blobs: d.blobs}, nil
}

// Text makes the stored form of a text that a step or a server wrote, such as
// the message of an error. Control characters stay: what shows a text escapes
// it.
func (s *Sanitizer) Text(text string) string { return text }

// volatileNames is where the names of members end that differ between equal
// attempts. It applies to contexts alone: an output's user_id is business
// data.
var volatileNames = []string{"_id", "_time", "_at", "_hash", "timestamp", "request_id", "response_id", "raw_response", "debug_info"}

var contextPatterns = func() (ps []pattern) {
	for _, n := range volatileNames {
		ps = append(ps, mustPattern("**.*"+n))
	}
	return ps
}()

func sanitizeContext(c json.RawMessage) (json.RawMessage, error) {
	if len(c) == 0 {
		return nil, nil
	}
	if err := sdk.CheckJSON(c); err != nil {
		return nil, protocolError("context", err)
	}
	if bytes.TrimLeft(c, " \t\r\n")[0] != '{' {
		return nil, protocolError("context", errors.New("it is not an object"))
	}
	c = prune(c, contextPatterns)
	if len(c) > sdk.MaxContext {
		c = fmt.Appendf(nil, `{"dropped_bytes":%d}`, len(c))
	}
	return c, nil
}

func protocolError(what string, err error) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassProtocol, Message: fmt.Sprintf("%s: %v; a step answers with strict JSON (RFC 8259)", what, err)}
}

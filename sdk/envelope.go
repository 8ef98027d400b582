package sdk

import (
	"bytes"
	"encoding/json"
)

// raws are the members of a message that may be large and stay as written.
type raws map[string]*json.RawMessage

// decodeEnvelope is Unmarshal for a message whose large members are only looked
// at by CheckJSON: encoding/json would read each three times more.
func decodeEnvelope(b []byte, v any, large raws) error {
	c := checker{b: b, envelope: true}
	if err := c.run(); err != nil {
		return err
	}
	type taken struct {
		into  *json.RawMessage
		value []byte
	}
	var found []taken
	rest := []byte{'{'}
	for _, m := range c.members {
		if into := large[string(m.name)]; into != nil {
			found = append(found, taken{into, b[m.value:m.end:m.end]})
			continue
		}
		for name := range large {
			if bytes.EqualFold(m.name, []byte(name)) { // encoding/json takes "Input" for input too
				return decode(b, v)
			}
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(rest, b[m.key:m.end]...)
	}
	if found == nil {
		return decode(b, v)
	}
	if err := decode(append(rest, '}'), v); err != nil {
		return err
	}
	for _, t := range found {
		*t.into = t.value
	}
	return nil
}

// encode is what encoding/json makes of r, in pieces; ok is false where only that
// can tell.
func (r *Request) encode() (parts [][]byte, ok bool) {
	if !compact(r.Input) || !compact(r.Config) {
		return nil, false
	}
	own := *r
	own.Input, own.Config = nil, nil
	head, err := encode(&own)
	if err != nil {
		return nil, false
	}
	head, ok = bytes.CutSuffix(head, []byte(`null,"config":null}`))
	return [][]byte{head, r.Input, []byte(`,"config":`), r.Config, []byte(`}`)}, ok
}

// encode is what encoding/json makes of r, in pieces; ok is false where only that
// can tell.
func (r *Response) encode() (parts [][]byte, ok bool) {
	if !compact(r.Output) {
		return nil, false
	}
	own := *r
	own.Output = nil
	tail, err := encode(&own)
	if err != nil {
		return nil, false
	}
	if tail[0] = ','; len(tail) == len(`{}`) {
		tail = tail[1:]
	}
	return [][]byte{[]byte(`{"output":`), r.Output, tail}, true
}

// compact reports whether raw is JSON that encoding/json would copy as it is.
func compact(raw []byte) bool {
	c := checker{b: raw}
	return c.run() == nil && !c.spaced
}

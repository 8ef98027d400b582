package sdk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest in a message.
const MaxDepth = 200

// Marshal encodes v as JSON without escaping <, > and &. The large parts of a
// *Request and a *Response are copied once and not encoded again.
func Marshal(v any) ([]byte, error) {
	parts, err := MarshalParts(v)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return bytes.Join(parts, nil), nil
}

// MarshalParts is Marshal for those who send the text and need not have it in one
// piece. The large parts of a *Request and a *Response are not copied: what is
// returned shares their memory.
func MarshalParts(v any) ([][]byte, error) {
	switch v := v.(type) {
	case *Request:
		if parts, ok := v.encode(); ok {
			return parts, nil
		}
	case *Response:
		if parts, ok := v.encode(); ok {
			return parts, nil
		}
	}
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	return [][]byte{b}, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unmarshal decodes exactly one JSON value that CheckJSON accepts. Numbers that
// land in an any are json.Number, so none loses a digit. The Input and Config of
// a *Request and the Output of a *Response share b's memory.
func Unmarshal(b []byte, v any) error {
	switch v := v.(type) {
	case *Request:
		return decodeEnvelope(b, v, raws{"input": &v.Input, "config": &v.Config})
	case *Response:
		return decodeEnvelope(b, v, raws{"output": &v.Output})
	}
	if err := CheckJSON(b); err != nil {
		return err
	}
	return decode(b, v)
}

func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}

// SyntaxError is what CheckJSON returns.
type SyntaxError struct {
	Offset int // of the byte where reading stopped
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// CheckJSON reports whether b is exactly one JSON value (RFC 8259) that every
// reader understands in the same way: valid UTF-8, no duplicate keys in an
// object, no lone surrogates, at most MaxDepth levels. The error is a
// *SyntaxError. It does not recurse.
func CheckJSON(b []byte) error {
	c := checker{b: b}
	if err := c.run(); err != nil {
		return err
	}
	return nil
}

type checker struct {
	b      []byte
	p      int
	stack  []scope
	keys   [][]byte // of all open objects that need no set, innermost last
	spaced bool     // there is space between the tokens

	envelope bool     // members are wanted
	members  []member // of the outermost object
}

// member is where a member of the outermost object lies.
type member struct {
	name            []byte // unescaped
	key, value, end int    // offsets: of the quoted name, of the value, after it
}

// scope is one open array or object.
type scope struct {
	object bool
	from   int                 // its keys are checker.keys[from:]
	set    map[string]struct{} // all its keys, once they are many
}

// manyKeys is from when on a set finds an equal key sooner than a look at each.
const manyKeys = 12

func (c *checker) fail(format string, args ...any) error {
	return &SyntaxError{Offset: c.p, Reason: fmt.Sprintf(format, args...)}
}

func (c *checker) space() {
	for c.p < len(c.b) {
		switch c.b[c.p] {
		case ' ', '\t', '\n', '\r':
			c.p++
			c.spaced = true
		default:
			return
		}
	}
}

func (c *checker) run() error {
	for {
		// A value begins here.
		c.space()
		if c.p == len(c.b) {
			return c.fail("unexpected end of JSON")
		}
		if c.envelope && len(c.stack) == 1 && len(c.members) > 0 {
			c.members[len(c.members)-1].value = c.p
		}
		open := false
		switch ch := c.b[c.p]; {
		case ch == '{' || ch == '[':
			if len(c.stack) == MaxDepth {
				return c.fail("JSON nests deeper than %d levels", MaxDepth)
			}
			c.p++
			c.stack = append(c.stack, scope{object: ch == '{', from: len(c.keys)})
			c.space()
			if c.p < len(c.b) && c.b[c.p] == ch+2 { // '{'+2 == '}', '['+2 == ']'
				c.p++
				c.stack = c.stack[:len(c.stack)-1]
				break
			}
			open = true
		case ch == '"':
			if _, err := c.str(); err != nil {
				return err
			}
		case ch == '-' || ch >= '0' && ch <= '9':
			if err := c.number(); err != nil {
				return err
			}
		default:
			if err := c.literal(); err != nil {
				return err
			}
		}
		if open {
			if err := c.key(); err != nil {
				return err
			}
			continue
		}
		// A value has ended here.
		again, err := c.after()
		if err != nil || !again {
			return err
		}
	}
}

// after reads what may follow a value; again says that another value begins.
func (c *checker) after() (again bool, err error) {
	for {
		if c.envelope && len(c.stack) == 1 && len(c.members) > 0 && c.members[len(c.members)-1].end == 0 {
			c.members[len(c.members)-1].end = c.p
		}
		c.space()
		if len(c.stack) == 0 {
			if c.p != len(c.b) {
				return false, c.fail("more data after the JSON value")
			}
			return false, nil
		}
		if c.p == len(c.b) {
			return false, c.fail("unexpected end of JSON")
		}
		top := &c.stack[len(c.stack)-1]
		switch ch := c.b[c.p]; {
		case ch == ',':
			c.p++
			return true, c.key()
		case ch == '}' && top.object, ch == ']' && !top.object:
			c.p++
			c.keys = c.keys[:top.from]
			c.stack = c.stack[:len(c.stack)-1]
		default:
			return false, c.fail("unexpected %q", rune(ch))
		}
	}
}

// key reads `"name":` if the innermost scope is an object.
func (c *checker) key() error {
	top := &c.stack[len(c.stack)-1]
	if !top.object {
		return nil
	}
	c.space()
	if c.p == len(c.b) || c.b[c.p] != '"' {
		return c.fail("expected a key")
	}
	at := c.p
	k, err := c.str()
	if err != nil {
		return err
	}
	if c.envelope && len(c.stack) == 1 {
		c.members = append(c.members, member{name: k, key: at})
	}
	dup := false
	if top.set != nil {
		_, dup = top.set[string(k)]
		top.set[string(k)] = struct{}{}
	} else {
		own := c.keys[top.from:]
		for _, have := range own {
			dup = dup || bytes.Equal(have, k)
		}
		c.keys = append(c.keys, k)
		if len(own) >= manyKeys {
			top.set = map[string]struct{}{}
			for _, have := range c.keys[top.from:] {
				top.set[string(have)] = struct{}{}
			}
		}
	}
	if dup {
		c.p = at
		return c.fail("duplicate key %q", k)
	}
	c.space()
	if c.p == len(c.b) || c.b[c.p] != ':' {
		return c.fail("expected a colon")
	}
	c.p++
	return nil
}

// str reads a string and returns it unescaped; without escapes the result
// shares the input's memory. It is never nil.
func (c *checker) str() ([]byte, error) {
	c.p++
	start := c.p
	plain := true
	for c.p < len(c.b) {
		for c.p+8 <= len(c.b) && ordinary(binary.LittleEndian.Uint64(c.b[c.p:])) {
			c.p += 8
		}
		if c.p == len(c.b) {
			break
		}
		switch ch := c.b[c.p]; {
		case ch == '"':
			raw := c.b[start:c.p:c.p]
			c.p++
			if plain {
				return raw, nil
			}
			var s string
			if err := json.Unmarshal(c.b[start-1:c.p], &s); err != nil {
				return nil, c.fail("invalid string")
			}
			return []byte(s), nil
		case ch == '\\':
			plain = false
			if err := c.escape(); err != nil {
				return nil, err
			}
		case ch < 0x20:
			return nil, c.fail("control character %#02x in a string", ch)
		case ch < utf8.RuneSelf:
			c.p++
		default:
			r, n := utf8.DecodeRune(c.b[c.p:])
			if r == utf8.RuneError && n == 1 {
				return nil, c.fail("invalid UTF-8")
			}
			c.p += n
		}
	}
	return nil, c.fail("unexpected end of JSON in a string")
}

// ordinary reports whether none of eight bytes is a quote, a backslash, a control
// character or outside ASCII. It looks at all of them at once: a byte x below n
// borrows in x-n and sets its high bit, and x^q is below 1 only if x is q.
func ordinary(w uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^('"'*ones), w^('\\'*ones)
	return (w|(w-0x20*ones)|(quote-ones)|(slash-ones))&high == 0
}

func (c *checker) escape() error {
	if c.p+1 >= len(c.b) {
		return c.fail("unexpected end of JSON in a string")
	}
	switch c.b[c.p+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.p += 2
		return nil
	case 'u':
		r, ok := c.hex4(c.p + 2)
		if !ok {
			return c.fail("invalid \\u escape")
		}
		if r >= 0xDC00 && r <= 0xDFFF {
			return c.fail("lone surrogate \\u%04x", r)
		}
		if r >= 0xD800 && r <= 0xDBFF {
			low, ok := c.hex4(c.p + 8)
			if !ok || c.b[c.p+6] != '\\' || c.b[c.p+7] != 'u' || low < 0xDC00 || low > 0xDFFF {
				return c.fail("lone surrogate \\u%04x", r)
			}
			c.p += 6
		}
		c.p += 6
		return nil
	}
	return c.fail("invalid escape \\%c", c.b[c.p+1])
}

func (c *checker) hex4(at int) (r rune, ok bool) {
	if at+4 > len(c.b) {
		return 0, false
	}
	for _, ch := range c.b[at : at+4] {
		r <<= 4
		switch {
		case ch >= '0' && ch <= '9':
			r |= rune(ch - '0')
		case ch >= 'a' && ch <= 'f':
			r |= rune(ch - 'a' + 10)
		case ch >= 'A' && ch <= 'F':
			r |= rune(ch - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (c *checker) digits() bool {
	from := c.p
	for c.p < len(c.b) && c.b[c.p] >= '0' && c.b[c.p] <= '9' {
		c.p++
	}
	return c.p > from
}

func (c *checker) number() error {
	if c.b[c.p] == '-' {
		c.p++
	}
	if c.p < len(c.b) && c.b[c.p] == '0' {
		c.p++
	} else if !c.digits() {
		return c.fail("invalid number")
	}
	if c.p < len(c.b) && c.b[c.p] == '.' {
		c.p++
		if !c.digits() {
			return c.fail("invalid number")
		}
	}
	if c.p < len(c.b) && (c.b[c.p] == 'e' || c.b[c.p] == 'E') {
		c.p++
		if c.p < len(c.b) && (c.b[c.p] == '+' || c.b[c.p] == '-') {
			c.p++
		}
		if !c.digits() {
			return c.fail("invalid number")
		}
	}
	return nil
}

func (c *checker) literal() error {
	for _, lit := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.b[c.p:], []byte(lit)) {
			c.p += len(lit)
			return nil
		}
	}
	return c.fail("unexpected %q", rune(c.b[c.p]))
}

// inputError turns a decoding error of an input into ClassInvalidInput with a
// JSON Pointer where encoding/json names the field.
func inputError(err error) *Error {
	e := &Error{Class: ClassInvalidInput, Message: err.Error()}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		e.Message = fmt.Sprintf("%s does not fit %s", t.Value, t.Type)
		if t.Field != "" {
			e.Path = "/" + strings.ReplaceAll(t.Field, ".", "/")
		}
	}
	return e
}

package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest in a message.
const MaxDepth = 200

// Marshal encodes v as JSON without escaping <, > and &.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unmarshal decodes exactly one JSON value that CheckJSON accepts. Numbers that
// land in an any are json.Number, so none loses a digit.
func Unmarshal(b []byte, v any) error {
	if err := CheckJSON(b); err != nil {
		return err
	}
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
	b     []byte
	p     int
	stack []scope
}

// scope is one open array or object.
type scope struct {
	object bool
	first  []byte              // the first key, so that small objects need no map
	keys   map[string]struct{} // all keys, once there are two
}

func (c *checker) fail(format string, args ...any) error {
	return &SyntaxError{Offset: c.p, Reason: fmt.Sprintf(format, args...)}
}

func (c *checker) space() {
	for c.p < len(c.b) {
		switch c.b[c.p] {
		case ' ', '\t', '\n', '\r':
			c.p++
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
		open := false
		switch ch := c.b[c.p]; {
		case ch == '{' || ch == '[':
			if len(c.stack) == MaxDepth {
				return c.fail("JSON nests deeper than %d levels", MaxDepth)
			}
			c.p++
			c.stack = append(c.stack, scope{object: ch == '{'})
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
	dup := false
	switch {
	case top.keys != nil:
		_, dup = top.keys[string(k)]
		top.keys[string(k)] = struct{}{}
	case top.first != nil:
		dup = bytes.Equal(top.first, k)
		top.keys = map[string]struct{}{string(top.first): {}, string(k): {}}
	default:
		top.first = k
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

package hcl

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// The functions in this file find their way in JSON text without decoding it.
// They take text that sdk.CheckJSON has accepted; on other text they return
// nonsense, but they never panic nor loop.

func skipSpace(b []byte, p int) int {
	for p < len(b) && (b[p] == ' ' || b[p] == '\n' || b[p] == '\t' || b[p] == '\r') {
		p++
	}
	return p
}

// skipString returns the place after the string that begins at p.
func skipString(b []byte, p int) int {
	for p++; p < len(b); p++ {
		switch b[p] {
		case '\\':
			p++
		case '"':
			return p + 1
		}
	}
	return len(b)
}

// skipValue returns the place after the value that begins at p.
func skipValue(b []byte, p int) int {
	if p >= len(b) {
		return len(b)
	}
	switch b[p] {
	case '"':
		return skipString(b, p)
	case '{', '[':
		for depth := 0; p < len(b); {
			switch b[p] {
			case '"':
				p = skipString(b, p)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return p + 1
				}
			}
			p++
		}
		return len(b)
	}
	from := p
	for p < len(b) && bytes.IndexByte([]byte(" \t\r\n,]}"), b[p]) < 0 {
		p++
	}
	return max(p, from+1)
}

// members calls yield for each member of the object, with the key as it is
// written (quotes included), until it returns false.
func members(b []byte, yield func(key, value []byte) bool) {
	for p := skipSpace(b, 0) + 1; p < len(b); p++ {
		p = skipSpace(b, p)
		if p >= len(b) || b[p] != '"' {
			return
		}
		end := skipString(b, p)
		key := b[p:end]
		p = skipSpace(b, end) + 1 // the colon
		p = skipSpace(b, p)
		end = skipValue(b, p)
		if p > len(b) || !yield(key, b[min(p, end):end]) {
			return
		}
		p = skipSpace(b, end)
	}
}

// member is one member of an object, its key unquoted.
type member struct {
	name  string
	value []byte
}

// sortedMembers are the members of an object in order of their keys' bytes, or
// of its first limit+1.
func sortedMembers(b []byte, limit int) []member {
	var all []member
	members(b, func(k, v []byte) bool {
		all = append(all, member{unquote(k), v})
		return len(all) <= limit
	})
	slices.SortFunc(all, func(x, y member) int { return strings.Compare(x.name, y.name) })
	return all
}

// elements calls yield for each element of the array, until it returns false.
func elements(b []byte, yield func(value []byte) bool) {
	for p := skipSpace(b, 0) + 1; p < len(b); p++ {
		p = skipSpace(b, p)
		if p >= len(b) || b[p] == ']' {
			return
		}
		end := skipValue(b, p)
		if !yield(b[p:end]) {
			return
		}
		p = skipSpace(b, end)
	}
}

// unquote returns what a string stands for.
func unquote(lit []byte) string {
	if len(lit) >= 2 && bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1 : len(lit)-1])
	}
	var s string
	_ = json.Unmarshal(lit, &s) // CheckJSON accepted it
	return s
}

// keyIs reports whether a written key stands for name, which is in NFC: HCL
// cannot name a key in another normal form.
func keyIs(lit []byte, name string) bool {
	if len(lit) == len(name)+2 && string(lit[1:len(lit)-1]) == name {
		return true
	}
	if !slices.ContainsFunc(lit, func(c byte) bool { return c == '\\' || c >= 0x80 }) {
		return false
	}
	return norm.NFC.String(unquote(lit)) == name
}

// kindOf names the JSON type of a value, as messages call it.
func kindOf(b []byte) string {
	p := skipSpace(b, 0)
	if p == len(b) {
		return "nothing"
	}
	switch b[p] {
	case '{':
		return "object"
	case '[':
		return "list"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}

// keysOf lists the keys of an object, sorted.
func keysOf(b []byte) []string {
	var keys []string
	if kindOf(b) == "object" {
		members(b, func(k, _ []byte) bool {
			keys = append(keys, unquote(k))
			return len(keys) < 1000
		})
	}
	slices.Sort(keys)
	return keys
}

// step is one step of a path into a value.
type step struct {
	name    string // of an attribute, in NFC
	index   int    // of an element, when isIndex
	isIndex bool
}

// find follows path in b. When it cannot, at is the value it came to and n the
// number of steps taken.
func find(b []byte, path []step) (at []byte, n int, ok bool) {
	at = bytes.TrimSpace(b)
	for n = range path {
		s := &path[n]
		var next []byte
		switch {
		case !s.isIndex && len(at) > 0 && at[0] == '{':
			members(at, func(k, v []byte) bool {
				if keyIs(k, s.name) {
					next = v
				}
				return next == nil
			})
		case s.isIndex && len(at) > 0 && at[0] == '[':
			i := 0
			elements(at, func(v []byte) bool {
				if i == s.index {
					next = v
				}
				i++
				return next == nil
			})
		}
		if next == nil {
			return at, n, false
		}
		at = next
	}
	return at, len(path), true
}

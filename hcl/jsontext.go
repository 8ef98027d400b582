package hcl

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
)

// jsonNode is one value of a JSON text. Its places are bytes of the file:
// positions with lines and columns are made only for what a syntax tree or a
// message holds.
type jsonNode struct {
	kind           byte // '{' '[' '"' 't' 'f' 'n', or '0' for a number
	from, to       int32
	keyFrom, keyTo int32 // of a member of an object: its key, quotes included
	sub            []jsonNode
}

// jsonFile reads one file of a flow in JSON form. It is strict, and it stops at
// the first place where the text is not JSON; what is JSON but ambiguous, such
// as a key that stands twice, is gathered.
type jsonFile struct {
	name   string
	b      []byte
	index  *textIndex
	ds     Diagnostics
	p      int
	depth  int
	tokens int // those of templates too
}

// text reads the whole file; ok is false when it is not JSON.
func (j *jsonFile) text() (n jsonNode, ok bool) {
	n, ok = j.value()
	if !ok {
		return n, false
	}
	if j.p = skipSpace(j.b, j.p); j.p < len(j.b) {
		return n, j.unexpected("the end of the file, since its one value ends before")
	}
	return n, true
}

func (j *jsonFile) value() (jsonNode, bool) {
	j.p = skipSpace(j.b, j.p)
	n := jsonNode{from: int32(j.p)}
	if !j.token() {
		return n, false
	}
	if j.p == len(j.b) {
		return n, j.unexpected("a value")
	}
	ok := true
	switch c := j.b[j.p]; {
	case c == '{' || c == '[':
		n.kind = c
		n.sub, ok = j.composite(c)
	case c == '"':
		n.kind = c
		ok = j.str()
	case c == '-' || isDigit(c):
		n.kind = '0'
		ok = j.number()
	default:
		n.kind = c
		ok = j.word()
	}
	n.to = int32(j.p)
	return n, ok
}

// token counts keys and values, which each become nodes of a syntax tree.
func (j *jsonFile) token() bool {
	if j.tokens++; j.tokens > maxTokens {
		return j.beyond(tooMany)
	}
	return true
}

// composite reads an object or an array. It recurses as deep as the text nests.
func (j *jsonFile) composite(open byte) (sub []jsonNode, ok bool) {
	if j.depth++; j.depth > maxNesting {
		return nil, j.fail(j.p, "nesting-too-deep", "Nesting is too deep", "Brackets and templates may be nested at most %d levels. Split the expression into locals.", maxNesting)
	}
	var keys map[string][2]int
	shut := open + 2 // in ASCII, for both kinds
	j.p++
	for {
		j.p = skipSpace(j.b, j.p)
		if len(sub) == 0 && j.p < len(j.b) && j.b[j.p] == shut {
			break
		}
		var from, to int
		if open == '{' {
			if from, to, ok = j.key(); !ok {
				return nil, false
			}
			if keys == nil {
				keys = map[string][2]int{}
			}
			j.once(keys, from, to)
		}
		n, ok := j.value()
		if !ok {
			return nil, false
		}
		n.keyFrom, n.keyTo = int32(from), int32(to)
		sub = append(sub, n)
		j.p = skipSpace(j.b, j.p)
		if j.p < len(j.b) && j.b[j.p] == ',' {
			j.p++
			continue
		}
		if j.p < len(j.b) && j.b[j.p] == shut {
			break
		}
		return nil, j.unexpected(fmt.Sprintf(`"," or "%c"`, shut))
	}
	j.p++
	j.depth--
	return sub, true
}

// key reads a key and the colon after it.
func (j *jsonFile) key() (from, to int, ok bool) {
	from = j.p
	if j.p == len(j.b) || j.b[j.p] != '"' {
		return 0, 0, j.unexpected("a key in double quotes")
	}
	if !j.token() || !j.str() {
		return 0, 0, false
	}
	to = j.p
	if j.p = skipSpace(j.b, j.p); j.p == len(j.b) || j.b[j.p] != ':' {
		return 0, 0, j.unexpected(`":" after a key`)
	}
	j.p++
	return from, to, true
}

// once reports a key that is already in the object: readers of JSON disagree
// about which of the two counts.
func (j *jsonFile) once(keys map[string][2]int, from, to int) {
	name := unquote(j.b[from:to])
	if first, dup := keys[name]; dup {
		j.ds.errorf("duplicate-key", j.rangeAt(from, to), "Duplicate key", "The key %q is already in this object, at %s. Remove one of the two.", name, rangeOf(j.rangeAt(first[0], first[1])))
		return
	}
	keys[name] = [2]int{from, to}
}

// str reads a string; j.p is at its first quote.
func (j *jsonFile) str() bool {
	from := j.p
	for j.p++; j.p < len(j.b); {
		switch c := j.b[j.p]; {
		case c == '"':
			j.p++
			return true
		case c == '\\':
			if !j.escape() {
				return false
			}
		case c < ' ':
			return j.fail(j.p, "invalid-json", "Invalid JSON", `A string holds the control character %#02x. Write \n for a line break, \t for a tab, \u%04x in general.`, c, c)
		default:
			j.p++
		}
	}
	return j.fail(from, "invalid-json", "Invalid JSON", "The string that begins here does not end.")
}

// escape reads one escape sequence, or the two that make a surrogate pair.
func (j *jsonFile) escape() bool {
	from := j.p
	r, n := jsonEscape(j.b[from:])
	if n == 0 {
		return j.fail(from, "invalid-json", "Invalid JSON", `There is no such escape in a JSON string. It has \" \\ \/ \b \f \n \r \t and \uXXXX; write \\ for a backslash.`)
	}
	if j.p += n; r == loneSurrogate {
		j.ds.errorf("invalid-json", j.rangeAt(from, j.p), "Invalid JSON", "%s is half of a surrogate pair and stands for no character. Write the pair of both, or the character itself.", j.b[from:j.p])
	}
	return true
}

var jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`)

func (j *jsonFile) number() bool {
	from := j.p
	j.p += len(jsonNumber.Find(j.b[from:]))
	if j.p == from || j.p < len(j.b) && (isLetter(j.b[j.p]) || isDigit(j.b[j.p]) || j.b[j.p] == '.') {
		return j.fail(from, "invalid-json", "Invalid JSON", "This is not a number of JSON, such as 7, -0.5 or 1e9: there is no leading zero or plus sign, and digits stand on both sides of the point.")
	}
	return true
}

func (j *jsonFile) word() bool {
	from := j.p
	for j.p < len(j.b) && isLetter(j.b[j.p]) {
		j.p++
	}
	switch string(j.b[from:j.p]) {
	case "true", "false", "null":
		return true
	}
	j.p = from
	return j.unexpected("a value")
}

// unexpected reports what stands at j.p instead of something else. It returns
// false.
func (j *jsonFile) unexpected(want string) bool {
	if j.p >= len(j.b) {
		return j.fail(len(j.b), "invalid-json", "Invalid JSON", "The file ends where %s is expected. Look for a bracket that is not closed.", want)
	}
	hint := ""
	switch c := j.b[j.p]; {
	case c == '}' || c == ']':
		hint = " There is no comma after the last element."
	case c == '#' || c == '/':
		hint = ` JSON has no comments; in a block, write "//": "text".`
	case c == '\'':
		hint = " Strings stand in double quotes."
	case c == '=':
		hint = ` In JSON form an argument is "name": value.`
	case c == '"':
		hint = " A comma may be missing before it."
	case isLetter(c):
		hint = " Text and names stand in double quotes."
	}
	_, n := utf8.DecodeRune(j.b[j.p:])
	return j.fail(j.p, "invalid-json", "Invalid JSON", "Here stands %q where %s is expected.%s", j.b[j.p:j.p+n], want, hint)
}

// fail reports what ends the reading. It returns false.
func (j *jsonFile) fail(at int, code, summary, detail string, args ...any) bool {
	_, n := utf8.DecodeRune(j.b[min(at, len(j.b)):])
	j.ds.errorf(code, j.rangeAt(at, at+n), summary, detail, args...)
	return false
}

// beyond reports that the file goes beyond a limit at j.p. It returns false.
func (j *jsonFile) beyond(l limit) bool {
	j.ds = append(j.ds, beyond(l, j.rangeAt(j.p, j.p+1))...)
	return false
}

func (j *jsonFile) rangeAt(from, to int) hclv2.Range {
	return hclv2.Range{Filename: j.name, Start: j.index.pos(from), End: j.index.pos(to)}
}

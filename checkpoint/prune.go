package checkpoint

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// pattern is a path whose names may hold wildcards.
type pattern []segment

// segment is one name of a pattern: literal pieces between wildcards, or any
// number of names.
type segment struct {
	any    bool // "**"
	pieces []string
}

func parsePattern(text string) (pattern, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	var p pattern
	pieces, piece, plain := []string(nil), []byte(nil), 0
	end := func() error {
		if len(pieces) == 0 && len(piece) == 0 {
			return errors.New("a name between dots is empty; write \\. for a dot inside a name")
		}
		if len(pieces) == 2 && len(piece) == 0 && plain == 0 {
			p = append(p, segment{any: true})
		} else {
			p = append(p, segment{pieces: append(pieces, string(piece))})
		}
		pieces, piece, plain = nil, nil, 0
		return nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '.':
			if err := end(); err != nil {
				return nil, err
			}
		case '*':
			pieces, piece = append(pieces, string(piece)), nil
		case '\\':
			if i++; i == len(text) {
				return nil, errors.New("it ends in a backslash")
			}
			piece, plain = append(piece, text[i]), plain+1
		default:
			piece, plain = append(piece, c), plain+1
		}
	}
	if err := end(); err != nil {
		return nil, err
	}
	if p[len(p)-1].any {
		return nil, errors.New("it ends in \"**\", which would remove everything; end in a name or \"*\"")
	}
	return p, nil
}

// mustPattern is parsePattern of a text this package made itself.
func mustPattern(text string) pattern {
	p, err := parsePattern(text)
	if err != nil {
		panic("checkpoint: " + err.Error())
	}
	return p
}

// matches reports whether the segment stands for name. Taking each piece at its
// first place after the one before is enough: only the ends are anchored.
func (s segment) matches(name []byte) bool {
	first, last := s.pieces[0], s.pieces[len(s.pieces)-1]
	if len(s.pieces) == 1 {
		return string(name) == first
	}
	if len(name) < len(first)+len(last) || string(name[:len(first)]) != first || string(name[len(name)-len(last):]) != last {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, p := range s.pieces[1 : len(s.pieces)-1] {
		i := bytes.Index(name, []byte(p))
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return true
}

// prune removes from a text that sdk.CheckJSON has accepted the members that a
// pattern names, each with the space around it and one comma. Without any, it
// returns the text itself. Its recursion is bounded by sdk.MaxDepth.
func prune(text []byte, patterns []pattern) []byte {
	p := pruner{digester: digester{b: text}}
	live := make([]pattern, 0, len(patterns))
	for _, pat := range patterns {
		live = appendLive(live, pat)
	}
	p.skip(live)
	if p.copied == 0 {
		return text
	}
	return append(p.out, text[p.copied:]...)
}

// pruner walks the text once. out is what is kept of text[:copied].
type pruner struct {
	digester
	out    []byte
	copied int
}

// cut leaves text[from:to] out. Cuts come in order.
func (p *pruner) cut(from, to int) {
	p.out = append(p.out, p.b[p.copied:from]...)
	p.copied = to
}

// appendLive adds the rest of a pattern to those that wait for a name, once:
// with several "**" the ways to the same rest grow with the depth. "**" may
// stand for no name, so what follows it waits too.
func appendLive(live []pattern, p pattern) []pattern {
	for _, l := range live {
		if &l[0] == &p[0] {
			return live
		}
	}
	live = append(live, p)
	if p[0].any {
		return appendLive(live, p[1:])
	}
	return live
}

// step gives the patterns that wait below the member name, and whether one
// names the member itself.
func step(live []pattern, name []byte) (below []pattern, hit bool) {
	for _, p := range live {
		switch {
		case p[0].any:
			below = appendLive(below, p)
		case !p[0].matches(name):
		case len(p) == 1:
			hit = true // what waits below still counts if this is an element, which stays
		default:
			below = appendLive(below, p[1:])
		}
	}
	return below, hit
}

// skip passes over a value, cutting what live names inside it.
func (p *pruner) skip(live []pattern) {
	p.space()
	switch p.b[p.p] {
	case '{':
		p.object(live)
	case '[':
		p.array(live)
	case '"':
		p.text()
	default:
		for p.p < len(p.b) && bytes.IndexByte([]byte(",]} \t\r\n"), p.b[p.p]) < 0 {
			p.p++
		}
	}
}

// text passes over a string without unescaping it.
func (p *pruner) text() {
	for p.p++; p.b[p.p] != '"'; p.p++ {
		if p.b[p.p] == '\\' {
			p.p++
		}
	}
	p.p++
}

func (p *pruner) object(live []pattern) {
	kept := false
	for p.b[p.p] != '}' {
		p.p++ // the brace or a comma
		from := p.p
		if p.space(); p.b[p.p] == '}' {
			break // an empty object
		}
		name := p.str()
		p.space()
		p.p++ // colon
		below, hit := step(live, name)
		if hit {
			below = nil
		}
		p.skip(below)
		p.space()
		switch {
		case !hit:
			kept = true
		case kept:
			p.cut(from-1, p.p)
		case p.b[p.p] == ',':
			p.cut(from, p.p+1)
		default:
			p.cut(from, p.p)
		}
	}
	p.p++
}

func (p *pruner) array(live []pattern) {
	for i := 0; p.b[p.p] != ']'; i++ {
		p.p++ // the bracket or a comma
		if p.space(); p.b[p.p] == ']' {
			break // an empty array
		}
		var below []pattern
		if len(live) > 0 {
			below, _ = step(live, strconv.AppendInt(nil, int64(i), 10))
		}
		p.skip(below)
		p.space()
	}
	p.p++
}

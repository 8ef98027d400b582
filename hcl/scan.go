package hcl

import (
	"bytes"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// scanKind says what a text is.
type scanKind uint8

const (
	scanBody scanKind = iota // a file
	scanExpression
	scanTemplate // a file of template text
)

// limit is a bound that a text goes beyond.
type limit uint8

const (
	withinLimits limit = iota
	tooDeep
	tooLong
	tooMany
	tooLarge
	tooManyPieces
	tooManyDigits
)

// scanner finds brackets, templates and operators in a text as HCL's own
// scanner does, without making tokens: those take a hundred bytes for each byte
// of a hostile text. Where the two could disagree it counts too much rather
// than too little; a fuzz test holds them against each other.
type scanner struct {
	b      []byte
	p      int
	tokens int
	block  int // tokens before the block that is open now
	stack  []opened
	// returns are the brace levels at which "}" ends a template sequence.
	returns []int
	braces  int
	found   limit

	openEnded bool // there is no further */
	comment   int  // where the comment begins that does not end, if openEnded

	piece int   // bytes between two cuts, at least; 0 for none
	cuts  []int // where lines begin outside of every block
}

// opened is one open bracket or text. base and ops are how many operators lie
// on the way to it and to the current place: the sum along a path is how deep
// the evaluator recurses, not the total.
type opened struct {
	at        int
	base, ops int
	kind      byte   // '(' '[' '{' '"' '<' (heredoc) '$' (template sequence) or 0
	pieces    int    // of a text, so far
	marker    []byte // of a heredoc
	lineStart bool   // of a heredoc: nothing but text came on this line yet
}

// run returns the bound that the text goes beyond, and where.
func (s *scanner) run() (limit, int) {
	for s.p < len(s.b) && s.found == withinLimits {
		s.step()
	}
	return s.found, min(s.p, len(s.b))
}

func newScanner(src []byte, what scanKind) *scanner {
	s := &scanner{b: src, stack: append(make([]opened, 0, 32), opened{})}
	switch what {
	case scanBody:
		s.stack[0].kind = '{'
	case scanTemplate:
		s.stack[0].kind = '<'
	}
	return s
}

func (s *scanner) step() {
	switch s.top().kind {
	case '"':
		s.quoted()
	case '<':
		s.heredoc()
	default:
		s.code()
	}
}

func (s *scanner) top() *opened { return &s.stack[len(s.stack)-1] }

// at returns the byte i places ahead, 0 behind the end.
func (s *scanner) at(i int) byte {
	if s.p+i < len(s.b) {
		return s.b[s.p+i]
	}
	return 0
}

func (s *scanner) open(kind byte) {
	ops := s.top().ops
	s.stack = append(s.stack, opened{at: s.p, base: ops, ops: ops, kind: kind})
	if len(s.stack) > maxNesting && s.found == withinLimits {
		s.found = tooDeep
	}
}

func (s *scanner) close() {
	if len(s.stack) > 1 {
		s.stack = s.stack[:len(s.stack)-1]
	}
}

func (s *scanner) operator() {
	if t := s.top(); t.ops < maxOperator {
		t.ops++
	} else if s.found == withinLimits {
		s.found = tooLong
	}
}

// sequence begins ${ or %{.
func (s *scanner) sequence() {
	if s.b[s.p] == '%' {
		s.operator()
	}
	s.open('$')
	s.braces++
	s.returns = append(s.returns, s.braces)
	s.p += 2
	if s.at(0) == '~' {
		s.p++
	}
}

// part counts a piece of the text that is open. HCL's time grows with their square.
func (s *scanner) part() {
	t := s.top()
	if t.pieces++; t.pieces > maxPieces || t.pieces*(s.p-t.at) > maxMelded {
		s.found = tooManyPieces
	}
}

// dollar reads "$" or "%" in a text. $${ stands for ${ and begins nothing.
func (s *scanner) dollar() {
	s.part()
	c := s.b[s.p]
	switch {
	case s.at(1) == '{':
		s.sequence()
	case s.at(1) == c && s.at(2) == '{':
		s.p += 3
	default:
		s.p++
	}
}

func (s *scanner) quoted() {
	switch s.b[s.p] {
	case '\\':
		s.p++
		if c := s.at(0); c != '\n' && c != '\r' {
			s.p++
		}
	case '"':
		s.close()
		s.p++
	case '$', '%':
		s.dollar()
	default:
		s.p++
	}
}

// heredoc reads text up to the next sequence or the end of the line, which may
// hold the marker.
func (s *scanner) heredoc() {
	t := s.top()
	from := s.p
	n := bytes.IndexAny(s.b[s.p:], "$%\n")
	switch {
	case n < 0:
		s.p = len(s.b)
	case n == 0 && s.b[from] != '\n':
		t.lineStart = false
		s.dollar()
	case s.b[from+n] != '\n':
		s.p += n
		t.lineStart = false
	default:
		line := s.b[from : from+n]
		s.p += n
		if t.marker != nil && t.lineStart && bytes.Equal(bytes.TrimSpace(line), t.marker) {
			s.close()
			return // the line's end is code again
		}
		s.p++
		t.lineStart = true
		s.part()
	}
}

// code reads one token outside of texts.
func (s *scanner) code() {
	c, next := s.b[s.p], s.at(1)
	switch s.tokens++; {
	case s.tokens > maxTokens:
		s.found = tooMany
		return
	case s.tokens-s.block > maxBlock:
		s.found = tooLarge
		return
	}
	switch {
	case c == '#' || c == '/' && next == '/':
		if i := bytes.IndexByte(s.b[s.p:], '\n'); i >= 0 {
			s.p += i
		} else {
			s.p = len(s.b)
		}
	case c == '/' && next == '*' && s.skipComment():
	case c == '<' && next == '<' && s.beginHeredoc():
	case c == '"':
		s.open('"')
		s.p++
	case isLetter(c):
		s.word()
	case isDigit(c):
		s.number()
	default:
		s.sign(c, next)
	}
}

// word reads a name. After a character beyond ASCII, which may be no letter, a
// "-" is taken for an operator.
func (s *scanner) word() {
	for ; s.p < len(s.b); s.p++ {
		c := s.b[s.p]
		if !isLetter(c) && !isDigit(c) && (c != '-' || s.b[s.p-1] >= 0x80) {
			return
		}
	}
}

// skipComment reads /* … */. One that does not end is none.
func (s *scanner) skipComment() bool {
	if s.openEnded {
		return false
	}
	i := bytes.Index(s.b[s.p+2:], []byte("*/"))
	if i < 0 {
		s.openEnded, s.comment = true, s.p
		return false
	}
	s.p += i + 4
	return true
}

func (s *scanner) number() {
	from := s.p
	defer func() {
		if s.p-from > maxDigits {
			s.p, s.found = from, tooManyDigits
		}
	}()
	for s.p < len(s.b) {
		c, next := s.b[s.p], s.at(1)
		switch {
		case isDigit(c), c == '.' && isDigit(next):
			s.p++
		case (c == 'e' || c == 'E') && (isDigit(next) || (next == '+' || next == '-') && isDigit(s.at(2))):
			s.p += 2
		default:
			return
		}
	}
}

func (s *scanner) sign(c, next byte) {
	width := 1
	switch c {
	case ' ', '\t', '\r':
		s.tokens--
	case '\n':
		if t := s.top(); t.kind == '{' {
			t.ops = t.base
		}
		s.cut(s.p + 1)
	case ',':
		t := s.top()
		t.ops = t.base
	case '=':
		switch next {
		case '=':
			s.operator()
			width = 2
		case '>':
			width = 2
		}
	case '!', '<', '>':
		s.operator()
		if next == '=' {
			width = 2
		}
	case '&', '|':
		s.operator()
		if next == c {
			width = 2
		}
	case '+', '-', '*', '/', '%', '?', '.':
		s.operator()
	case '[':
		s.operator()
		s.open(c)
	case '(':
		s.open(c)
	case '{':
		s.open(c)
		s.braces++
	case ')':
		s.closeTo('(')
	case ']':
		s.closeTo('[')
	case '~':
		if next == '}' {
			s.closeBrace()
			width = 2
		}
	case '}':
		s.closeBrace()
	}
	s.p += width
}

// cut notes that a line begins at p.
func (s *scanner) cut(p int) {
	if len(s.stack) > 1 {
		return
	}
	if s.block = s.tokens; s.piece == 0 {
		return
	}
	last := 0
	if n := len(s.cuts); n > 0 {
		last = s.cuts[n-1]
	}
	if p-last >= s.piece {
		s.cuts = append(s.cuts, p)
	}
}

// closeTo ends the innermost bracket of a kind, with those left open inside of
// it, but not beyond the text around. One that was never opened ends nothing:
// that is a mistake for the parser to tell.
func (s *scanner) closeTo(kind byte) {
	for i := len(s.stack) - 1; i > 0; i-- {
		switch s.stack[i].kind {
		case kind:
			s.stack = s.stack[:i]
			return
		case '$', '"', '<':
			return
		}
	}
}

// closeBrace ends the template sequence that began at this level of braces, or
// else a brace.
func (s *scanner) closeBrace() {
	kind := byte('{')
	if n := len(s.returns); n > 0 && s.returns[n-1] == s.braces {
		s.returns = s.returns[:n-1]
		kind = '$'
	}
	s.closeTo(kind)
	s.braces--
}

// beginHeredoc reads <<MARKER or <<-MARKER and the end of the line.
func (s *scanner) beginHeredoc() bool {
	p := s.p + 2
	if p < len(s.b) && s.b[p] == '-' {
		p++
	}
	from := p
	for p < len(s.b) && (isLetter(s.b[p]) || p > from && (isDigit(s.b[p]) || s.b[p] == '-')) {
		p++
	}
	marker := s.b[from:p]
	if p < len(s.b) && s.b[p] == '\r' {
		p++
	}
	if len(marker) == 0 || p >= len(s.b) || s.b[p] != '\n' || !hclsyntax.ValidIdentifier(string(marker)) {
		return false
	}
	s.open('<')
	t := s.top()
	t.marker, t.lineStart = marker, true
	s.p = p + 1
	return true
}

// isLetter counts every byte of a character beyond ASCII as a letter.
func isLetter(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

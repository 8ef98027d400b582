package hcl

import (
	"bytes"
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns the text of a *.hcl file of any kind in the canonical layout.
// Nothing but spaces and tabs within lines changes, and formatting the result
// again changes nothing: it means what src means. Line ends, a byte order mark
// and texts stay as they are. A file with mistakes in its syntax gives nil and
// errors; name stands in their places.
func Format(name string, src []byte) ([]byte, Diagnostics) {
	if _, ds := parseNative(&File{Path: name, Bytes: src}); ds.HasErrors() {
		return nil, ds.sorted()
	}
	text, marked := bytes.CutPrefix(src, bom)
	out := layout(text)
	if again := layout(out); !bytes.Equal(out, again) {
		out = text
	}
	if marked {
		out = slices.Concat(bom, out)
	}
	return out, nil
}

// layout lays text out. Where that would change more than space, the part of
// the file in which it happens stays as it is.
func layout(text []byte) []byte {
	if out, ok := settle(text); ok {
		return out
	}
	var out []byte
	for _, part := range parts(text) {
		if laid, ok := settle(part); ok {
			part = laid
		}
		out = append(out, part...)
	}
	if !sameTokens(out, text) {
		return text
	}
	return out
}

// maxPasses is how often a text is laid out before it counts as one that never
// stays the same. The first pass nearly always gives what the second one does.
const maxPasses = 4

// settle lays text out until it stays the same; ok is false when its tokens do
// not.
func settle(text []byte) (out []byte, ok bool) {
	out = text
	for range maxPasses {
		next := lay(out)
		if bytes.Equal(next, out) {
			return out, sameTokens(out, text)
		}
		out = next
	}
	return nil, false
}

// lay is one pass of hclwrite with two of its habits put right.
func lay(text []byte) []byte {
	text = hclwrite.Format(text)
	tokens := tokensOf(text)
	gaps := make([]int, len(tokens))
	at := 0
	for i, t := range tokens {
		gaps[i] = t.Range.Start.Byte - at
		at = t.Range.End.Byte
	}
	directives(tokens, gaps)
	indent(tokens, gaps)
	out := make([]byte, 0, len(text)+16)
	for i, t := range tokens {
		out = append(out, bytes.Repeat([]byte{' '}, gaps[i])...)
		out = append(out, t.Bytes...)
	}
	return out
}

// directives puts one space inside the braces of %{ if } and %{ for }, as the
// manual writes them; hclwrite takes it away.
func directives(tokens hclsyntax.Tokens, gaps []int) {
	var open []hclsyntax.TokenType // the template sequences around
	for i, t := range tokens {
		inside := i > 0 && tokens[i-1].Type == hclsyntax.TokenTemplateControl
		switch t.Type {
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			open = append(open, t.Type)
		case hclsyntax.TokenTemplateSeqEnd:
			if n := len(open); n > 0 {
				inside = inside || open[n-1] == hclsyntax.TokenTemplateControl
				open = open[:n-1]
			}
		}
		if inside && t.Type != hclsyntax.TokenNewline && !endsLine(tokens[i-1]) {
			gaps[i] = 1
		}
	}
}

// indent indents each line by two spaces for every line around that has
// brackets left open. hclwrite forgets those that open inside of a heredoc, and
// all that follows in the block is too far to the left.
func indent(tokens hclsyntax.Tokens, gaps []int) {
	var open []int // brackets that each of the lines around opened
	for from := 0; from < len(tokens); {
		to, net := from, 0
		for to < len(tokens) {
			net += opens(tokens[to].Type)
			if to++; endsLine(tokens[to-1]) {
				break
			}
		}
		for closed := -net; closed > 0 && len(open) > 0; {
			last := &open[len(open)-1]
			if *last > closed {
				*last -= closed
				break
			}
			closed -= *last
			open = open[:len(open)-1]
		}
		switch tokens[from].Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenEOF:
			gaps[from] = 0
		default:
			gaps[from] = 2 * len(open)
		}
		if net > 0 {
			open = append(open, net)
		}
		from = to
	}
}

// endsLine reports whether t is a line's end; a comment to the end of its line
// has it inside.
func endsLine(t hclsyntax.Token) bool {
	return t.Type == hclsyntax.TokenNewline || t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte{'\n'})
}

// opens is 1 for what opens a bracket, -1 for what closes one.
func opens(t hclsyntax.TokenType) int {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return 1
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
		return -1
	}
	return 0
}

// sameTokens reports whether two texts differ in nothing but the space between
// tokens.
func sameTokens(a, b []byte) bool {
	return slices.EqualFunc(tokensOf(a), tokensOf(b), func(a, b hclsyntax.Token) bool {
		return a.Type == b.Type && bytes.Equal(a.Bytes, b.Bytes)
	})
}

func tokensOf(text []byte) hclsyntax.Tokens {
	tokens, _ := hclsyntax.LexConfig(text, "", hclv2.InitialPos) // parsed before
	return tokens
}

// parts cuts a text after the line in which each block or argument outside of
// blocks ends.
func parts(text []byte) [][]byte {
	file, _ := hclsyntax.ParseConfig(text, "", hclv2.InitialPos)
	body := file.Body.(*hclsyntax.Body)
	var ends []int
	for _, a := range body.Attributes {
		ends = append(ends, a.SrcRange.End.Byte)
	}
	for _, b := range body.Blocks {
		ends = append(ends, b.CloseBraceRange.End.Byte)
	}
	slices.Sort(ends)
	var out [][]byte
	from := 0
	for _, end := range ends {
		if i := bytes.IndexByte(text[end:], '\n'); i >= 0 && end+i+1 > from {
			out = append(out, text[from:end+i+1])
			from = end + i + 1
		}
	}
	return append(out, text[from:])
}

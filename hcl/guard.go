package hcl

import (
	"bytes"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	maxFile     = 16 << 20 // bytes of one file
	maxNesting  = 200      // brackets and templates inside each other
	maxOperator = 2000     // operators and indexings on the way to any part of an expression
)

var bom = []byte("\xef\xbb\xbf")

// guardFile says whether src may be given to HCL's parser. The parser and the
// evaluator recurse, and a Go stack overflow cannot be caught, so what would
// recurse too far is refused on the flat list of tokens.
func guardFile(name string, src []byte, at hclv2.Pos) Diagnostics {
	var ds Diagnostics
	start := hclv2.Range{Filename: name, Start: hclv2.InitialPos, End: hclv2.InitialPos}
	if len(src) > maxFile {
		ds.errorf("file-too-large", start, "File is too large", "%s has %d bytes; a file of a flow may have %d MiB. Keep large data in files of its own and read it in a step.", name, len(src), maxFile>>20)
		return ds
	}
	if i := invalidUTF8(src); i >= 0 {
		at := hclv2.Range{Filename: name, Start: posAt(src, i), End: posAt(src, i)}
		at.End.Byte++
		ds.errorf("invalid-utf8", at, "File is not UTF-8 text", "Byte %d of %s is %#02x, which UTF-8 does not allow there. Save the file as UTF-8.", i, name, src[i])
		return ds
	}
	tokens, _ := hclsyntax.LexConfig(src, name, at)
	return guardTokens(tokens)
}

// guardTemplate is guardFile for the text of a template.
func guardTemplate(name string, src []byte, start hclv2.Pos) Diagnostics {
	tokens, _ := hclsyntax.LexTemplate(src, name, start)
	return guardTokens(tokens)
}

// guardExpression is guardFile for the text of one expression.
func guardExpression(name string, src []byte) Diagnostics {
	tokens, _ := hclsyntax.LexExpression(src, name, hclv2.InitialPos)
	return guardTokens(tokens)
}

// scope is one open bracket: how many operators lie on the way to it, and how
// many on the way to the current token. The sum along a path, not the total,
// is how deep the evaluator recurses.
type scope struct {
	base, ops int
	lines     bool // a line's end ends an expression
}

func guardTokens(tokens hclsyntax.Tokens) Diagnostics {
	var ds Diagnostics
	stack := append(make([]scope, 0, 16), scope{lines: true})
	for i := range tokens {
		t := &tokens[i]
		top := &stack[len(stack)-1]
		switch t.Type {
		case hclsyntax.TokenNewline:
			if top.lines {
				top.ops = top.base
			}
		case hclsyntax.TokenComma:
			top.ops = top.base
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
			hclsyntax.TokenQuestion, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenLessThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenOBrack, hclsyntax.TokenDot, hclsyntax.TokenTemplateControl:
			if top.ops++; top.ops > maxOperator {
				ds.errorf("expression-too-long", t.Range, "Expression is too long", "One expression may have at most %d operators and indexings. Split it into locals.", maxOperator)
				return ds
			}
		}
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			stack = append(stack, scope{base: top.ops, ops: top.ops, lines: t.Type == hclsyntax.TokenOBrace})
			if len(stack) > maxNesting {
				ds.errorf("nesting-too-deep", t.Range, "Nesting is too deep", "Brackets and templates may be nested at most %d levels. Split the expression into locals.", maxNesting)
				return ds
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
		}
	}
	return nil
}

func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// posAt is the position of byte i, with the column in bytes; for files that
// are not text.
func posAt(b []byte, i int) hclv2.Pos {
	line := bytes.Count(b[:i], []byte("\n"))
	return hclv2.Pos{Line: line + 1, Column: i - bytes.LastIndexByte(b[:i], '\n'), Byte: i}
}

package hcl

import (
	"bytes"
	"slices"
	"testing"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var scanSeeds = []string{
	"\r${",
	`a = "x ${b["c"]} %{ if d }y%{ else }z%{ endif }"`, "a = <<EOT\nx ${y}\n  EOT\nEOT\n", "a = <<-E\n\t${\"<<E\"}\nE\n E\n",
	`a = "$${b} $$${c} %%{d} \\" \\${e}"`, "# \" ${\n// (\n/* \" [ */ b = 1", `a = "${{ x = "}" }}"`, "a = \"x\n${y}\"", `"${~x~}" ~}`,
	"a = b-c - d\nb = 1e+5+1.5\n", "a = <<€\n((((\n€\n", "<<é\n${x}\né\n", "a = \"$\" \"%\" \"$$\" \"$${\"", "<<A\r\nA\r\n(", "${<<A\n${\nA\n}",
	"a = b && c || !d == e != f >= g <= h ? i : j\n", "/* (", "\"\\\n(", "<<A\n$A\nA\n(", "<<A\n${1}A\nA\n(", "(}~}]", "\"${(}\"", "a = f(1, [2, 3]...)[4].b[*].c.*.d",
}

// FuzzScan: our scanner and HCL's agree where texts and template sequences
// begin, on any input; if they did not, a bracket could hide in what only one of
// them takes for text. On a text without mistakes they count the same depth, and
// ours never fewer operators.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if invalidUTF8(src) >= 0 || slices.Contains(src, 0) {
			return // refused before
		}
		agree(t, src, scanBody)
		agree(t, src, scanTemplate)
	})
}

func agree(t *testing.T, src []byte, what scanKind) {
	var tokens hclsyntax.Tokens
	if what == scanTemplate {
		tokens, _ = hclsyntax.LexTemplate(src, "", hclv2.InitialPos)
	} else {
		tokens, _ = hclsyntax.LexConfig(src, "", hclv2.InitialPos)
	}
	var want []int
	broken := false
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			want = append(want, t.Range.Start.Byte)
		case hclsyntax.TokenInvalid, hclsyntax.TokenBadUTF8:
			broken = true
		}
	}
	var got []int
	s := newScanner(src, what)
	deepest, longest := 1, 0
	for s.p < len(s.b) && s.found == withinLimits {
		from, depth := s.p, len(s.stack)
		s.step()
		if s.p <= from && len(s.stack) >= depth {
			t.Fatalf("%q: no progress at %d", src, from)
		}
		if len(s.stack) > depth && s.top().kind != '(' && s.top().kind != '[' && s.top().kind != '{' {
			got = append(got, from)
		}
		deepest = max(deepest, len(s.stack))
		longest = max(longest, s.top().ops)
	}
	if s.found != withinLimits {
		return
	}
	// HCL gives up at a lone carriage return in a text; ours reads on.
	lone := bytes.Contains(bytes.ReplaceAll(src, []byte("\r\n"), nil), []byte("\r"))
	if broken = broken || lone; lone && len(got) > len(want) {
		got = got[:len(want)]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q (%d): texts begin at %v, for HCL at %v", src, what, got, want)
	}
	if wantDeep, wantLong := tokenLimits(tokens, what == scanBody); !broken && balanced(tokens) && (deepest != max(wantDeep, 1) || longest < wantLong) {
		t.Fatalf("%q (%d): depth %d and %d operators, on tokens %d and %d", src, what, deepest, longest, wantDeep, wantLong)
	}
}

// balanced reports whether each bracket is closed by its own kind.
func balanced(tokens hclsyntax.Tokens) bool {
	closes := map[hclsyntax.TokenType]hclsyntax.TokenType{
		hclsyntax.TokenCBrace: hclsyntax.TokenOBrace, hclsyntax.TokenCBrack: hclsyntax.TokenOBrack,
		hclsyntax.TokenCParen: hclsyntax.TokenOParen, hclsyntax.TokenCQuote: hclsyntax.TokenOQuote,
		hclsyntax.TokenCHeredoc: hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateSeqEnd: hclsyntax.TokenTemplateInterp,
	}
	var stack []hclsyntax.TokenType
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			stack = append(stack, t.Type)
		case hclsyntax.TokenTemplateControl:
			stack = append(stack, hclsyntax.TokenTemplateInterp)
		default:
			if open, ok := closes[t.Type]; ok {
				if len(stack) == 0 || stack[len(stack)-1] != open {
					return false
				}
				stack = stack[:len(stack)-1]
			}
		}
	}
	return len(stack) == 0
}

// tokenLimits counts on HCL's own tokens what scan counts on the text.
func tokenLimits(tokens hclsyntax.Tokens, lines bool) (deepest, longest int) {
	type scope struct {
		base, ops int
		lines     bool
	}
	stack := []scope{{lines: lines}}
	for _, t := range tokens {
		top := &stack[len(stack)-1]
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment: // a comment takes its line's end with it
			if top.lines && t.Bytes[len(t.Bytes)-1] == '\n' {
				top.ops = top.base
			}
		case hclsyntax.TokenComma:
			top.ops = top.base
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
			hclsyntax.TokenQuestion, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenLessThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenOBrack, hclsyntax.TokenDot, hclsyntax.TokenTemplateControl:
			top.ops++
			longest = max(longest, top.ops)
		}
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			stack = append(stack, scope{base: top.ops, ops: top.ops, lines: t.Type == hclsyntax.TokenOBrace})
			deepest = max(deepest, len(stack))
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
		}
	}
	return deepest, longest
}

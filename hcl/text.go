package hcl

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"golang.org/x/text/unicode/norm"
)

// maxName is how many characters a name may have.
const maxName = 64

// normal is the form in which names are compared. HCL itself normalises only
// the text of literals.
func normal(s string) string { return norm.NFC.String(s) }

// alternatives joins names for a message: "a, b or c".
func alternatives(names []string) string {
	switch n := len(names); n {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}

// listOf joins what something has, at most twenty of them.
func listOf(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > 20:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:20], ", "), n-20)
	}
	return strings.Join(names, ", ")
}

// capital makes the first letter a capital one, unless it is that of a name.
func capital(s string) string {
	if word, _, _ := strings.Cut(s, " "); strings.ContainsAny(strings.TrimRight(word, ".:"), `./\_`) {
		return s // a name, such as that of a file
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// sentence is an error's text as the beginning of a sentence.
func sentence(err error) string { return capital(err.Error()) }

// stringOf converts a known primitive value.
func stringOf(v cty.Value) cty.Value {
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		panic("hcl: a primitive value without a text form: " + err.Error())
	}
	return s
}

// period ends a sentence that may have its end already.
func period(s string) string {
	if r, _ := utf8.DecodeLastRuneInString(s); strings.ContainsRune(".?!。？！…", r) {
		return s
	}
	return s + "."
}

func hclRange(r Range) hclv2.Range {
	return hclv2.Range{
		Filename: r.File,
		Start:    hclv2.Pos{Line: r.Start.Line, Column: r.Start.Column, Byte: r.Start.Byte},
		End:      hclv2.Pos{Line: r.End.Line, Column: r.End.Column, Byte: r.End.Byte},
	}
}

// article puts "a" or "an" before a noun.
func article(noun string) string {
	if noun != "" && strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}

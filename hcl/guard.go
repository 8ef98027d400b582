package hcl

import (
	"bytes"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
)

const (
	maxFile     = 16 << 20  // bytes of one file
	maxNesting  = 200       // brackets and templates inside each other
	maxOperator = 2000      // operators and indexings on the way to any part of an expression
	maxTokens   = 2_000_000 // words and signs of one file
	maxBlock    = 500_000   // words and signs of one block; HCL needs about 400 bytes for each
	maxPieces   = 10_000    // lines, templates and escapes of one text; HCL moves them all for each
	maxMelded   = 2 << 30   // pieces times bytes of one text, which HCL puts together from the front
)

var bom = []byte("\xef\xbb\xbf")

// guardFile says whether src may be given to HCL's parser. The parser and the
// evaluator recurse, and a Go stack overflow cannot be caught, so what would
// recurse too far is refused on the flat text. It also tells where src may be cut
// into pieces of about pieceSize.
func guardFile(name string, src []byte, at hclv2.Pos) (cuts []int, ds Diagnostics) {
	if ds := guardBytes(name, src); ds.HasErrors() {
		return nil, ds
	}
	s := newScanner(src, scanBody)
	s.piece = pieceSize
	ds = outside(name, src, at, s)
	return s.cuts, ds
}

// guardBytes says whether src is text of a size that can be read at all.
func guardBytes(name string, src []byte) Diagnostics {
	var ds Diagnostics
	start := hclv2.Range{Filename: name, Start: hclv2.InitialPos, End: hclv2.InitialPos}
	if len(src) > maxFile {
		ds.errorf("file-too-large", start, "File is too large", "%s has %d bytes; a file of a flow may have at most %d MiB. Keep large data in files of its own and read it in a step.", name, len(src), maxFile>>20)
		return ds
	}
	if i := invalidUTF8(src); i >= 0 {
		at := hclv2.Range{Filename: name, Start: posAt(src, i), End: posAt(src, i)}
		at.End.Byte++
		ds.errorf("invalid-utf8", at, "File is not UTF-8 text", "Byte %d of %s is %#02x, which UTF-8 does not allow there. Save the file as UTF-8.", i, name, src[i])
	}
	return ds
}

// guardTemplate is guardFile for the text of a template.
func guardTemplate(name string, src []byte, start hclv2.Pos) Diagnostics {
	return guardText(name, src, start, scanTemplate)
}

// guardExpression is guardFile for the text of one expression.
func guardExpression(name string, src []byte) Diagnostics {
	return guardText(name, src, hclv2.InitialPos, scanExpression)
}

func guardText(name string, src []byte, start hclv2.Pos, what scanKind) Diagnostics {
	return outside(name, src, start, newScanner(src, what))
}

// outside runs the scanner and says where it met a limit.
func outside(name string, src []byte, start hclv2.Pos, s *scanner) Diagnostics {
	limit, at := s.run()
	r := hclv2.Range{Filename: name, Start: posAt(src, at), End: posAt(src, at)}
	r.Start.Byte += start.Byte
	r.End.Byte += start.Byte + 1
	r.End.Column++
	return beyond(limit, r)
}

// beyond is the diagnostic of a text that goes beyond a limit, none for one
// that does not.
func beyond(l limit, at hclv2.Range) Diagnostics {
	var ds Diagnostics
	switch l {
	case tooDeep:
		ds.errorf("nesting-too-deep", at, "Nesting is too deep", "Brackets and templates may be nested at most %d levels. Split the expression into locals.", maxNesting)
	case tooLong:
		ds.errorf("expression-too-long", at, "Expression is too long", "One expression may have at most %d operators and indexings. Split it into locals.", maxOperator)
	case tooManyDigits:
		ds.errorf("number-out-of-range", at, "Number is out of range", "A number may have at most %d digits. Write it as a text, in quotes.", maxDigits)
	case tooManyPieces:
		ds.errorf("text-too-long", at, "Text is too long", "A text in a flow may have at most %d lines, templates and escapes, fewer if they are very long. Keep it in a file of its own and read that with file().", maxPieces)
	case tooLarge:
		ds.errorf("file-too-large", at, "Block is too large", "One block or attribute may have at most %d words and signs. Split it, or keep data in files that a step reads.", maxBlock)
	case tooMany:
		ds.errorf("file-too-large", at, "File is too large", "A file may have at most %d words and signs. Split it, or keep data in files that a step reads.", maxTokens)
	}
	return ds
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

// posAt is the position of byte i, with the column in bytes: the line may be
// megabytes long.
func posAt(b []byte, i int) hclv2.Pos {
	line := bytes.Count(b[:i], []byte("\n"))
	return hclv2.Pos{Line: line + 1, Column: i - bytes.LastIndexByte(b[:i], '\n'), Byte: i}
}

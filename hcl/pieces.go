package hcl

import (
	"bytes"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// pieceSize is how much text HCL's lexer is given at once. It makes all tokens of
// a text before the parser sees the first, a hundred bytes for each word in one
// slice that grows by copying: half of what reading a large flow took.
const pieceSize = 4 << 10

// wrongSize is how much text behind the first mistake is looked at for others.
const wrongSize = 256 << 10

// parsePieces is ParseConfig for a text without mistakes, piece by piece; the tree
// is the same. It returns nil when the pieces do not tell: there is a mistake, whose
// diagnostic should see what is around, or an attribute outside of blocks, which may
// stand twice. Then wrong is where the text with the mistakes ends that are told at
// once, the whole if it is not very long: each word can be one, and each takes a
// kilobyte.
func parsePieces(src []byte, path string, start hclv2.Pos, cuts []int) (whole *hclsyntax.Body, wrong int) {
	if len(cuts) == 0 {
		return nil, len(src)
	}
	whole = &hclsyntax.Body{Attributes: hclsyntax.Attributes{}}
	from, at := 0, start
	for i := 0; i <= len(cuts); i++ {
		to := len(src)
		if i < len(cuts) {
			to = cuts[i]
		}
		piece := src[from:to]
		file, ds := hclsyntax.ParseConfig(piece, path, at)
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok || len(ds) > 0 || len(body.Attributes) > 0 {
			for len(ds) > 0 && i < len(cuts) {
				if cuts[i]-from > wrongSize {
					return nil, cuts[i]
				}
				i++
			}
			return nil, len(src)
		}
		whole.Blocks = append(whole.Blocks, body.Blocks...)
		whole.SrcRange, whole.EndRange = hclv2.RangeBetween(whole.SrcRange, body.SrcRange), body.EndRange
		if i == 0 {
			whole.SrcRange = body.SrcRange
		}
		from, at = to, hclv2.Pos{Line: at.Line + bytes.Count(piece, []byte("\n")), Column: 1, Byte: at.Byte + len(piece)}
	}
	return whole, len(src)
}

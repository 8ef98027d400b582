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

// parsePieces is ParseConfig for a text without mistakes, piece by piece; the tree
// is the same. It returns nil when the pieces do not tell: there is a mistake, whose
// diagnostic should see the whole, or an attribute outside of blocks, which may
// stand twice.
func parsePieces(src []byte, path string, start hclv2.Pos, cuts []int) *hclsyntax.Body {
	if len(cuts) == 0 {
		return nil
	}
	whole := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}}
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
			return nil
		}
		whole.Blocks = append(whole.Blocks, body.Blocks...)
		whole.SrcRange, whole.EndRange = hclv2.RangeBetween(whole.SrcRange, body.SrcRange), body.EndRange
		if i == 0 {
			whole.SrcRange = body.SrcRange
		}
		from, at = to, hclv2.Pos{Line: at.Line + bytes.Count(piece, []byte("\n")), Column: 1, Byte: at.Byte + len(piece)}
	}
	return whole
}

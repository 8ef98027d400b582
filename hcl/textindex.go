package hcl

import (
	"bytes"
	"sort"

	"github.com/apparentlymart/go-textseg/v15/textseg"
	hclv2 "github.com/hashicorp/hcl/v2"
)

// textIndex finds the line and column of a byte. Columns count characters as a
// reader sees them, and the one line of a JSON file may be megabytes long, so
// it keeps the position of every few dozen bytes.
type textIndex struct {
	b     []byte
	marks []hclv2.Pos // ascending; the beginning of every line among them
	last  hclv2.Pos   // found before; the places of a tree mostly ascend
}

// markEvery is how many bytes of one line lie between two marks.
const markEvery = 64

// newTextIndex makes the index of b, whose text begins at byte from.
func newTextIndex(b []byte, from int) *textIndex {
	p := hclv2.Pos{Line: 1, Column: 1, Byte: from}
	x := &textIndex{b: b, last: p}
	x.marks = append(x.marks, p)
	for p.Byte < len(b) {
		p = x.next(p)
		if last := x.marks[len(x.marks)-1]; p.Line > last.Line || p.Byte-last.Byte >= markEvery {
			x.marks = append(x.marks, p)
		}
	}
	return x
}

// next is the position after the character at p.
func (x *textIndex) next(p hclv2.Pos) hclv2.Pos {
	n := 1
	if rest := x.b[p.Byte:]; rest[0] >= 0x80 || len(rest) > 1 && rest[1] >= 0x80 {
		if adv, _, err := textseg.ScanGraphemeClusters(rest, true); err == nil && adv > 0 {
			n = adv
		}
	}
	if bytes.IndexByte(x.b[p.Byte:p.Byte+n], '\n') >= 0 {
		return hclv2.Pos{Line: p.Line + 1, Column: 1, Byte: p.Byte + n}
	}
	return hclv2.Pos{Line: p.Line, Column: p.Column + 1, Byte: p.Byte + n}
}

// pos is the position of byte at; inside of a character it has that
// character's column.
func (x *textIndex) pos(at int) hclv2.Pos {
	at = min(at, len(x.b))
	i := sort.Search(len(x.marks), func(i int) bool { return x.marks[i].Byte > at })
	p := x.marks[max(i-1, 0)]
	if x.last.Byte <= at && x.last.Byte > p.Byte {
		p = x.last
	}
	for p.Byte < at {
		n := x.next(p)
		if n.Byte > at {
			break
		}
		p = n
	}
	x.last = p
	p.Byte = at
	return p
}

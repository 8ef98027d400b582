package hcl

import (
	"bytes"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// loneSurrogate is what jsonEscape returns for half of a surrogate pair.
const loneSurrogate = -1

// jsonEscape reads the escape sequence that b begins with, and a second one
// when both make a surrogate pair. n is 0 when it is none.
func jsonEscape(b []byte) (r rune, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, b[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	first, ok := hexEscape(b)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(first):
		return first, 6
	}
	if second, ok := hexEscape(b[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return loneSurrogate, 6
}

// hexEscape reads \uXXXX.
func hexEscape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}

// embedded is a text of HCL inside a JSON string: what the string stands for,
// and where each byte of that is written.
type embedded struct {
	text  []byte
	jumps []jump
	index *textIndex
	name  string
	seen  map[uintptr]bool // nodes whose places are right already
}

// jump says that from byte text on, up to the next jump, the text is written in
// the file from byte file on.
type jump struct{ text, file int }

// embedded decodes a string.
func (j *jsonFile) embedded(n *jsonNode) *embedded {
	x := &embedded{index: j.index, name: j.name}
	p, end := int(n.from)+1, int(n.to)-1
	x.jumps = append(x.jumps, jump{0, p})
	for p < end {
		plain := bytes.IndexByte(j.b[p:end], '\\')
		if plain < 0 {
			plain = end - p
		}
		x.text = append(x.text, j.b[p:p+plain]...)
		if p += plain; p < end {
			r, size := jsonEscape(j.b[p:end])
			x.jumps = append(x.jumps, jump{len(x.text), p})
			x.text = utf8.AppendRune(x.text, r)
			p += size
			x.jumps = append(x.jumps, jump{len(x.text), p})
		}
	}
	return x
}

// pos is the position in the file of a byte of the text.
func (x *embedded) pos(at int) hclv2.Pos {
	i := sort.Search(len(x.jumps), func(i int) bool { return x.jumps[i].text > at }) - 1
	m := x.jumps[max(i, 0)]
	return x.index.pos(m.file + min(at, len(x.text)) - m.text)
}

func (x *embedded) place(r hclv2.Range) hclv2.Range {
	return hclv2.Range{Filename: x.name, Start: x.pos(r.Start.Byte), End: x.pos(r.End.Byte)}
}

var (
	rangeType = reflect.TypeFor[hclv2.Range]()
	valueType = reflect.TypeFor[cty.Value]()
)

// relocate puts the places of a syntax tree that was made of the text into the
// file. HCL's nodes hold forty ranges in all, and its parser cannot be told
// that an escape is longer than what it stands for.
func (x *embedded) relocate(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || x.seen[v.Pointer()] {
			return
		}
		x.seen[v.Pointer()] = true
		x.relocate(v.Elem())
	case reflect.Interface:
		switch e := v.Elem(); e.Kind() {
		case reflect.Pointer:
			x.relocate(e)
		case reflect.Struct: // a step of a traversal
			moved := reflect.New(e.Type()).Elem()
			moved.Set(e)
			x.relocate(moved)
			v.Set(moved)
		}
	case reflect.Slice:
		for i := range v.Len() {
			x.relocate(v.Index(i))
		}
	case reflect.Struct:
		switch v.Type() {
		case rangeType:
			v.Set(reflect.ValueOf(x.place(v.Interface().(hclv2.Range))))
		case valueType:
		default:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					x.relocate(v.Field(i))
				}
			}
		}
	}
}

// template is a string that stands for a value. As in the native form it is a
// template, and "${x}" is x itself.
func (j *jsonFile) template(n *jsonNode) hclsyntax.Expression {
	at := j.rangeOf(n)
	raw := j.b[n.from+1 : n.to-1]
	if !mayBeTemplate(raw) {
		text := unquote(j.b[n.from:n.to])
		return &hclsyntax.TemplateExpr{SrcRange: at, Parts: []hclsyntax.Expression{
			&hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: j.rangeAt(int(n.from)+1, int(n.to)-1)},
		}}
	}
	e := j.parse(n, scanTemplate)
	switch t := e.(type) { // in the native form the quotes belong to it
	case *hclsyntax.TemplateExpr:
		t.SrcRange = at
	case *hclsyntax.TemplateWrapExpr:
		t.SrcRange = at
	}
	return e
}

// mayBeTemplate reports whether a written string holds a template sequence. An
// escape may hide its signs.
func mayBeTemplate(raw []byte) bool {
	return bytes.Contains(raw, []byte("${")) || bytes.Contains(raw, []byte("%{")) || bytes.Contains(raw, []byte(`\u`))
}

// code is a string that is the text of a reference or a type. What "${x}" is
// elsewhere it is here too.
func (j *jsonFile) code(n *jsonNode) hclsyntax.Expression {
	switch n.kind {
	case '"':
		if !bytes.HasPrefix(j.b[n.from+1:n.to], []byte("${")) {
			return j.parse(n, scanExpression)
		}
		return unwrap(j.template(n))
	case '[':
		list := &hclsyntax.TupleConsExpr{SrcRange: j.rangeOf(n), OpenRange: j.rangeAt(int(n.from), int(n.from)+1)}
		for i := range n.sub {
			list.Exprs = append(list.Exprs, j.code(&n.sub[i]))
		}
		return list
	}
	return j.expr(n)
}

// parse gives the text in a string to HCL's parser, behind the same guard as a
// file.
func (j *jsonFile) parse(n *jsonNode, what scanKind) hclsyntax.Expression {
	x := j.embedded(n)
	s := newScanner(x.text, what)
	s.tokens = j.tokens
	found, at := s.run()
	j.tokens = s.tokens
	if found != withinLimits {
		j.ds = append(j.ds, beyond(found, hclv2.Range{Filename: j.name, Start: x.pos(at), End: x.pos(at + 1)})...)
		return unknownAt(j.rangeOf(n))
	}
	var e hclsyntax.Expression
	var hd hclv2.Diagnostics
	if what == scanTemplate {
		e, hd = hclsyntax.ParseTemplate(x.text, j.name, hclv2.InitialPos)
	} else {
		e, hd = hclsyntax.ParseExpression(x.text, j.name, hclv2.InitialPos)
	}
	ds := fromHCL(hd)
	for i := range ds {
		ds[i].Detail = strings.ReplaceAll(ds[i].Detail, "the end of the file", "the end of the string")
		ds[i].Subject = rangeOf(x.place(hclRange(ds[i].Subject)))
		if !ds[i].Context.IsZero() {
			ds[i].Context = rangeOf(x.place(hclRange(ds[i].Context)))
		}
	}
	if j.ds = append(j.ds, ds...); ds.HasErrors() {
		return unknownAt(j.rangeOf(n))
	}
	x.seen = map[uintptr]bool{}
	x.relocate(reflect.ValueOf(&e))
	return e
}

// unknownAt stands for an expression with a mistake that was reported.
func unknownAt(at hclv2.Range) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at}
}

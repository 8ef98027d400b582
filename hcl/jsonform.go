package hcl

import (
	"bytes"
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// parseJSON makes the syntax tree of a file in JSON form. Objects and lists
// become blocks where the language has blocks, and expressions everywhere else.
func parseJSON(f *File) (*hclsyntax.Body, Diagnostics) {
	if ds := guardBytes(f.Path, f.Bytes); ds.HasErrors() {
		return nil, ds
	}
	start := 0
	if bytes.HasPrefix(f.Bytes, bom) {
		start = len(bom)
	}
	j := &jsonFile{name: f.Path, b: f.Bytes, p: start, index: newTextIndex(f.Bytes, start)}
	root, ok := j.text()
	if !ok {
		return nil, j.ds
	}
	if root.kind != '{' {
		j.ds.errorf("invalid-json", j.rangeOf(&root), "File is not a JSON object", `A flow in JSON form is one object: { "workflow": { "NAME": {} }, … }.`)
		return nil, j.ds
	}
	return j.body(&root, &blockType{inner: topBlocks}), j.ds
}

func (j *jsonFile) rangeOf(n *jsonNode) hclv2.Range { return j.rangeAt(int(n.from), int(n.to)) }

func (j *jsonFile) keyRange(n *jsonNode) hclv2.Range {
	return j.rangeAt(int(n.keyFrom), int(n.keyTo))
}

// openOf is the bracket that opens an object or a list.
func (j *jsonFile) openOf(n *jsonNode) hclv2.Range { return j.rangeAt(int(n.from), int(n.from)+1) }

func (j *jsonFile) keyOf(n *jsonNode) string { return unquote(j.b[n.keyFrom:n.keyTo]) }

// body reads what is inside a block of type t.
func (j *jsonFile) body(n *jsonNode, t *blockType) *hclsyntax.Body {
	end := j.rangeAt(int(n.to)-1, int(n.to))
	body := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: j.rangeOf(n), EndRange: hclv2.Range{Filename: j.name, Start: end.End, End: end.End}}
	for i := range n.sub {
		m := &n.sub[i]
		switch name := j.keyOf(m); {
		case name == "//": // a comment
		case t.inner[name] != nil:
			j.blocks(body, name, m, t.inner[name])
		case j.strangeBlock(name, m, t):
			body.Blocks = append(body.Blocks, j.block(name, m, j.keyRange(m), &blockType{}))
		default:
			body.Attributes[name] = j.argument(name, m, t)
		}
	}
	return body
}

// strangeBlock reports whether what the language does not have was meant as a
// block; what it says about that depends on it.
func (j *jsonFile) strangeBlock(name string, m *jsonNode, t *blockType) bool {
	if t.free || slices.Contains(t.args, normal(name)) {
		return false
	}
	return len(t.args) == 0 || (m.kind == '{' || m.kind == '[') && nearest(name, keysOfMap(t.inner)) != ""
}

func (j *jsonFile) argument(name string, m *jsonNode, t *blockType) *hclsyntax.Attribute {
	a := &hclsyntax.Attribute{Name: name, NameRange: j.keyRange(m), SrcRange: j.rangeAt(int(m.keyFrom), int(m.to))}
	if slices.Contains(t.code, name) {
		a.Expr = j.code(m)
	} else {
		a.Expr = j.expr(m)
	}
	return a
}

// blocks reads the value of a key that stands for blocks: an object, or a list
// of objects for several; of a block with a label, an object of those by label.
func (j *jsonFile) blocks(body *hclsyntax.Body, kind string, m *jsonNode, t *blockType) {
	for _, n := range j.objects(kind, m, t) {
		if t.label == "" {
			at := j.keyRange(m)
			if m.kind == '[' {
				at = j.openOf(n)
			}
			body.Blocks = append(body.Blocks, j.block(kind, n, at, t))
			continue
		}
		for i := range n.sub {
			label := &n.sub[i]
			if name := j.keyOf(label); name != "//" {
				for _, n := range j.objects(kind, label, t) {
					b := j.block(kind, n, j.keyRange(label), t)
					b.Labels, b.LabelRanges = []string{name}, []hclv2.Range{b.TypeRange}
					body.Blocks = append(body.Blocks, b)
				}
			}
		}
	}
}

// objects are the object that m is or the objects it lists; null stands for
// none.
func (j *jsonFile) objects(kind string, m *jsonNode, t *blockType) []*jsonNode {
	var out []*jsonNode
	list := []jsonNode{*m}
	if m.kind == '[' {
		list = m.sub
	}
	for i := range list {
		switch n := &list[i]; {
		case n.kind == '{':
			out = append(out, n)
		case n.kind == 'n' && m.kind == 'n':
		case t.label != "":
			j.ds.errorf("invalid-block", j.rangeOf(n), "Block is not an object", `In JSON form %s is written "%[2]s": { "NAME": { … } }.`, article(kind), kind)
		default:
			j.ds.errorf("invalid-block", j.rangeOf(n), "Block is not an object", `%s is a block. In JSON form it is written "%[1]s": { … }, and several of them "%[1]s": [{ … }, { … }].`, kind)
		}
	}
	return out
}

// block makes a block whose header is at the given place: its label, if it has
// one, because the key with its type may stand over many.
func (j *jsonFile) block(kind string, n *jsonNode, at hclv2.Range, t *blockType) *hclsyntax.Block {
	return &hclsyntax.Block{
		Type: kind, TypeRange: at, Body: j.body(n, t),
		OpenBraceRange: j.openOf(n), CloseBraceRange: j.rangeAt(int(n.to)-1, int(n.to)),
	}
}

// expr makes the expression that a JSON value stands for.
func (j *jsonFile) expr(n *jsonNode) hclsyntax.Expression {
	at := j.rangeOf(n)
	switch n.kind {
	case '"':
		return j.template(n)
	case '[':
		list := &hclsyntax.TupleConsExpr{SrcRange: at, OpenRange: j.openOf(n)}
		for i := range n.sub {
			list.Exprs = append(list.Exprs, j.expr(&n.sub[i]))
		}
		return list
	case '{':
		object := &hclsyntax.ObjectConsExpr{SrcRange: at, OpenRange: j.openOf(n)}
		for i := range n.sub {
			m := &n.sub[i]
			key := j.template(&jsonNode{kind: '"', from: m.keyFrom, to: m.keyTo})
			object.Items = append(object.Items, hclsyntax.ObjectConsItem{KeyExpr: &hclsyntax.ObjectConsKeyExpr{Wrapped: key}, ValueExpr: j.expr(m)})
		}
		return object
	case '0':
		v, err := number(string(j.b[n.from:n.to]))
		if err != nil {
			j.ds.errorf("number-out-of-range", at, "Number is out of range", "%s.", sentence(err))
			return unknownAt(at)
		}
		return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: at}
	case 't', 'f':
		return &hclsyntax.LiteralValueExpr{Val: cty.BoolVal(n.kind == 't'), SrcRange: at}
	}
	return &hclsyntax.LiteralValueExpr{Val: cty.NullVal(cty.DynamicPseudoType), SrcRange: at}
}

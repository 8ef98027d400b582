package hcl

import (
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
)

// shape is how the JSON of an input or output is put together: what can be is
// taken over from outputs byte for byte, the rest is evaluated.
type shape struct {
	kind   shapeKind
	keys   []string // of an object, sorted
	items  []*shape // of an object, a tuple, a try; of the others what is inside
	ref    *refExpr // shapeRaw, shapeVar
	path   []step   // shapePart
	x      *expression
	node   hclsyntax.Expression // what is evaluated where the text cannot be taken over
	locals []int                // those that node names
}

type shapeKind uint8

const (
	shapeValue shapeKind = iota
	shapeRaw             // a bare reference to JSON text: an output, each, self.input
	shapeVar             // a bare reference to a variable
	shapeFile            // a call of file()
	shapeBound           // what a variable of a sub-workflow is given, or an output of one
	shapeLocal           // a local, whose expression is x
	shapePart            // path in what is inside
	shapeTry             // the first of items without an error
	shapeEach            // the outputs of a sub-workflow with for_each; x is that of one instance
	shapeObject
	shapeTuple
)

const (
	maxShape = 32     // levels that are taken apart
	maxParts = 10_000 // that are taken out of locals, which may name each other many times
)

// shape fills in the shape of an expression, which may be nil.
func (p *program) shape(x *expression) {
	if x != nil {
		sh := shaper{p: p, left: maxParts}
		x.shape = sh.of(x.node, 0)
	}
}

type shaper struct {
	p      *program
	left   int
	locals int // around
}

// localsIn lists the locals that an expression names.
type localsIn struct{ locals []int }

func (w *localsIn) Enter(n hclsyntax.Node) hclv2.Diagnostics {
	if r, ok := n.(*refExpr); ok && r.kind == refLocal && r.index >= 0 && !r.order {
		w.locals = append(w.locals, r.index)
	}
	return nil
}

func (w *localsIn) Exit(hclsyntax.Node) hclv2.Diagnostics { return nil }

func (sh *shaper) of(e hclsyntax.Expression, depth int) *shape {
	if r := sh.p.bare(e); r != nil {
		if r.kind == refVar {
			return &shape{kind: shapeVar, ref: r}
		}
		return &shape{kind: shapeRaw, ref: r}
	}
	s := &shape{node: e}
	if sh.locals > 0 {
		sh.left--
	}
	if depth < maxShape && sh.left >= 0 {
		sh.apart(s, depth)
	}
	if s.kind != shapeObject && s.kind != shapeTuple { // what is inside of these has its own
		w := &localsIn{}
		hclsyntax.Walk(e, w)
		slices.Sort(w.locals)
		s.locals = slices.Compact(w.locals)
	}
	return s
}

// apart takes s apart, as far as something in it is handed on.
func (sh *shaper) apart(s *shape, depth int) {
	switch t := unwrap(s.node).(type) {
	case *refExpr:
		sh.local(s, t, depth)
	case *boundExpr:
		if inner := sh.of(t.Expression, depth+1); verbatim(t.v.ty) && inner.passes() {
			s.kind, s.items = shapeBound, []*shape{inner}
		}
	case *eachExpr:
		if x := sh.p.locals[t.one].expr; t.facet == sdk.FacetOutput && x != nil {
			sh.locals++
			s.kind, s.x, s.items = shapeEach, x, []*shape{sh.of(x.node, depth+1)}
			sh.locals--
		}
	case *tryExpr:
		if t.Name == "try" {
			sh.each(s, shapeTry, t.Args, depth)
			if !s.passes() {
				s.kind, s.items = shapeValue, nil
			}
		}
	case *callExpr:
		if t.Name == "file" && len(t.Args) == 1 {
			s.kind = shapeFile
		}
	case *hclsyntax.TupleConsExpr:
		sh.each(s, shapeTuple, t.Exprs, depth)
	case *hclsyntax.ObjectConsExpr:
		var xs []hclsyntax.Expression
		for _, it := range sortedItems(t) {
			key, ok := literalKey(it.KeyExpr)
			if !ok {
				s.keys = nil
				return
			}
			s.keys, xs = append(s.keys, key), append(xs, it.ValueExpr)
		}
		sh.each(s, shapeObject, xs, depth)
	}
}

func (sh *shaper) each(s *shape, kind shapeKind, xs []hclsyntax.Expression, depth int) {
	s.kind = kind
	for _, x := range xs {
		s.items = append(s.items, sh.of(x, depth+1))
	}
}

// local makes s what r names of a local, if that hands something on; else the
// local's value is computed once.
func (sh *shaper) local(s *shape, r *refExpr, depth int) {
	if r.kind != refLocal || r.index < 0 || sh.p.locals[r.index].expr == nil || sh.p.locals[r.index].cyclic {
		return
	}
	path := jsonPath(r.rest)
	if path == nil && len(r.rest) > 0 {
		return
	}
	x := sh.p.locals[r.index].expr
	sh.locals++
	inner := sh.of(x.node, depth+1)
	sh.locals--
	for len(path) > 0 && inner.kind == shapeObject && !path[0].isIndex {
		k := slices.Index(inner.keys, path[0].name)
		if k < 0 {
			return
		}
		inner, path = inner.items[k], path[1:]
	}
	if !inner.passes() {
		return
	}
	if len(path) > 0 {
		inner = &shape{kind: shapePart, path: path, items: []*shape{inner}}
	}
	s.kind, s.x, s.items = shapeLocal, x, []*shape{inner}
}

// passes reports whether some text is handed on as it is.
func (s *shape) passes() bool {
	switch s.kind {
	case shapeValue:
		return false
	case shapeObject, shapeTuple, shapeTry, shapeEach:
		return slices.ContainsFunc(s.items, (*shape).passes)
	}
	return true
}

// collection reports whether what s writes is a list or object as what is
// evaluated would be: no set, which as JSON is a list.
func (s *shape) collection() bool {
	for s.kind == shapeLocal {
		s = s.items[0]
	}
	return s.kind == shapeTuple || s.kind == shapeObject || s.kind == shapeBound || s.kind == shapeEach
}

// bare returns the reference to JSON text or to a whole variable that e is,
// directly or by way of locals; nil if e is anything else.
func (p *program) bare(e hclsyntax.Expression) *refExpr {
	for range len(p.locals) + 1 {
		r, ok := unwrap(e).(*refExpr)
		switch {
		case !ok:
			return nil
		case r.hasSource() && r.path != nil, r.kind == refVar && len(r.rest) == 0:
			return r
		case r.kind != refLocal || len(r.rest) > 0 || p.locals[r.index].expr == nil || p.locals[r.index].cyclic:
			return nil
		}
		e = p.locals[r.index].expr.node
	}
	return nil
}

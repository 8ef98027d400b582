package hcl

import (
	"encoding/binary"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// canonizer makes the digest of an expression's canonical form: a Merkle hash
// over its tree, in which two spellings of one expression are equal. A
// reference to a local is the digest of what the local stands for, so locals
// are hashed once each. A facet of a step is a hole: its kind and what follows
// it count, the step's name does not.
type canonizer struct {
	p     *program
	out   *expression
	scope [][2]string // variables of the `for` expressions around, innermost last
	splat []*hclsyntax.AnonSymbolExpr
}

// canonize fills in what an expression's canonical form is. The locals it names
// have been canonized before.
func (p *program) canonize(x *expression) {
	if x == nil || !x.canon.IsZero() {
		return
	}
	c := canonizer{p: p, out: x}
	x.canon, x.literal = c.expr(x.node)
	x.marked = p.mark(x.node, nil)
	for _, r := range x.items {
		switch r.kind {
		case refFacet:
			x.facets++
		case refRun:
			x.bind(&runBound{r.text, r.SrcRange})
		case refEach:
			x.each |= 1 << r.level
		case refLocal:
			l := &p.locals[r.index]
			if l.cyclic || l.expr == nil {
				continue
			}
			x.facets = min(x.facets+l.expr.facets, maxFacets+1)
			x.readsFile = x.readsFile || l.expr.readsFile
			x.clock = x.clock || l.expr.clock
			x.each |= l.expr.each
			x.bind(l.expr.bound)
		}
	}
	if e, ok := x.node.(*eachExpr); ok {
		x.each = x.each.around(e.sub.around.names.depth)
	}
}

// bind keeps the first part that binds the expression to its run.
func (x *expression) bind(b *runBound) {
	if x.bound == nil {
		x.bound = b
	}
}

// hashing collects the parts of one node. Every part has a tag or a length, so
// no two sequences give the same bytes.
type hashing []byte

func begin(tag string) hashing { return append(make(hashing, 0, 128), tag...) }

func (h hashing) str(s string) hashing {
	return append(binary.AppendUvarint(append(h, 's'), uint64(len(s))), s...)
}

func (h hashing) num(n int) hashing { return binary.AppendUvarint(append(h, 'i'), uint64(n)) }

func (h hashing) digest(d sdk.Digest) hashing { return append(append(h, 'd'), d[:]...) }

func (h hashing) sum() sdk.Digest { return sdk.Sum(h) }

func literalDigest(v cty.Value) sdk.Digest {
	b, err := appendJSON(nil, v)
	if err != nil {
		b = []byte(err.Error()) // out of range: reported already
	}
	return append(begin("literal "), b...).sum()
}

// digest is the digest of a part of the expression.
func (c *canonizer) digest(e hclsyntax.Expression) sdk.Digest {
	d, _ := c.expr(e)
	return d
}

// expr also returns the value of a literal, because literals join each other
// in templates; NilVal for everything else.
func (c *canonizer) expr(e hclsyntax.Expression) (sdk.Digest, cty.Value) {
	switch t := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		if !t.Val.IsKnown() { // stands for a mistake that was reported
			return begin("unknown ").sum(), cty.NilVal
		}
		return literalDigest(t.Val), t.Val
	case *hclsyntax.ParenthesesExpr:
		return c.expr(t.Expression)
	case *hclsyntax.TemplateWrapExpr:
		return c.expr(t.Wrapped)
	case *hclsyntax.ObjectConsKeyExpr:
		return c.expr(t.Wrapped)
	case *splatSource:
		return c.expr(t.Expression)
	case *templateExpr:
		return c.text(t)
	case *refExpr:
		return c.reference(t)
	case *boundExpr:
		return c.bound(t)
	case *unaryExpr:
		return c.unary(t)
	}
	return c.composite(e), cty.NilVal
}

func (c *canonizer) composite(e hclsyntax.Expression) sdk.Digest {
	switch t := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return c.variable(t)
	case *hclsyntax.RelativeTraversalExpr:
		return pathDigest(c.digest(t.Source), t.Traversal)
	case *callExpr:
		c.out.readsFile = c.out.readsFile || t.fn.file
		if t.Name == "timestamp" {
			c.out.clock = true
			c.out.bind(&runBound{"timestamp()", t.Range()})
		}
		if len(c.p.secretIndex) > 0 {
			t.secrets = c.p.mark(t, nil).secrets
		}
		return c.call(t.FunctionCallExpr, "")
	case *tryExpr:
		return c.call(t.FunctionCallExpr, "")
	case *convertExpr:
		return c.call(t.FunctionCallExpr, typeText(t.ty))
	case *condExpr:
		return begin("if ").digest(c.digest(t.Condition)).digest(c.digest(t.TrueResult)).digest(c.digest(t.FalseResult)).sum()
	case *indexExpr:
		return begin("index ").digest(c.digest(t.Collection)).digest(c.digest(t.Key)).sum()
	case *hclsyntax.TupleConsExpr:
		h := begin("tuple ").num(len(t.Exprs))
		for _, x := range t.Exprs {
			h = h.digest(c.digest(x))
		}
		return h.sum()
	case *hclsyntax.ObjectConsExpr:
		h := begin("object ").num(len(t.Items))
		for _, it := range sortedItems(t) {
			if key, ok := literalKey(it.KeyExpr); ok {
				h = h.digest(literalDigest(cty.StringVal(key)))
			} else {
				h = h.digest(c.digest(it.KeyExpr))
			}
			h = h.digest(c.digest(it.ValueExpr))
		}
		return h.sum()
	case *forExpr:
		return c.loop(t)
	case *hclsyntax.SplatExpr:
		h := begin("splat ").digest(c.digest(t.Source))
		c.splat = append(c.splat, t.Item)
		h = h.digest(c.digest(t.Each))
		c.splat = c.splat[:len(c.splat)-1]
		return h.sum()
	case *hclsyntax.AnonSymbolExpr:
		return begin("item ").num(len(c.splat) - slices.Index(c.splat, t)).sum()
	case *binaryExpr:
		return begin("binary ").str(operators[t.Op]).digest(c.digest(t.LHS)).digest(c.digest(t.RHS)).sum()
	case *statusExpr:
		h := begin("workflow ").num(int(t.facet)).num(len(t.Exprs))
		for _, x := range t.Exprs {
			h = h.digest(c.digest(x))
		}
		return h.sum()
	case *eachExpr:
		h := begin("instances ").str(t.facet.String())
		for _, x := range t.Exprs {
			h = h.digest(c.digest(x))
		}
		return h.sum()
	case *joinExpr:
		return begin("join ").digest(c.digest(t.Tuple)).sum()
	}
	return begin("unknown ").sum() // a syntax error, which was reported
}

var operators = map[*hclsyntax.Operation]string{
	hclsyntax.OpLogicalOr: "||", hclsyntax.OpLogicalAnd: "&&", hclsyntax.OpLogicalNot: "!",
	hclsyntax.OpEqual: "==", hclsyntax.OpNotEqual: "!=",
	hclsyntax.OpGreaterThan: ">", hclsyntax.OpGreaterThanOrEqual: ">=",
	hclsyntax.OpLessThan: "<", hclsyntax.OpLessThanOrEqual: "<=",
	hclsyntax.OpAdd: "+", hclsyntax.OpSubtract: "-", hclsyntax.OpMultiply: "*",
	hclsyntax.OpDivide: "/", hclsyntax.OpModulo: "%", hclsyntax.OpNegate: "-",
}

func (c *canonizer) unary(t *unaryExpr) (sdk.Digest, cty.Value) {
	d, lit := c.expr(t.Val)
	if t.Op == hclsyntax.OpNegate && lit != cty.NilVal && lit.Type() == cty.Number && !lit.IsNull() {
		n := lit.Negate()
		return literalDigest(n), n
	}
	return begin("unary ").str(operators[t.Op]).digest(d).sum(), cty.NilVal
}

// sortedItems is in the order of keys when all of them are literal. Otherwise
// the order decides which of two equal keys wins.
func sortedItems(t *hclsyntax.ObjectConsExpr) []hclsyntax.ObjectConsItem {
	keys := make(map[hclsyntax.Expression]string, len(t.Items))
	for _, it := range t.Items {
		key, ok := literalKey(it.KeyExpr)
		if !ok {
			return t.Items
		}
		keys[it.KeyExpr] = key
	}
	items := slices.Clone(t.Items)
	slices.SortStableFunc(items, func(a, b hclsyntax.ObjectConsItem) int {
		return strings.Compare(keys[a.KeyExpr], keys[b.KeyExpr])
	})
	return items
}

// text is a template: neighbouring literals are one, wherever they come from.
func (c *canonizer) text(t *templateExpr) (sdk.Digest, cty.Value) {
	w := textWriter{c: c, h: begin("template ")}
	w.parts(t)
	if w.others == 0 {
		v := cty.StringVal(w.pending.String())
		return literalDigest(v), v
	}
	w.flush()
	return w.h.sum(), cty.NilVal
}

type textWriter struct {
	c       *canonizer
	h       hashing
	pending strings.Builder
	others  int
}

// A text that locals stand in is joined up to these bounds, and by its digest beyond
// them: locals that double each other have a text without end.
const (
	maxFold   = 1 << 20   // bytes of one text
	maxFolded = 256 << 20 // bytes of all texts of a workflow
)

// joins says whether a literal may become a part of the text itself.
func (w *textWriter) joins(part hclsyntax.Expression, text string) bool {
	if _, written := unwrap(part).(*hclsyntax.LiteralValueExpr); written {
		return true // it stands in the file once
	}
	w.c.p.folded += len(text)
	return w.pending.Len()+len(text) <= maxFold && w.c.p.folded <= maxFolded
}

func (w *textWriter) parts(t *templateExpr) {
	for _, p := range t.Parts {
		if inner, ok := unwrap(p).(*templateExpr); ok {
			w.parts(inner)
			continue
		}
		d, lit := w.c.expr(p)
		if lit != cty.NilVal && !lit.IsNull() {
			if s, err := convert.Convert(lit, cty.String); err == nil && w.joins(p, s.AsString()) {
				w.pending.WriteString(s.AsString())
				continue
			}
		}
		w.flush()
		w.h = w.h.digest(d)
		w.others++
	}
}

func (w *textWriter) flush() {
	if w.pending.Len() > 0 {
		w.h = w.h.str(w.pending.String())
		w.pending.Reset()
	}
}

func unwrap(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		switch t := e.(type) {
		case *hclsyntax.ParenthesesExpr:
			e = t.Expression
		case *hclsyntax.TemplateWrapExpr:
			e = t.Wrapped
		default:
			return e
		}
	}
}

func (c *canonizer) call(t *hclsyntax.FunctionCallExpr, ty string) sdk.Digest {
	h := begin("call ").str(t.Name).num(len(t.Args)).str(ty)
	if t.ExpandFinal {
		h = h.str("...")
	}
	for _, a := range t.Args {
		h = h.digest(c.digest(a))
	}
	return h.sum()
}

func (c *canonizer) loop(t *forExpr) sdk.Digest {
	h := begin("for ").digest(c.digest(t.CollExpr))
	c.scope = append(c.scope, [2]string{t.ValVar, t.KeyVar})
	if t.KeyExpr != nil {
		h = h.str("key").digest(c.digest(t.KeyExpr))
	}
	h = h.digest(c.digest(t.ValExpr))
	if t.CondExpr != nil {
		h = h.str("if").digest(c.digest(t.CondExpr))
	}
	if t.Group {
		h = h.str("...")
	}
	c.scope = c.scope[:len(c.scope)-1]
	return h.sum()
}

// variable is a variable of a `for`, by how many loops out it is bound.
func (c *canonizer) variable(t *hclsyntax.ScopeTraversalExpr) sdk.Digest {
	root := t.Traversal.RootName()
	for i := len(c.scope) - 1; i >= 0; i-- {
		for which, name := range c.scope[i] {
			if name == root {
				return pathDigest(begin("bound ").num(len(c.scope)-i).num(which).sum(), t.Traversal[1:])
			}
		}
	}
	return pathDigest(begin("free ").str(root).sum(), t.Traversal[1:])
}

func (c *canonizer) reference(r *refExpr) (sdk.Digest, cty.Value) {
	c.out.items = append(c.out.items, r)
	switch r.kind {
	case refLocal:
		l := &c.p.locals[r.index]
		if l.cyclic || l.expr == nil {
			return begin("unknown ").sum(), cty.NilVal
		}
		if len(r.rest) == 0 {
			return l.expr.canon, l.expr.literal
		}
		return pathDigest(l.expr.canon, r.rest), cty.NilVal
	case refFacet:
		return pathDigest(begin("facet ").num(int(r.facet)).sum(), r.rest), cty.NilVal
	case refSecret:
		return pathDigest(begin("secret ").str(r.name).sum(), r.rest), cty.NilVal
	case refVar:
		return pathDigest(begin("variable ").str(r.name).sum(), r.rest), cty.NilVal
	}
	return pathDigest(begin("property ").str(r.name).sum(), r.rest), cty.NilVal
}

// pathDigest is base with steps into it; x["a"] and x.a are the same step.
func pathDigest(base sdk.Digest, t hclv2.Traversal) sdk.Digest {
	if len(t) == 0 {
		return base
	}
	h := begin("path ").digest(base)
	for _, s := range t {
		switch s := s.(type) {
		case hclv2.TraverseAttr:
			h = h.str(s.Name)
		case hclv2.TraverseIndex:
			if s.Key.Type() == cty.String {
				h = h.str(s.Key.AsString())
			} else {
				h = h.digest(literalDigest(s.Key))
			}
		}
	}
	return h.sum()
}

// expand calls yield for every facet that x names, locals expanded where they
// are used, in canonical order. optional says that a try or can lies between.
func (p *program) expand(x *expression, yield func(r *refExpr, optional bool)) {
	if x == nil || x.facets == 0 || x.facets > maxFacets {
		return
	}
	type visit struct {
		items    []*refExpr
		optional bool
	}
	stack := []visit{{x.items, false}}
	for len(stack) > 0 {
		v := &stack[len(stack)-1]
		if len(v.items) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		r, optional := v.items[0], v.optional || v.items[0].optional
		v.items = v.items[1:]
		switch {
		case r.kind == refFacet:
			yield(r, optional)
		case r.kind == refLocal && p.locals[r.index].expr != nil && p.locals[r.index].expr.facets > 0:
			stack = append(stack, visit{p.locals[r.index].expr.items, optional})
		}
	}
}

package hcl

import (
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// marked says what an expression names of secrets and sensitive values. It is
// read from the text, so that no function can lose it: every reference is
// readable there, and what an expression names may be in what it gives.
type marked struct {
	sensitive bool        // it must not be shown
	cause     string      // the reference that says so: "var.token", "secret.key"
	secrets   []int       // named here and in locals, sorted
	at        hclv2.Range // of the first of them
}

func (m *marked) add(o marked) {
	if o.sensitive && !m.sensitive {
		m.sensitive, m.cause = true, o.cause
	}
	if len(o.secrets) == 0 {
		return
	}
	if len(m.secrets) == 0 {
		m.at = o.at
	}
	m.secrets = append(slices.Clip(m.secrets), o.secrets...)
	slices.Sort(m.secrets)
	m.secrets = slices.Compact(m.secrets)
}

// secrets are those that x names; x may be nil.
func (x *expression) secrets() []int {
	if x == nil {
		return nil
	}
	return x.marked.secrets
}

// mark looks through a part of an expression. hidden says of a name that is no
// reference, a variable of `for` or of a template file, whether it must not be
// shown; nil: what it stands for is looked at where that is written.
func (p *program) mark(e hclsyntax.Node, hidden func() bool) marked {
	w := &markWalker{p: p, hidden: hidden, deep: true}
	hclsyntax.Walk(e, w)
	return w.out
}

type markWalker struct {
	p      *program
	hidden func() bool
	deep   bool // look into literal objects of locals for the part that is named
	shown  int  // calls of nonsensitive around
	out    marked
}

func (w *markWalker) Enter(n hclsyntax.Node) hclv2.Diagnostics {
	switch t := n.(type) {
	case *refExpr:
		w.out.add(w.p.brought(t, w.deep))
	case *boundExpr:
		if t.v.sensitive && w.shown == 0 {
			w.out.add(marked{sensitive: true, cause: t.name})
		}
	case *callExpr:
		switch {
		case t.Name == "nonsensitive":
			w.shown++
		case t.Name == "sensitive" && w.shown == 0:
			w.out.add(marked{sensitive: true, cause: "sensitive(…)"})
		}
	case *hclsyntax.ScopeTraversalExpr, *hclsyntax.AnonSymbolExpr:
		if w.hidden != nil && w.shown == 0 && w.hidden() {
			w.out.add(marked{sensitive: true})
		}
	}
	return nil
}

func (w *markWalker) Exit(n hclsyntax.Node) hclv2.Diagnostics {
	if t, ok := n.(*callExpr); ok && t.Name == "nonsensitive" {
		w.shown--
	}
	return nil
}

// carried is what a reference brings.
func (p *program) carried(r *refExpr) marked { return p.brought(r, true) }

// brought is carried; without deep a reference into a local brings what the
// whole local does. Chains of locals could otherwise be looked through again and
// again.
func (p *program) brought(r *refExpr, deep bool) (m marked) {
	switch r.kind {
	case refSecret:
		m = marked{sensitive: true, cause: r.text, secrets: []int{r.index}, at: r.SrcRange}
	case refVar:
		m = marked{sensitive: p.vars[r.index].sensitive, cause: r.text}
	case refLocal:
		if l := &p.locals[r.index]; l.expr != nil && !l.cyclic {
			m = p.inside(l.expr, r, deep)
		}
	case refEach:
		if l := p.steps[r.index].loops[r.level]; l.x != nil {
			m = marked{sensitive: l.x.marked.sensitive, cause: r.text}
		}
	case refSelf:
		if x := p.steps[r.index].input; r.name == "self.input" && x != nil {
			m = p.inside(x, r, deep)
		}
	}
	if r.shown {
		m.sensitive = false
	}
	return m
}

// inside is what a reference into x brings.
func (p *program) inside(x *expression, r *refExpr, deep bool) marked {
	m := x.marked
	if part := p.part(x.node, r.rest); deep && part != nil && (m.sensitive || len(m.secrets) > 0) {
		w := &markWalker{p: p}
		hclsyntax.Walk(part, w)
		m = w.out
	}
	m.cause = r.text
	return m
}

// part is the expression of an attribute of a literal object, as far as the text
// tells; nil without a step into it.
func (p *program) part(e hclsyntax.Expression, rest hclv2.Traversal) hclsyntax.Expression {
	if len(rest) == 0 {
		return nil
	}
	for _, s := range jsonPath(rest) {
		obj, ok := unwrap(e).(*hclsyntax.ObjectConsExpr)
		if !ok || s.isIndex {
			break
		}
		found := -1
		for i, it := range obj.Items {
			key, literal := literalKey(it.KeyExpr)
			if !literal {
				return e
			}
			if key == s.name {
				found = i
			}
		}
		if found < 0 {
			return e
		}
		e = obj.Items[found].ValueExpr
	}
	return e
}

// hides reports whether what an expression of this evaluation is must not be
// shown. e may be nil: then it is what is evaluated as a whole.
func (f *frame) hides(e hclv2.Expression) bool {
	if f.x == nil || !f.x.marked.sensitive {
		return false
	}
	node, ok := e.(hclsyntax.Node)
	if !ok {
		return true
	}
	return f.e.p.mark(node, func() bool { return true }).sensitive
}

// hiddenText stands in place of a value that must not be shown.
const hiddenText = "(sensitive)"

// hiddenDetail is a message without anything that may follow from a value.
func (x *expression) hiddenDetail() string {
	return "It works with " + x.marked.cause + ", which is sensitive, so what does not fit is not shown. To see it while the flow is being written, put nonsensitive(…) around it."
}

// plain is the detail of a message that names a value of x, or what may be said
// instead.
func (x *expression) plain(detail string) string {
	if x.marked.sensitive {
		return x.hiddenDetail()
	}
	return detail
}

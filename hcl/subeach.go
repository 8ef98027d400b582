package hcl

import (
	"encoding/json"
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// A sub-workflow with for_each is expanded like one without: each of its steps has
// the for_each, and its variables are locals that may name each. Inside, a step
// names the instance of the same key; outside, eachExpr puts what the instances
// gave together.

// repeated lists the sub-workflows with for_each that the files stand in, outermost
// first.
func (s *fileSet) repeated() (subs []*subflow) {
	for ; s.sub != nil; s = s.sub.around {
		if s.sub.loop != nil {
			subs = append(subs, s.sub)
		}
	}
	slices.Reverse(subs)
	return subs
}

// loopsAround are the for_each of those.
func (s *fileSet) loopsAround() (loops []*loop) {
	for _, sub := range s.repeated() {
		loops = append(loops, sub.loop)
	}
	return loops
}

// loopOf is the sub-workflow whose for_each local i holds; nil for another local.
func (p *program) loopOf(i int) *subflow {
	for _, sub := range p.subs {
		if sub.loop != nil && sub.each == i && sub.loop.x != nil {
			return sub
		}
	}
	return nil
}

// place is the place in a step whose work is another workflow.
func (s *subflow) place(at place) place {
	at.step = -1
	if s.loop != nil && len(s.steps) > 0 {
		at.step = s.steps[0]
		at.roots = append(slices.Clip(at.roots), "each")
	}
	return at
}

// after makes an expression that names each come after the for_each. It returns x.
func (s *subflow) after(x *expression) *expression {
	if x != nil && slices.ContainsFunc(x.uses, func(u *refExpr) bool { return u.kind == refEach }) {
		ref := localRef(s.each, s.address()+".for_each", x.rng)
		ref.order = true
		x.uses = append(slices.Clip(x.uses), ref)
	}
	return x
}

// noEach reports what is the same for all instances and names one.
func (r *reader) noEach(x *expression, at place) {
	if x == nil || x.each == 0 {
		return
	}
	for _, ref := range x.uses {
		if ref.kind == refLocal && r.p.locals[ref.index].expr != nil && r.p.locals[ref.index].expr.each > 0 {
			r.ds.errorf("reference-not-allowed", ref.SrcRange, "Reference is not allowed here", "%s has another value for each instance of the sub-workflow and cannot be used in %s, which is the same for all. Pass the value through a step's input.", ref.text, at.what)
		}
	}
}

// pairs notes which facets of a step inside of a sub-workflow with for_each are of
// the same instance.
func (r *reader) pairs(s *Step, code *stepCode) {
	around := code.set.repeated()
	for k := range s.Facets {
		f := &s.Facets[k]
		for l, other := range r.p.steps[f.Step].set.repeated() {
			if l < len(around) && around[l] == other {
				f.Shared = l + 1
			}
		}
		if k < s.WhenFacets {
			s.WhenDepth = max(s.WhenDepth, f.Shared)
		}
	}
	if code.when != nil {
		s.WhenDepth = max(s.WhenDepth, code.when.each.depth())
	}
	for l, sub := range around {
		if sub.concurrency > 0 {
			s.Loops[l].Sub, s.Loops[l].Limit = slices.Index(r.p.subs, sub)+1, sub.concurrency
		}
	}
	r.follow(s, code)
}

// follow notes which loops of a step are nothing but another's output, so that
// instances are paired with its: unless they need the whole of it besides.
func (r *reader) follow(s *Step, code *stepCode) {
	at := s.WhenFacets
	for l := range s.Loops {
		end := at + s.Loops[l].Facets
		lead := r.p.pair(code.loops[l])
		if lead >= 0 && len(r.p.steps[lead].loops) == len(r.p.steps[lead].set.repeated())+1 {
			of := func(f FacetRef) bool { return f.Step == lead }
			if !slices.ContainsFunc(s.Facets[:at], of) && !slices.ContainsFunc(s.Facets[end:], of) {
				for k := at; k < end; k++ {
					s.Facets[k].Follows = l + 1
				}
			}
		}
		at = end
	}
}

// eachExpr is a facet of a sub-workflow with for_each: a collection in the shape
// of the for_each. Exprs are references to the for_each, to what the facet is of
// one instance, and to the states of the steps that this names, without which
// nobody could tell what an instance has not answered from an answer that is null.
type eachExpr struct {
	*hclsyntax.TupleConsExpr
	sub   *subflow
	one   int // the local that holds it of one instance
	facet sdk.Facet
}

// collection makes the expression of a facet; of one instance it is in a local.
func (s *subflow) collection(facet sdk.Facet, one int, at hclv2.Range) *expression {
	name := s.address() + "." + facet.String()
	uses := []*refExpr{localRef(s.each, s.address()+".for_each", at), localRef(one, name, at)}
	e := &eachExpr{TupleConsExpr: &hclsyntax.TupleConsExpr{SrcRange: at, OpenRange: at}, sub: s, one: one, facet: facet}
	for _, u := range uses {
		u.order = true // they are evaluated here, for each instance
		e.Exprs = append(e.Exprs, u)
	}
	return made(e, at, uses)
}

// watch adds the states of the steps that outputs name to the expression of all
// outputs.
func (s *subflow) watch(r *reader) {
	x := r.p.locals[s.whole].expr
	e := x.node.(*eachExpr)
	named := r.p.namedBy(r.p.locals[s.one].expr)
	for _, i := range s.steps {
		if slices.Contains(named, i) {
			ref := facetRef(r.w, i, sdk.FacetStatus, s.b.header())
			x.uses, e.Exprs = append(x.uses, ref), append(e.Exprs, ref)
		}
	}
}

// Value evaluates the facet for each instance.
func (e *eachExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	if f == nil || f.limit != "" {
		return cty.DynamicVal, nil
	}
	x := f.e.p.locals[e.one].expr
	if f.mode != evaluating {
		v, hd := f.inside(x, Scope{})
		if f.mode == planning || hd.HasErrors() {
			return cty.DynamicVal, nil
		}
		l := e.sub.loop
		if f.e.promised != nil {
			l = f.e.promised[e.sub.steps[0]].loops[e.sub.around.names.depth]
		}
		return cty.UnknownVal(l.collection(v.Type().WithoutOptionalAttributesDeep()).WithoutOptionalAttributesDeep()), nil
	}
	all, ds := f.e.expansion(e.sub.loop, f.scope)
	if ds.HasErrors() {
		return cty.DynamicVal, evalDiag(ds[0].Code, e, ctx, e.SrcRange, ds[0].Summary, "%s", ds[0].Detail)
	}
	p := picker{up: f.scope.Up, own: e.sub.steps, seen: map[int]*picked{}}
	vals := make([]cty.Value, len(all.Each))
	for k := range all.Each {
		if !f.spend(e.SrcRange, 1, 0) {
			return cty.DynamicVal, nil
		}
		v, hd := f.inside(x, e.sub.scope(f.scope, &p, &all, k))
		switch {
		case f.limit != "":
			return cty.DynamicVal, nil
		case hd.HasErrors() && (e.facet != sdk.FacetOutput || !absent(hd)):
			return cty.DynamicVal, hd
		case hd.HasErrors() && p.ended:
			return cty.DynamicVal, evalDiag("absent-output", e, ctx, e.SrcRange, "Output is absent", "%s is %s and has no output. Where that may happen, write try(%s.output, …).", e.sub.address(), p.without, e.sub.address())
		case hd.HasErrors():
			v = cty.NullVal(cty.DynamicPseudoType)
		}
		vals[k] = v
	}
	out := gathered(vals, &all)
	f.size(e.SrcRange, out)
	return out, nil
}

// scope is that of instance k of a sub-workflow, in a scope around it.
func (s *subflow) scope(around Scope, p *picker, all *Expansion, k int) Scope {
	each := make([]Each, 0, s.around.names.depth+1)
	each = append(each, around.Each[:s.around.names.depth]...)
	return Scope{Up: p.of(k), Each: append(each, all.Each[k])}
}

// inside evaluates x in a scope of its own, on the account of f.
func (f *frame) inside(x *expression, s Scope) (cty.Value, hclv2.Diagnostics) {
	if x == nil {
		return cty.DynamicVal, nil
	}
	in := f.within(x, s, true)
	in.prepare(x.locals)
	v, hd := x.node.Value(&in.ctx)
	f.after(in)
	return v, hd
}

// absent: nothing is wrong but that something was not answered.
func absent(hd hclv2.Diagnostics) bool {
	return !slices.ContainsFunc(hd, func(d *hclv2.Diagnostic) bool {
		x, ok := d.Extra.(extra)
		return d.Severity == hclv2.DiagError && (!ok || x.code != "absent-output")
	})
}

// gathered is the collection of what the instances gave. What is null has the type
// of the others, if they have one.
func gathered(vals []cty.Value, all *Expansion) cty.Value {
	elem := cty.NilType
	for _, v := range vals {
		switch {
		case v.IsKnown() && v.IsNull():
		case elem == cty.NilType:
			elem = v.Type()
		case !elem.Equals(v.Type()):
			elem = cty.DynamicPseudoType
		}
	}
	if elem == cty.NilType && len(vals) > 0 {
		if same := vals[0].Type(); !slices.ContainsFunc(vals, func(v cty.Value) bool { return !v.Type().Equals(same) }) {
			elem = same
		}
	}
	uniform := elem != cty.NilType && elem != cty.DynamicPseudoType
	if uniform {
		for k, v := range vals {
			if v.IsKnown() && v.IsNull() {
				vals[k] = cty.NullVal(elem)
			}
		}
	}
	switch {
	case all.List && uniform:
		return cty.ListVal(vals)
	case all.List:
		return cty.TupleVal(vals)
	}
	byKey := make(map[string]cty.Value, len(vals))
	for k, v := range vals {
		byKey[cty.NormalizeString(unquote(all.Each[k].Key))] = v
	}
	if uniform {
		return cty.MapVal(byKey)
	}
	return cty.ObjectVal(byKey)
}

// picker answers for one instance of a sub-workflow what an Upstream answers for
// all.
type picker struct {
	up      Upstream
	own     []int // its steps
	seen    map[int]*picked
	ended   bool      // a step that was asked for has not succeeded
	without sdk.State // how it has ended
}

// picked is what a step has answered, taken apart.
type picked struct {
	Result
	parts []json.RawMessage // in the order of Instances; nil without an output
}

func (p *picker) of(k int) Upstream {
	return func(step int) Result {
		if !slices.Contains(p.own, step) {
			return p.up(step)
		}
		s := p.seen[step]
		if s == nil {
			s = &picked{Result: p.up(step)}
			s.split()
			p.seen[step] = s
		}
		if s.State != sdk.Succeeded {
			p.ended, p.without = true, s.State
		}
		if s.Instances == nil || k >= len(s.Instances) {
			return Result{State: s.State, Error: s.Error, Attempts: s.Attempts, Degraded: s.Degraded}
		}
		out := s.Instances[k].Result
		if out.Output == nil && out.State == sdk.Succeeded && k < len(s.parts) {
			out.Output = s.parts[k]
		}
		return out
	}
}

// split takes the output apart.
func (s *picked) split() {
	if s.List {
		elements(s.Output, func(v []byte) bool { s.parts = append(s.parts, v); return true })
		return
	}
	if kindOf(s.Output) == "object" {
		for _, m := range sortedMembers(s.Output, maxElements) {
			s.parts = append(s.parts, m.value)
		}
	}
}

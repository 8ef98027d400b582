package hcl

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// link does what needs all names and contents: cycles, canonical forms, the
// facets of each step, and types.
func (r *reader) link() {
	r.cycles()
	for _, n := range r.order {
		if i := n - len(r.p.steps); i >= 0 {
			r.p.canonize(r.p.locals[i].expr)
		}
	}
	for i := range r.p.steps {
		r.linkStep(&r.w.Steps[i], &r.p.steps[i])
	}
	for i := range r.p.vars {
		for _, x := range r.p.vars[i].validations {
			r.p.canonize(x.condition)
			r.p.canonize(x.message)
		}
	}
	for i := range r.p.plugins {
		r.p.canonize(r.p.plugins[i])
		r.noFacets(r.p.plugins[i], inConfig)
		r.noEach(r.p.plugins[i], inConfig)
	}
	for i := range r.p.actions {
		x := r.p.actions[i]
		r.p.canonize(x)
		r.p.shape(x)
		r.noFacets(x, inAction)
		r.noEach(x, inAction)
	}
	r.lintReuse()
	r.lintCompensate()
	for i := range r.p.outputs {
		out, who := &r.w.Outputs[i], "output."+r.w.Outputs[i].Name
		xs := []*expression{r.p.outputs[i].value}
		r.p.shape(xs[0])
		for _, x := range r.p.outputs[i].pre {
			xs = append(xs, x.condition, x.message)
		}
		for _, x := range xs {
			r.p.canonize(x)
			r.facets(x, &out.Facets, who, nil)
		}
	}
	r.secrets()
}

func (r *reader) linkStep(s *Step, code *stepCode) {
	for _, l := range code.loops {
		r.p.canonize(l.x) // what it names decides what each is
	}
	for _, x := range append(code.expressions(), code.salt, code.compensate, code.keyed) {
		r.p.canonize(x)
	}
	order := s.Facets // depends_on
	s.Facets = nil
	r.facets(code.when, &s.Facets, s.Address(), nil)
	s.WhenFacets = len(s.Facets)
	for _, l := range code.loops {
		before := len(s.Facets)
		r.p.shape(l.x)
		r.facets(l.x, &s.Facets, s.Address(), nil)
		s.Loops = append(s.Loops, Loop{Facets: len(s.Facets) - before})
	}
	s.EachFacets = len(s.Facets) - s.WhenFacets
	code.parts = r.p.eachParts(code.when, code.identified(), code.salt)
	r.p.shape(code.input)
	lint := r.lintVarying
	if s.Reuse == ReuseNever {
		lint = nil
	}
	r.facets(code.identified(), &s.Facets, s.Address(), lint)
	s.Facets = append(s.Facets, order...)
	s.KeyFacets = len(s.Facets)
	for _, x := range code.extra() {
		r.facets(x, &s.Facets, s.Address(), nil)
	}
	r.pairs(s, code)
	for k := range code.fallbacks {
		for _, x := range []*expression{code.fallbacks[k].output, code.fallbacks[k].input} {
			r.p.shape(x)
		}
	}
	for _, x := range code.checks {
		r.p.shape(x)
	}
	r.noFacets(code.salt, inSalt)
	r.p.shape(code.compensate)
	r.noFacets(code.compensate, inCompensate)
}

// facets lists what x names, and shows each to see, if that is not nil.
func (r *reader) facets(x *expression, out *[]FacetRef, who string, see func(*refExpr)) {
	if x == nil {
		return
	}
	if x.facets > maxFacets {
		r.ds.errorf("too-many-references", x.rng, "Too many references", "With its locals written out, %s names the results of steps more than %d times. Let a step put them together.", who, maxFacets)
		return
	}
	r.p.expand(x, func(ref *refExpr, optional bool) {
		kind := Soft
		if ref.facet == 0 {
			kind = Hard
			if optional {
				kind = Optional
			}
		}
		if see != nil {
			see(ref)
		}
		*out = append(*out, FacetRef{Step: ref.index, Facet: ref.facet, Kind: kind, Range: rangeOf(ref.SrcRange)})
	})
}

// noFacets reports locals that bring facets to where none may be.
func (r *reader) noFacets(x *expression, at place) {
	if x == nil || x.facets == 0 {
		return
	}
	for _, ref := range x.uses {
		if ref.kind == refLocal && r.p.locals[ref.index].expr != nil && r.p.locals[ref.index].expr.facets > 0 {
			r.ds.errorf("reference-not-allowed", ref.SrcRange, "Reference is not allowed here", "%s names the result of a step and cannot be used in %s, %s", ref.text, at.what, at.blindness())
		}
	}
}

// types evaluates every expression with all that is not in the text unknown,
// which finds misspelt attributes and wrong arguments without any value.
func (r *reader) types() {
	r.check.resize()
	for _, n := range r.order { // a loop's type is that of the steps and locals below it
		i := n - len(r.p.steps)
		switch {
		case i < 0 && r.p.steps[n].own() != nil:
			r.loop(r.p.steps[n].own())
		case i >= 0 && r.p.loopOf(i) != nil:
			r.loop(r.p.loopOf(i).loop)
		case i >= 0 && r.p.locals[i].expr != nil && !r.p.locals[i].cyclic:
			r.check.frame(checking, Scope{}).prepare([]int{i})
			r.ds = append(r.ds, fromHCL(r.check.cells[i].diags)...)
		}
	}
	for i := range r.p.vars {
		r.checkRules(r.p.vars[i].validations)
	}
	r.checkRules(r.p.rules)
	for i := range r.p.plugins {
		r.wantObject(r.p.plugins[i], "config")
	}
	for _, x := range r.p.actions {
		r.wantObject(x, "input")
	}
	for i := range r.p.steps {
		r.stepTypes(&r.p.steps[i])
	}
	for i := range r.p.outputs {
		r.checked(r.p.outputs[i].value)
		r.checkRules(r.p.outputs[i].pre)
	}
}

func (r *reader) stepTypes(code *stepCode) {
	r.want(code.when, cty.Bool, "when", "must be true or false")
	for _, l := range code.loops {
		if !l.x.marked.sensitive || l.shape == shapeList {
			continue
		}
		r.ds.warnf("sensitive-key", l.x.rng, "Keys of instances are shown", "%s is sensitive, and the keys of a map, an object or a set stand in the addresses of the instances. Write nonsensitive(…) around keys that may be shown, or give a list.", l.x.marked.cause)
	}
	code.inType = r.wantObject(code.input, "input")
	r.checked(code.salt)
	r.checkRules(code.pre)
	r.checkRules(code.post)
	r.wantObject(code.compensate, "input")
	for _, x := range code.checks {
		r.wantObject(x, "input")
	}
	for _, x := range code.fallbacks {
		r.checkFallback(x, code.outType)
	}
}

func (r *reader) checked(x *expression) (cty.Value, bool) {
	if x == nil {
		return cty.NilVal, false
	}
	v, ds := r.check.frame(checking, Scope{}).value(x)
	r.ds = append(r.ds, ds...)
	return v, !ds.HasErrors()
}

func (r *reader) want(x *expression, ty cty.Type, name, rule string) {
	v, ok := r.checked(x)
	if !ok || v.Type() == ty && !(v.IsKnown() && v.IsNull()) || v.Type() == cty.DynamicPseudoType && !(v.IsKnown() && v.IsNull()) {
		return
	}
	r.ds.errorf("wrong-type", x.rng, "Wrong type", "%s %s, this is %s.", name, rule, describe(v))
}

// wantObject returns the type of the object, any where it is not known.
func (r *reader) wantObject(x *expression, name string) cty.Type {
	if x == nil {
		return cty.EmptyObject
	}
	v, ok := r.checked(x)
	switch {
	case !ok:
		return cty.DynamicPseudoType
	case !isObject(v) && (v.Type() != cty.DynamicPseudoType || v.IsKnown() && v.IsNull()):
		r.ds.errorf("wrong-type", x.rng, "Wrong type", "%s", objectRule(name, v))
		return cty.DynamicPseudoType
	}
	return v.Type()
}

func isObject(v cty.Value) bool {
	return (v.Type().IsObjectType() || v.Type().IsMapType()) && !(v.IsKnown() && v.IsNull())
}

func objectRule(name string, v cty.Value) string {
	return fmt.Sprintf("%s must be an object, such as { text = … }; this is %s.", name, describe(v))
}

// resize makes room for the locals; the evaluator was made before they had
// expressions.
func (e *Evaluator) resize() {
	e.cells = make([]cell, len(e.p.locals))
}

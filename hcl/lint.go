package hcl

import "github.com/retrace-dev/engine/sdk"

// lintVarying warns of a facet in an input that changes the step's identity for
// reasons that have nothing to do with its work.
func (r *reader) lintVarying(ref *refExpr) {
	name, _ := attrName(ref.rest, 0)
	if ref.facet != sdk.FacetAttempts && (ref.facet != sdk.FacetError || name != "message") || r.linted[ref] {
		return
	}
	if r.linted == nil {
		r.linted = map[*refExpr]bool{}
	}
	r.linted[ref] = true
	remedy := "Name .error.class instead, or write the message to an output."
	if ref.facet == sdk.FacetAttempts {
		remedy = "Name .status or .degraded instead, or write the number to an output."
	}
	r.ds.warnf("varying-input", ref.SrcRange, "Input varies from run to run", "%s may differ in every run, and a step whose input holds it then runs again although nothing else changed. %s", ref.text, remedy)
}

// lintCompensate warns of an undo that nothing asks for, and of the other way
// round.
func (r *reader) lintCompensate() {
	for i := range r.w.Steps {
		switch c := r.w.Steps[i].Compensate; {
		case c != nil && !r.w.CompensateOnFailure:
			r.ds.report(Warning, "no-effect", c.Range, "Block has no effect", "A step is undone when its run fails and the workflow says on_failure = compensate, which %q does not. Write that, or remove the block.", r.w.Name)
			return
		case c != nil:
			return
		}
	}
	if r.w.CompensateOnFailure {
		r.ds.report(Warning, "no-effect", r.w.Range, "Nothing is undone", "The workflow says on_failure = compensate, but no step has a compensate block.")
	}
}

// lintReuse warns of steps that say reuse = always and are bound to their run
// by something they name.
func (r *reader) lintReuse() {
	for i := range r.p.steps {
		s, code := &r.w.Steps[i], &r.p.steps[i]
		if s.Reuse != ReuseAlways {
			continue
		}
		parts := append([]*expression{code.when, code.identified(), code.salt}, code.checks...)
		for _, l := range code.loops {
			parts = append(parts, l.x)
		}
		if code.plugin >= 0 {
			parts = append(parts, r.p.plugins[code.plugin])
		}
		for _, x := range parts {
			if x != nil && x.bound != nil {
				r.ds.warnf("run-bound-reuse", x.bound.at, "Result cannot be reused", "%s is another value in every run, and it reaches %s, which says reuse = always but has to run again in each. Take it out, or write reuse = run.", x.bound.text, s.Address())
				break
			}
		}
	}
}

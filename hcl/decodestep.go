package hcl

import (
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func (r *reader) step(b *block, i int) {
	s, code := &r.w.Steps[i], &r.p.steps[i]
	if e := b.expr("uses"); e != nil {
		u := r.uses(e)
		s.Plugin, s.StepType, s.Uses = u.Plugin, u.StepType, u.Range
	}
	code.plugin = s.Plugin
	if e := b.expr("for_each"); e != nil {
		s.ForEach = true
		code.loops = append(code.loops, &loop{x: r.p.compile(&r.ds, e, inForEach.in(i, b)), text: r.sourceText(e)})
	}
	s.Concurrency = int(r.number(b, "concurrency", 0, 1, 100_000, true))
	if e := b.expr("concurrency"); e != nil && !s.ForEach {
		r.ds.warnf("no-effect", e.Range(), "Argument has no effect", "concurrency bounds the instances of a for_each, and this step has none. Remove it.")
	}
	if s.SkipOnFailure = keyword(&r.ds, b, "on_failure", []string{"fail", "skip"}) == "skip"; !s.SkipOnFailure {
		s.SkipOnFailure, s.FallsBack = r.skips()
	}
	s.Timeout = r.positive(b, "timeout")
	if word := keyword(&r.ds, b, "effects", []string{"none", "read", "write", "once"}); word != "" {
		_ = s.Effects.UnmarshalText([]byte(word)) // word is one of its names
	}
	for _, in := range b.inner(&r.ds, "retry", topBlocks["step"]) {
		s.Retry = append(s.Retry, r.retry(in))
	}
	s.Volatile = r.volatile
	if e := b.expr("output_type"); e != nil {
		r.outputType(e, code)
	}
	code.when = r.gated(r.p.compile(&r.ds, b.expr("when"), inWhen.in(i, b)))
	s.HasWhen = code.when != nil
	code.input = r.p.compile(&r.ds, b.expr("input"), inInput.in(i, b))
	for _, in := range b.inner(&r.ds, "checkpoint", topBlocks["step"]) {
		r.checkpoint(in, s, code, inSalt.in(i, b))
	}
	for _, up := range r.dependsOn(b.expr("depends_on")) {
		r.waits = append(r.waits, wait{step: i, up: up})
	}
	s.Sandbox, s.Budget = r.sandbox(b, topBlocks["step"]), r.budget(b, topBlocks["step"])
	s.Compensate = r.compensate(b, code, inCompensate.in(i, b))
	code.pre = r.rules(b, "precondition", topBlocks["step"], inPrecondition.in(i, b))
	code.post = r.rules(b, "postcondition", topBlocks["step"], inPostcondition.in(i, b))
	s.Preconditions, s.Postconditions = len(code.pre), len(code.post)
	for _, in := range b.inner(&r.ds, "check", topBlocks["step"]) {
		if e := in.expr("uses"); e != nil {
			s.Checks = append(s.Checks, Check{r.uses(e)})
			code.checks = append(code.checks, r.p.compile(&r.ds, in.expr("input"), inCheck.in(i, b)))
		}
	}
	for _, in := range b.inner(&r.ds, "fallback", topBlocks["step"]) {
		f, x := r.fallback(in, i, b)
		s.Fallbacks, code.fallbacks = append(s.Fallbacks, f), append(code.fallbacks, x)
	}
}

func (r *reader) checkpoint(b *block, s *Step, code *stepCode, salt place) {
	switch keyword(&r.ds, b, "mode", []string{"persistent", "volatile"}) {
	case "volatile":
		s.Volatile = true
	case "persistent":
		s.Volatile = false
	}
	switch keyword(&r.ds, b, "reuse", []string{"always", "run", "never"}) {
	case "always":
		s.Reuse = ReuseAlways
	case "run":
		s.Reuse = ReuseRun
	case "never":
		s.Reuse = ReuseNever
	}
	s.TTL = r.positive(b, "ttl")
	s.Keep = int(r.number(b, "keep", 0, 1, 100_000, true))
	for _, g := range r.texts(b, "redact") {
		s.Redact = append(s.Redact, g.text)
	}
	r.excluded(b, s, code)
	code.salt = r.p.compile(&r.ds, b.expr("salt"), salt)
}

func (r *reader) outputType(e hclsyntax.Expression, code *stepCode) {
	ty, defaults, ds := typeOf(e)
	if ds.HasErrors() {
		r.ds = append(r.ds, ds...)
		return
	}
	if defaults != nil {
		r.ds.errorf("invalid-type", e.Range(), "Default in an output type", "An output is checked, not changed, so optional() takes no default here. Write coalesce(…) or try(…) where the output is used.")
		return
	}
	code.outType = ty
}

// uses resolves plugin.P.S; after an error the plugin is -1.
func (r *reader) uses(e hclsyntax.Expression) Use {
	u := Use{Plugin: -1, Range: rangeOf(e.Range())}
	t, hd := hclv2.AbsTraversalForExpr(e)
	if hd.HasErrors() || len(t) != 3 || t.RootName() != "plugin" {
		hint := "."
		if wordOf(e) != "" {
			hint = ", without quotes."
		}
		r.ds.errorf("invalid-uses", e.Range(), "Invalid step type", "uses names a plugin and one of its step types: plugin.PLUGIN.TYPE%s", hint)
		return u
	}
	t = normalTraversal(t)
	name, ok1 := attrName(t, 1)
	step, ok2 := attrName(t, 2)
	if !ok1 || !ok2 {
		r.ds.errorf("invalid-uses", e.Range(), "Invalid step type", "uses names a plugin and one of its step types: plugin.PLUGIN.TYPE, without brackets.")
		return u
	}
	i, ok := r.p.pluginIndex[name]
	if !ok {
		hint := DidYouMean(name, r.p.pluginNames)
		if hint == "" {
			hint = " Declare it: plugin \"" + name + "\" { source = … }."
		}
		r.ds.errorf("unknown-plugin", t[1].SourceRange(), "Unknown plugin", "There is no plugin %q in this workflow.%s", name, hint)
		return u
	}
	u.Plugin, u.StepType = i, step
	return u
}

// dependsOn lists the steps that are only waited for.
func (r *reader) dependsOn(e hclsyntax.Expression) (ups []awaited) {
	if e == nil {
		return nil
	}
	list, ok := e.(*hclsyntax.TupleConsExpr)
	if !ok {
		r.ds.errorf("invalid-depends-on", e.Range(), "Invalid list of steps", "depends_on is a list of steps: [step.a, step.b].")
		return nil
	}
	for _, item := range list.Exprs {
		t, hd := hclv2.AbsTraversalForExpr(item)
		if hd.HasErrors() {
			hint := ""
			if w := wordOf(item); w != "" {
				hint = " Write step." + w + ", without quotes."
			}
			r.ds.errorf("invalid-depends-on", item.Range(), "Not a step", "depends_on is a list of steps: [step.a, step.b].%s", hint)
			continue
		}
		t = normalTraversal(t)
		name, ok := attrName(t, 1)
		if t.RootName() != "step" || !ok || len(t) > 2 {
			hint := ""
			if ok && len(t) > 2 {
				hint = " Write step." + name + ", without a facet."
			} else if _, isStep := r.p.stepIndex[t.RootName()]; isStep {
				hint = " Did you mean step." + t.RootName() + "?"
			}
			r.ds.errorf("invalid-depends-on", item.Range(), "Not a step", "depends_on is a list of steps: [step.a, step.b].%s", hint)
			continue
		}
		i, ok := r.p.stepIndex[name]
		if !ok {
			r.ds.errorf("unknown-step", t[1].SourceRange(), "Unknown step", "There is no step %q in this workflow.%s", name, r.p.stepHint(name))
			continue
		}
		up := awaited{step: i, at: rangeOf(item.Range())}
		if i < 0 {
			up.sub = r.p.subs[-1-i]
		}
		ups = append(ups, up)
	}
	return ups
}

package hcl

import (
	"slices"
	"strings"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// reader makes a Workflow of the syntax trees of its files. It goes over the
// blocks twice: names first, so that the order of the text never matters, then
// contents.
type reader struct {
	w     *Workflow
	p     *program
	ds    Diagnostics
	check *Evaluator // knows no values

	*fileSet             // the one that is being read
	syntax   Diagnostics // of the files of sub-workflows
	waits    []wait
	linted   map[*refExpr]bool
	order    []int // of all nodes of the graph, each after those it names
}

// kindsInOrder is the order in which contents are read. Nothing but the order
// of equal places depends on it.
var kindsInOrder = []string{"workflow", "variable", "locals", "secret", "plugin", "action", "step", "output"}

func (r *reader) read(bodies []*hclsyntax.Body) {
	r.check = newEvaluator(r.p, nil, RunInfo{})
	r.declareAll(bodies)
	r.readContents()
}

// declareAll enters the names of a set of files and of the sub-workflows in it.
func (r *reader) declareAll(bodies []*hclsyntax.Body) {
	r.byKind, r.outputs = map[string][]*block{}, map[string]int{}
	for _, body := range bodies {
		r.top(body)
	}
	for _, kind := range kindsInOrder {
		for _, b := range r.byKind[kind] {
			r.declare(b)
		}
	}
	for _, sub := range r.subs {
		r.openSubflow(sub)
	}
}

// readContents reads what is inside the blocks of a set of files, and then of the
// sub-workflows in it, which are bound to what stands here.
func (r *reader) readContents() {
	for _, kind := range kindsInOrder {
		for i, b := range r.byKind[kind] {
			r.contents(kind, i, b)
		}
	}
	if len(r.byKind["workflow"]) == 0 {
		spelled := `workflow "NAME" {}`
		if strings.HasSuffix(r.firstFile(), ".json") {
			spelled = `"workflow": { "NAME": {} }`
		}
		r.ds.report(Error, "missing-workflow", Range{File: r.firstFile()}, "Missing workflow block", "A flow has exactly one workflow block, which names it: %s.", spelled)
	}
	for _, sub := range r.subs {
		if sub.set != nil {
			r.within(sub.set, r.readContents)
		}
	}
}

func (r *reader) firstFile() string {
	if len(r.paths) == 0 {
		return ""
	}
	return r.paths[0]
}

// top sorts the blocks of a file by kind.
func (r *reader) top(body *hclsyntax.Body) {
	kinds := keysOfMap(topBlocks)
	for _, a := range body.Attributes {
		hint := DidYouMean(a.Name, kinds)
		if topBlocks[a.Name] != nil {
			hint = " It is a block: write " + a.Name + " … { … } without the equals sign."
		}
		r.ds.errorf("unsupported-argument", a.NameRange, "Unsupported argument", "A flow is made of blocks, there is no argument %q outside of them.%s", a.Name, orPossible(hint, kinds))
	}
	for _, b := range body.Blocks {
		t := topBlocks[b.Type]
		if t == nil {
			r.ds.errorf("unsupported-block", b.TypeRange, "Unsupported block", "There is no block %q in a flow.%s", b.Type, orPossible(DidYouMean(b.Type, kinds), kinds))
			continue
		}
		in := checkBlock(&r.ds, b, t)
		if b.Type == "step" && in.attrs["uses"] == nil && in.attrs["workflow"] == nil {
			r.ds.errorf("missing-argument", b.DefRange(), "Missing argument", "A step block needs the argument \"uses\".")
		}
		r.byKind[b.Type] = append(r.byKind[b.Type], in)
	}
}

// declare enters the names of a block. Of a name that is declared twice the
// first wins, and the second one's contents are not looked at.
func (r *reader) declare(b *block) {
	p := r.p
	switch b.Type {
	case "workflow":
		if first := r.byKind["workflow"][0]; first != b {
			r.ds.errorf("duplicate-name", b.header(), "Second workflow block", "The workflow is already declared at %s. A flow has exactly one.", rangeOf(first.header()))
		}
	case "variable":
		if r.sub != nil {
			r.declareBound(b)
			return
		}
		if r.enter(b, len(p.vars), p.varIndex, &p.varNames, func(i int) hclv2.Range { return p.vars[i].rng }) {
			p.vars = append(p.vars, variable{name: b.name, ty: cty.DynamicPseudoType, rng: b.header()})
			r.w.Variables = append(r.w.Variables, Variable{Name: b.name, Type: "any", Required: true, Range: rangeOf(b.header())})
		}
	case "secret":
		if r.sub != nil {
			r.ds.errorf("secret-in-subflow", b.header(), "Secret in a sub-workflow", "A sub-workflow declares no secrets. Give it a variable, %q say, and pass the secret in the input of %s.", b.name, r.sub.address())
			b.attrs = nil
			return
		}
		if r.enter(b, len(r.w.Secrets), p.secretIndex, &p.secretNames, func(i int) hclv2.Range { return hclRange(r.w.Secrets[i].Range) }) {
			r.w.Secrets = append(r.w.Secrets, Secret{Name: b.name, Action: -1, Range: rangeOf(b.header())})
		}
	case "plugin":
		if r.enter(b, len(p.plugins), p.pluginIndex, &p.pluginNames, func(i int) hclv2.Range { return hclRange(r.w.Plugins[i].Range) }) {
			r.w.Plugins = append(r.w.Plugins, Plugin{Name: p.prefix + b.name, Range: rangeOf(b.header())})
			p.plugins = append(p.plugins, nil)
		}
	case "step":
		if b.attrs["workflow"] != nil {
			if r.enter(b, -1-len(p.subs), p.stepIndex, &p.stepNames, r.stepHeader) {
				r.declareSubflow(b)
			}
			return
		}
		if r.enter(b, len(p.steps), p.stepIndex, &p.stepNames, r.stepHeader) {
			for s := r.sub; s != nil; s = s.around.sub {
				s.steps = append(s.steps, len(p.steps))
			}
			s, code := Step{Name: p.stepName(b.name), Plugin: -1, Pair: -1, Range: rangeOf(b.header())}, stepCode{plugin: -1, set: r.fileSet}
			if sub := r.repeated(); sub != nil {
				s.ForEach, code.loop = true, sub.loop
			}
			r.w.Steps, p.steps = append(r.w.Steps, s), append(p.steps, code)
		}
	case "output":
		if r.sub != nil {
			r.declareResult(b)
			return
		}
		if r.enter(b, len(p.outputs), r.outputs, nil, func(i int) hclv2.Range { return hclRange(r.w.Outputs[i].Range) }) {
			r.w.Outputs = append(r.w.Outputs, Output{Name: b.name, Range: rangeOf(b.header())})
			p.outputs = append(p.outputs, outputCode{})
		}
	case "action":
		if r.enter(b, len(p.actions), p.actionIndex, &p.actionNames, func(i int) hclv2.Range { return hclRange(r.w.Actions[i].Range) }) {
			r.w.Actions = append(r.w.Actions, Action{Name: p.prefix + b.name, Use: Use{Plugin: -1}, Range: rangeOf(b.header())})
			p.actions = append(p.actions, nil)
		}
	case "locals":
		for _, name := range sortedArgs(b) {
			a := b.attrs[name]
			checkName(&r.ds, a.Name, "local", a.NameRange)
			if i, dup := p.localIndex[name]; dup {
				r.duplicate("local", name, a.NameRange, p.locals[i].rng)
				b.attrs[name] = nil
				continue
			}
			p.localIndex[name] = len(p.locals)
			p.localNames = append(p.localNames, name)
			p.locals = append(p.locals, local{name: r.inside("local." + name), rng: a.NameRange})
		}
	}
}

// sortedArgs lists the arguments in the order of the text.
func sortedArgs(b *block) []string {
	names := keysOfMap(b.attrs)
	slices.SortStableFunc(names, func(x, y string) int {
		return b.attrs[x].SrcRange.Start.Byte - b.attrs[y].SrcRange.Start.Byte
	})
	return names
}

// enter reports whether the block's name is new, which then stands for number.
func (r *reader) enter(b *block, number int, index map[string]int, names *[]string, where func(int) hclv2.Range) bool {
	if i, dup := index[b.name]; dup {
		r.duplicate(b.Type, b.name, b.header(), where(i))
		b.attrs = nil
		return false
	}
	index[b.name] = number
	if names != nil {
		*names = append(*names, b.name)
	}
	return true
}

func (r *reader) duplicate(what, name string, at, first hclv2.Range) {
	note := ""
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		note = " Names are compared in Unicode normal form C, so two that look alike are equal."
	}
	r.ds.errorf("duplicate-name", at, "Duplicate name", "There is already %s %q at %s. Choose another name.%s", article(what), name, rangeOf(first), note)
}

// contents reads what is inside a block.
func (r *reader) contents(kind string, i int, b *block) {
	if b.attrs == nil {
		return // a duplicate
	}
	switch kind {
	case "workflow":
		switch {
		case i == 0 && r.sub != nil:
			r.subWorkflow(b)
		case i == 0:
			r.workflow(b)
		}
	case "variable":
		if r.sub != nil {
			r.boundVariable(b)
			return
		}
		r.variable(b, &r.p.vars[r.p.varIndex[b.name]], &r.w.Variables[r.p.varIndex[b.name]])
	case "locals":
		for _, name := range keysOfMap(b.attrs) {
			if a := b.attrs[name]; a != nil {
				r.p.locals[r.p.localIndex[name]].expr = r.p.compile(&r.ds, a.Expr, inLocal)
			}
		}
	case "secret":
		r.secret(b, &r.w.Secrets[r.p.secretIndex[b.name]])
	case "plugin":
		r.plugin(b, r.p.pluginIndex[b.name])
	case "action":
		r.action(b, r.p.actionIndex[b.name])
	case "step":
		if i := r.p.stepIndex[b.name]; i < 0 {
			r.subflow(r.p.subs[-1-i])
		} else {
			r.step(b, i)
		}
	case "output":
		if r.sub != nil {
			r.result(b)
			return
		}
		r.output(b)
	}
}

func (r *reader) workflow(b *block) {
	w := r.w
	w.Name, w.Range = b.name, rangeOf(b.header())
	w.Description, w.Version = r.text(b, "description"), r.text(b, "version")
	w.Timeout = r.positive(b, "timeout")
	w.Concurrency = int(r.number(b, "concurrency", 0, 1, 100_000, true))
	w.FailFast = r.flag(b, "fail_fast", false)
	w.MaxInstances = int(r.number(b, "max_instances", defaultInstances, 1, maxElements, true))
	r.p.maxInstances = w.MaxInstances
	w.CompensateOnFailure = keyword(&r.ds, b, "on_failure", []string{"keep", "compensate"}) == "compensate"
	w.Budget = r.budget(b, topBlocks["workflow"])
	w.RequiredVersion = r.requiredVersion(b)
	for _, c := range b.inner(&r.ds, "checkpoint", topBlocks["workflow"]) {
		w.Volatile = keyword(&r.ds, c, "mode", []string{"persistent", "volatile"}) == "volatile"
	}
	r.volatile = w.Volatile
}

func (r *reader) variable(b *block, v *variable, out *Variable) {
	out.Description = r.text(b, "description")
	v.nullable = r.flag(b, "nullable", false)
	v.sensitive = r.flag(b, "sensitive", false)
	out.Sensitive = v.sensitive
	if e := b.expr("type"); e != nil {
		ty, defaults, hd := typeexpr.TypeConstraintWithDefaults(e)
		if hd.HasErrors() {
			r.ds = append(r.ds, fromHCL(hd)...)
		} else {
			v.ty, v.defaults, v.typed = ty, defaults, true
		}
		out.Type = typeText(v.ty)
	}
	if e := b.expr("default"); e != nil {
		out.Required = false
		if val, ok := r.constant(e); ok {
			v.def = r.defaultValue(v, val, e)
		}
	}
	v.validations = r.rules(b, "validation", topBlocks["variable"], inValidation)
}

func (r *reader) defaultValue(v *variable, val cty.Value, e hclsyntax.Expression) cty.Value {
	if val.IsNull() && !v.nullable {
		r.ds.errorf("null-value", e.Range(), "Default is null", "The variable %q is not nullable. Remove the default to make the variable required, or set nullable = true.", v.name)
		return cty.NilVal
	}
	out, err := convertTo(val, v.ty, v.defaults)
	if err != nil {
		r.ds.errorf("wrong-type", e.Range(), "Default has the wrong type", "The default of %q does not fit %s: %s.", v.name, typeText(v.ty), err)
		return cty.NilVal
	}
	return out
}

func (r *reader) plugin(b *block, i int) {
	p := &r.w.Plugins[i]
	before := len(r.ds)
	p.Source = r.text(b, "source")
	if e := b.expr("source"); e != nil {
		p.Range = rangeOf(e.Range())
		if p.Source == "" && len(r.ds) == before {
			r.ds.errorf("invalid-value", e.Range(), "Source is empty", "source is a path such as \"./ai.wasm\" or a name such as \"std/text\".")
		}
	}
	p.Source = r.p.rebased(p.Source)
	p.Sandbox = r.sandbox(b, topBlocks["plugin"])
	p.Limiter, p.Breaker = r.limiter(b), r.breaker(b)
	for s := r.sub; s != nil; s = s.around.sub {
		p.Around = append(p.Around, Around{Step: s.address(), Sandbox: s.sandbox, Range: rangeOf(s.b.header())})
	}
	r.p.plugins[i] = r.p.compile(&r.ds, b.expr("config"), inConfig)
}

func (r *reader) step(b *block, i int) {
	s, code := &r.w.Steps[i], &r.p.steps[i]
	if e := b.expr("uses"); e != nil {
		u := r.uses(e)
		s.Plugin, s.StepType, s.Uses = u.Plugin, u.StepType, u.Range
	}
	code.plugin = s.Plugin
	if e := b.expr("for_each"); e != nil && !r.twice(b, s.Address()) {
		s.ForEach = true
		code.loop = &loop{x: r.p.compile(&r.ds, e, inForEach.in(i, b)), text: r.sourceText(e)}
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
	ty, defaults, hd := typeexpr.TypeConstraintWithDefaults(e)
	if hd.HasErrors() {
		r.ds = append(r.ds, fromHCL(hd)...)
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

func (r *reader) output(b *block) {
	i := r.outputs[b.name]
	r.w.Outputs[i].Description = r.text(b, "description")
	r.w.Outputs[i].Sensitive = r.flag(b, "sensitive", false)
	r.p.outputs[i] = outputCode{r.p.compile(&r.ds, b.expr("value"), inOutput), r.rules(b, "precondition", topBlocks["output"], inOutput)}
}

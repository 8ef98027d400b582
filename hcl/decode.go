package hcl

import (
	"slices"
	"strings"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
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
			r.ds.errorf("duplicate-name", b.header(), "Second workflow block", "The workflow is already declared at %s. A flow has exactly one, and all *.hcl files of a directory are one flow. Give each a directory of its own, or name the one file that is meant.", rangeOf(first.header()))
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
			s, code := Step{Name: p.stepName(b.name), Plugin: -1, Range: rangeOf(b.header())}, stepCode{plugin: -1, set: r.fileSet}
			code.loops = r.loopsAround()
			s.ForEach = len(code.loops) > 0
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
		ty, defaults, ds := typeOf(e)
		if ds.HasErrors() {
			r.ds = append(r.ds, ds...)
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

func (r *reader) output(b *block) {
	i := r.outputs[b.name]
	r.w.Outputs[i].Description = r.text(b, "description")
	r.w.Outputs[i].Sensitive = r.flag(b, "sensitive", false)
	r.p.outputs[i] = outputCode{r.p.compile(&r.ds, b.expr("value"), inOutput), r.rules(b, "precondition", topBlocks["output"], inOutput)}
}

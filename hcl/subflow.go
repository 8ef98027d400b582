package hcl

import (
	"path/filepath"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of sub-workflows: the text of one grows with every place that it stands
// in.
const (
	maxDepth    = 16
	maxSubflows = 1000
)

// fileSet is the files of the workflow, or of a sub-workflow, while they are read.
type fileSet struct {
	names    *scope
	sub      *subflow // whose files these are; nil for the workflow itself
	dir      string
	paths    []string // of the files
	byKind   map[string][]*block
	outputs  map[string]int // into Workflow.Outputs; of a sub-workflow, locals
	subs     []*subflow     // its steps that are workflows
	volatile bool           // default of its steps' checkpoint mode
}

// subflow is a step whose work is another workflow. It is no node of the graph:
// its steps are, its variables and outputs are locals.
type subflow struct {
	name      string // as in addresses: "a", "a/step.b"
	b         *block
	around    *fileSet // in which it is written
	set       *fileSet // its own; nil after an error
	steps     []int    // with those of sub-workflows inside
	gate      int      // the local that holds its `when` and those around it; -1 without any
	skips     bool     // its failed steps are skipped
	fallsBack string   // where that is so because of a fallback: the sub-workflow that has it
	sandbox   *Sandbox
	input     map[string]*boundArg
	ups       []awaited // from depends_on
	facets    map[sdk.Facet]int
	whole     int            // the local that holds all outputs
	results   map[string]int // the locals that hold each, with the fallback
	caught    bool           // it has a fallback

	loop        *loop // of its for_each, which its steps share; nil without
	each        int   // the local that holds it
	one         int   // with for_each, the local that holds all outputs of one instance
	concurrency int

	sources, sinks []int // of steps: those that name none of the others, and that none names
}

// boundArg is what a variable of a sub-workflow is given.
type boundArg struct {
	x  *expression
	at hclv2.Range
}

// awaited is an item of depends_on.
type awaited struct {
	step int
	sub  *subflow // instead of step
	at   Range
}

// wait is a step that depends_on something.
type wait struct {
	step int
	up   awaited
}

// stepName is how a step of the files that are being read is known.
func (p *program) stepName(name string) string {
	if p.prefix == "" {
		return name
	}
	return p.prefix + "step." + name
}

func (s *subflow) address() string { return "step." + s.name }

func paths(files []File) (ps []string) {
	for _, f := range files {
		ps = append(ps, filepath.Clean(f.Path))
	}
	return ps
}

// within does what is to be done in another set of files.
func (r *reader) within(set *fileSet, do func()) {
	was := r.fileSet
	r.fileSet, r.p.scope = set, set.names
	do()
	r.fileSet, r.p.scope = was, was.names
}

// inside is the name of something in the files that are being read.
func (r *reader) inside(name string) string {
	if r.sub == nil {
		return name
	}
	return r.sub.address() + "/" + name
}

func (r *reader) stepHeader(i int) hclv2.Range {
	if i < 0 {
		return r.p.subs[-1-i].b.header()
	}
	return hclRange(r.w.Steps[i].Range)
}

// newLocal adds a local that is not written as one, and returns its number.
func (p *program) newLocal(name string, at hclv2.Range, x *expression) int {
	p.locals = append(p.locals, local{name: name, rng: at, expr: x})
	return len(p.locals) - 1
}

// localRef is a reference to a local that is not written.
func localRef(i int, text string, at hclv2.Range) *refExpr {
	return &refExpr{
		ScopeTraversalExpr: &hclsyntax.ScopeTraversalExpr{Traversal: hclv2.Traversal{hclv2.TraverseRoot{Name: text, SrcRange: at}}, SrcRange: at},
		kind:               refLocal, index: i, name: text, text: text, whole: true, path: []step{},
	}
}

// facetRef is a reference to a facet of a step that is not written.
func facetRef(w *Workflow, i int, f sdk.Facet, at hclv2.Range) *refExpr {
	r := localRef(i, w.Steps[i].Address()+"."+f.String(), at)
	r.kind, r.facet, r.name, r.whole = refFacet, f, w.Steps[i].Name, false
	return r
}

// made is an expression that is put together from parts; uses are its references.
func made(node hclsyntax.Expression, at hclv2.Range, uses []*refExpr) *expression {
	x := &expression{node: node, rng: at, uses: uses}
	for _, u := range uses {
		if u.kind == refLocal && u.index >= 0 && !u.order && !slices.Contains(x.locals, u.index) {
			x.locals = append(x.locals, u.index)
		}
	}
	return x
}

// declareSubflow enters a step whose work is another workflow.
func (r *reader) declareSubflow(b *block) {
	sub := &subflow{name: r.p.stepName(b.name), b: b, around: r.fileSet, gate: -1, whole: -1,
		input: map[string]*boundArg{}, facets: map[sdk.Facet]int{}, results: map[string]int{}}
	if e := b.expr("for_each"); e != nil {
		sub.loop, sub.each = &loop{text: r.sourceText(e)}, r.p.newLocal(sub.address()+".for_each", e.Range(), nil)
	}
	r.p.subs = append(r.p.subs, sub)
	r.subs = append(r.subs, sub)
}

// openSubflow reads the files of a sub-workflow and enters their names.
func (r *reader) openSubflow(sub *subflow) {
	e := sub.b.expr("workflow")
	at, name := e.Range(), r.text(sub.b, "workflow")
	depth := 1
	for s := r.sub; s != nil; s = s.around.sub {
		depth++
	}
	switch {
	case name == "":
		return // reported, or empty
	case r.dir == "":
		r.ds.errorf("unreadable-file", at, "Sub-workflow cannot be read", "The flow was not read from a directory, so it has no other workflow beside it.")
		return
	case filepath.IsAbs(name):
		r.ds.errorf("invalid-workflow", at, "Sub-workflow has an absolute path", "%s is an absolute path; paths are relative to the flow's directory.", name)
		return
	case depth > maxDepth:
		r.ds.errorf("workflow-depth", at, "Sub-workflows are too deep", "Workflows may stand inside each other %d deep, and %s is deeper.", maxDepth, sub.address())
		return
	case len(r.p.subs) > maxSubflows:
		r.ds.errorf("workflow-depth", at, "Too many sub-workflows", "A flow may hold %d steps that are workflows. Use for_each, or split the flow.", maxSubflows)
		return
	}
	path := filepath.Join(r.dir, filepath.FromSlash(name))
	files, dir, ds := readFlow(path)
	for _, d := range ds {
		r.ds.errorf(d.Code, at, "Sub-workflow cannot be read", "%s", d.Detail)
	}
	if ds.HasErrors() || r.insideItself(sub, files, at) {
		return
	}
	names := newScope()
	names.prefix, names.bound, names.valid = sub.name+"/", true, map[int]int{}
	if names.depth = r.p.depth; sub.loop != nil {
		names.prefix = sub.name + AllInstances + "/"
		names.depth++
	}
	if rel, err := filepath.Rel(r.p.dir, dir); err == nil && rel != "." {
		names.base = rel
	}
	sub.set = &fileSet{names: names, sub: sub, dir: dir, paths: paths(files), volatile: r.volatile}
	var bodies []*hclsyntax.Body
	for i := range files {
		f := &files[i]
		f.Digest = sdk.Sum(f.Bytes)
		body, ds := parseFile(f)
		r.syntax = append(r.syntax, ds...)
		if body != nil {
			bodies = append(bodies, body)
		}
		if !slices.ContainsFunc(r.w.Files, func(have File) bool { return have.Path == f.Path }) {
			r.w.Files = append(r.w.Files, *f)
		}
	}
	r.within(sub.set, func() { r.declareAll(bodies) })
	var outs hclsyntax.ObjectConsExpr
	var uses []*refExpr
	outs.SrcRange = at
	for _, name := range keysOfMap(sub.set.outputs) {
		sub.results[name] = sub.set.outputs[name]
		if sub.b.fallbacks() > 0 {
			sub.caught = true
			sub.results[name] = r.p.newLocal(sub.address()+".output."+name, at, nil)
		}
		ref := localRef(sub.results[name], sub.address()+".output."+name, at)
		uses = append(uses, ref)
		outs.Items = append(outs.Items, hclsyntax.ObjectConsItem{KeyExpr: &hclsyntax.LiteralValueExpr{Val: cty.StringVal(name), SrcRange: at}, ValueExpr: ref})
	}
	sub.whole = r.p.newLocal(sub.address()+".output", at, made(&outs, at, uses))
	if sub.loop != nil {
		sub.one = sub.whole
		sub.whole = r.p.newLocal(sub.address()+".output", at, sub.collection(sdk.FacetOutput, sub.one, at))
	}
}

// insideItself reports a workflow that stands in itself.
func (r *reader) insideItself(sub *subflow, files []File, at hclv2.Range) bool {
	own := paths(files)
	way := []string{sub.address() + " (" + strings.Join(own, ", ") + ")"}
	for set := r.fileSet; ; set = set.sub.around {
		name := "the workflow"
		if set.sub != nil {
			name = set.sub.address()
		}
		way = append(way, name+" ("+strings.Join(set.paths, ", ")+")")
		if slices.ContainsFunc(own, func(p string) bool { return slices.Contains(set.paths, p) }) {
			slices.Reverse(way)
			r.ds.errorf("workflow-cycle", at, "Workflow contains itself", "%s. Take one of them out, or do the work in the steps of one workflow.", strings.Join(way, " contains "))
			return true
		}
		if set.sub == nil {
			return false
		}
	}
}

// fallbacks counts the fallback blocks.
func (b *block) fallbacks() (n int) {
	for _, in := range b.Body.Blocks {
		if in.Type == "fallback" {
			n++
		}
	}
	return n
}

// declareBound enters a variable of a sub-workflow.
func (r *reader) declareBound(b *block) {
	p := r.p
	if !r.enter(b, len(p.locals), p.varIndex, &p.varNames, func(i int) hclv2.Range { return p.locals[i].rng }) {
		return
	}
	name := r.inside("var." + b.name)
	i := p.newLocal(name, b.header(), nil)
	if slices.ContainsFunc(b.Body.Blocks, func(in *hclsyntax.Block) bool { return in.Type == "validation" }) {
		p.valid[i] = p.newLocal(name, b.header(), nil)
	}
}

// declareResult enters an output of a sub-workflow.
func (r *reader) declareResult(b *block) {
	p := r.p
	if r.enter(b, len(p.locals), r.outputs, nil, func(i int) hclv2.Range { return p.locals[i].rng }) {
		p.newLocal(r.inside("output."+b.name), b.header(), nil)
	}
}

// subWorkflow reads the workflow block of a sub-workflow.
func (r *reader) subWorkflow(b *block) {
	for _, name := range sortedArgs(b) {
		if name != "description" && name != "version" && name != "required_version" {
			r.ds.errorf("not-in-subflow", b.attrs[name].NameRange, "Setting of a run", "%s is a setting of the run, and belongs to the workflow that is applied; here it stands in %s. Take it out.", name, r.sub.address())
		}
	}
	for _, c := range b.inner(&r.ds, "budget", topBlocks["workflow"]) {
		r.ds.errorf("not-in-subflow", c.header(), "Setting of a run", "A budget of the workflow is one of the run, and belongs to the workflow that is applied; here it stands in %s. Give its steps budgets.", r.sub.address())
	}
	r.requiredVersion(b)
	for _, c := range b.inner(&r.ds, "checkpoint", topBlocks["workflow"]) {
		switch keyword(&r.ds, c, "mode", []string{"persistent", "volatile"}) {
		case "volatile":
			r.volatile = true
		case "persistent":
			r.volatile = false
		}
	}
}

var subflowArgs = []string{"workflow", "input", "for_each", "when", "depends_on", "concurrency", "on_failure"}

// subflow reads what is inside a step whose work is another workflow.
func (r *reader) subflow(sub *subflow) {
	b := sub.b
	for _, name := range sortedArgs(b) {
		switch {
		case name == "uses":
			r.ds.errorf("invalid-subflow", b.attrs[name].NameRange, "Step has two kinds of work", "A step has exactly one of uses and workflow. Remove one of the two.")
		case slices.Contains(topBlocks["step"].args, name) && !slices.Contains(subflowArgs, name):
			r.ds.errorf("invalid-subflow", b.attrs[name].NameRange, "Argument has no meaning on a sub-workflow", "%s belongs to a step with work of its own. Write it in the steps of %s; a sub-workflow has %s, fallback and sandbox.", name, sub.address(), listOf(subflowArgs))
		}
	}
	for _, in := range b.Body.Blocks {
		if topBlocks["step"].inner[in.Type] != nil && in.Type != "fallback" && in.Type != "sandbox" {
			r.ds.errorf("invalid-subflow", in.DefRange(), "Block has no meaning on a sub-workflow", "%s belongs to a step with work of its own. Write it in the steps of %s; a sub-workflow has %s, fallback and sandbox.", in.Type, sub.address(), listOf(subflowArgs))
		}
	}
	if sub.loop != nil {
		sub.loop.x = r.p.compile(&r.ds, b.expr("for_each"), inForEach)
		r.p.locals[sub.each].expr = sub.loop.x
		if sub.set != nil && len(sub.steps) == 0 {
			r.ds.errorf("invalid-subflow", b.expr("for_each").Range(), "Nothing to repeat", "The workflow of %s has no steps. Write an expression with for in place of it.", sub.address())
			sub.set = nil
		}
	}
	sub.concurrency = int(r.number(b, "concurrency", 0, 1, 100_000, true))
	if e := b.expr("concurrency"); e != nil && sub.loop == nil {
		r.ds.warnf("no-effect", e.Range(), "Argument has no effect", "concurrency bounds the instances of a for_each, and this step has none. Remove it.")
	}
	if sub.skips = keyword(&r.ds, b, "on_failure", []string{"fail", "skip"}) == "skip"; sub.caught {
		sub.skips, sub.fallsBack = true, sub.address()
		if sub.loop != nil {
			sub.fallsBack += AllInstances
		}
	} else if !sub.skips {
		sub.skips, sub.fallsBack = r.skips()
	}
	sub.sandbox = r.sandbox(b, topBlocks["step"])
	sub.ups = r.dependsOn(b.expr("depends_on"))
	when := sub.after(r.p.compile(&r.ds, b.expr("when"), sub.place(inWhen)))
	if sub.caught && when != nil {
		r.ds.errorf("invalid-subflow", when.rng, "Fallback of a step that may be skipped", "%s has a fallback, which cannot tell what was skipped from what failed. Write the condition in its steps, or take the fallback out and write try(…) where its outputs are used.", sub.address())
	}
	if gate := r.gated(when); gate != nil {
		sub.gate = r.p.newLocal(sub.address()+".when", b.header(), gate)
	}
	if sub.set == nil {
		return
	}
	r.subInput(sub)
	r.subFallback(sub)
}

// skips reports whether failed steps of the files that are being read are skipped,
// and which sub-workflow answers for them.
func (r *reader) skips() (yes bool, fallsBack string) {
	if r.sub == nil {
		return false, ""
	}
	return r.sub.skips, r.sub.fallsBack
}

// gated is a condition together with that of the sub-workflow around it; nil
// without either.
func (r *reader) gated(when *expression) *expression {
	if r.sub == nil || r.sub.gate < 0 {
		return when
	}
	at := r.p.locals[r.sub.gate].expr.rng
	gate := localRef(r.sub.gate, r.sub.address()+".when", at)
	if when == nil {
		return made(gate, at, []*refExpr{gate})
	}
	both := &binaryExpr{&hclsyntax.BinaryOpExpr{LHS: gate, Op: hclsyntax.OpLogicalAnd, RHS: when.node, SrcRange: when.rng}}
	return made(both, when.rng, append([]*refExpr{gate}, when.uses...))
}

// subInput reads what the variables of a sub-workflow are given.
func (r *reader) subInput(sub *subflow) {
	e := sub.b.expr("input")
	names := sub.set.names.varNames
	if e == nil {
		return
	}
	obj, ok := unwrap(e).(*hclsyntax.ObjectConsExpr)
	if !ok {
		r.ds.errorf("invalid-subflow", e.Range(), "Input is not a literal object", "What each variable of a sub-workflow is given must be readable in the text. Write input = { name = … }.")
		return
	}
	for _, it := range obj.Items {
		key, ok := literalKey(it.KeyExpr)
		at := it.KeyExpr.Range()
		_, known := sub.set.names.varIndex[key]
		switch {
		case !ok:
			r.ds.errorf("invalid-subflow", at, "Name of a variable is computed", "What each variable of a sub-workflow is given must be readable in the text. Write the name as a word.")
		case !known:
			r.ds.errorf("unknown-variable", at, "Unknown variable", "The workflow of %s has no variable %q.%s", sub.address(), key, orPossible(DidYouMean(key, names), names))
		case sub.input[key] != nil:
			r.ds.errorf("duplicate-key", at, "Duplicate key", "The key %q is already in this object, at %s. Remove one of the two.", key, rangeOf(sub.input[key].at))
		default:
			sub.input[key] = &boundArg{sub.after(r.p.compile(&r.ds, it.ValueExpr, sub.place(inSubflow))), at}
		}
	}
}

var inSubflow = place{what: "the input of a sub-workflow", roots: append(slices.Clip(everywhere), "secret"), loops: true}

// subFallback reads the answers that stand for the outputs of a sub-workflow that
// failed.
func (r *reader) subFallback(sub *subflow) {
	blocks := sub.b.inner(&r.ds, "fallback", topBlocks["step"])
	for i, in := range blocks {
		for _, name := range sortedArgs(in) {
			if name != "output" {
				r.ds.errorf("invalid-fallback", in.attrs[name].NameRange, "Fallback of a sub-workflow", "A sub-workflow falls back on output = {…} alone. Other fallbacks belong to its steps.")
			}
		}
		if i > 0 {
			r.ds.errorf("invalid-fallback", in.header(), "Second fallback of a sub-workflow", "The first, at %s, answers always. Remove one of the two.", rangeOf(blocks[0].header()))
		}
	}
	if len(blocks) == 0 {
		return
	}
	outputs := keysOfMap(sub.set.outputs)
	obj, ok := unwrap(blocks[0].expr("output")).(*hclsyntax.ObjectConsExpr)
	if !ok {
		r.ds.errorf("invalid-fallback", blocks[0].header(), "Fallback is not a literal object", "It gives each output of the sub-workflow: output = { name = … }.")
		return
	}
	given := map[string]bool{}
	for _, it := range obj.Items {
		name, ok := literalKey(it.KeyExpr)
		own, known := sub.set.outputs[name]
		if !ok || !known {
			r.ds.errorf("unknown-output", it.KeyExpr.Range(), "Unknown output", "The workflow of %s has no output %q.%s", sub.address(), name, orPossible(DidYouMean(name, outputs), outputs))
			continue
		}
		given[name] = true
		answer := sub.after(r.p.compile(&r.ds, it.ValueExpr, sub.place(inSubflow)))
		ref := localRef(own, sub.address()+".output."+name, answer.rng)
		ref.optional, ref.whole = true, false
		node := &tryExpr{&hclsyntax.FunctionCallExpr{Name: "try", Args: []hclsyntax.Expression{ref, answer.node}, NameRange: answer.rng, OpenParenRange: answer.rng, CloseParenRange: answer.rng}}
		r.p.locals[sub.results[name]].expr = made(node, answer.rng, append([]*refExpr{ref}, answer.uses...))
	}
	for _, name := range outputs {
		if !given[name] {
			r.ds.errorf("missing-output", obj.SrcRange, "Fallback lacks an output", "The workflow of %s has an output %q, and its fallback does not. Add it; null is an answer too.", sub.address(), name)
		}
	}
}

// subFacet resolves a facet of a step whose work is another workflow.
func (c *compiler) subFacet(r *refExpr, sub *subflow) bool {
	if sub.set == nil {
		return false // reported
	}
	name, _ := attrName(r.Traversal, 1)
	r.kind, r.name, r.rest = refLocal, name, r.Traversal[3:]
	if r.facet != sdk.FacetOutput {
		if _, ok := sub.facets[r.facet]; !ok {
			sub.facets[r.facet] = c.p.newLocal(sub.address()+"."+r.facet.String(), sub.b.header(), nil)
		}
		r.index = sub.facets[r.facet]
		return true
	}
	r.facet, r.index = 0, sub.whole
	if len(r.rest) == 0 || sub.loop != nil {
		return true
	}
	part := jsonPath(r.rest[:1])
	if len(part) == 0 || part[0].isIndex {
		return true // an index of an object: the evaluation says so
	}
	i, ok := sub.results[part[0].name]
	if !ok {
		names := keysOfMap(sub.results)
		c.ds.errorf("unknown-output", r.rest[0].SourceRange(), "Unknown output", "The workflow of %s has no output %q.%s", sub.address(), part[0].name, orPossible(DidYouMean(part[0].name, names), names))
		return false
	}
	r.index, r.rest = i, r.rest[1:]
	return true
}

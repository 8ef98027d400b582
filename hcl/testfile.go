package hcl

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// TestFile is a file of tests of one workflow, *.test.hcl.
type TestFile struct {
	File File
	Runs []*TestRun // in the order in which they are written, and made
}

// TestRun is one run of the workflow, with what is known of it beforehand and what
// must be true of it afterwards.
type TestRun struct {
	Name   string
	Resume int // the run of this file whose store it goes on with; -1 for none
	// ExpectFailures are what must fail, and all that may: "step.x", "var.x",
	// "output.x".
	ExpectFailures []string
	// Secrets are the values of the workflow's secrets, by name; never nil.
	Secrets map[string]string
	Range   Range // of the block's header

	p       *program // of the workflow, and its outputs as locals
	values  []testValue
	asserts []rule
	answers []testAnswers
}

// Answer is what a step type is made to say instead of being asked: exactly one
// of the two.
type Answer struct {
	Output json.RawMessage
	Error  *sdk.Error
}

// Answers are what a run is told instead of asking plugins: those of its first
// attempt, its second and so on; the last one is that of all further ones.
type Answers struct {
	Steps   map[string][]Answer            // by address of a step or instance
	Plugins map[string]map[string][]Answer // by name of a plugin, by step type
}

// testValue is what a variable is given.
type testValue struct {
	name string
	v    cty.Value
	at   Range
}

// testAnswers are those of a step, or of a step type of a plugin.
type testAnswers struct {
	step, plugin, stepType  string
	output, error, sequence *expression
	at                      hclv2.Range
}

var (
	answerArgs = []string{"output", "error", "sequence"}
	testBlocks = map[string]*blockType{
		"variables": {free: true},
		"secrets":   {free: true},
		"run": {
			label: "run", args: []string{"expect_failures", "resume"},
			inner: map[string]*blockType{
				"variables":     {free: true},
				"secrets":       {free: true},
				"assert":        ruleBlock,
				"override_step": {label: "step", address: true, args: answerArgs},
				"mock_plugin": {label: "plugin", inner: map[string]*blockType{
					"mock_step": {label: "step type", args: answerArgs},
				}},
			},
		},
	}
	inAssert  = place{what: "an assertion", roots: []string{"var", "local", "step", "path", "output"}}
	inAnswers = place{what: "the answer of a test", roots: []string{"var", "path"}}
)

// LoadTests reads the tests of a workflow: all *.test.hcl of dir, sorted. The
// workflow must have no errors. The files are given with errors too, so that what
// is reported can be shown.
func (w *Workflow) LoadTests(dir string) ([]*TestFile, Diagnostics) {
	var ds Diagnostics
	entries, err := os.ReadDir(dir)
	if err != nil {
		ds.report(Error, "unreadable-file", Range{File: dir}, "Directory cannot be read", "%s.", sentence(readError(dir, err)))
		return nil, ds
	}
	var out []*TestFile
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".test.hcl") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		b, err := readBelow(dir, e.Name())
		if err != nil {
			ds.report(Error, "unreadable-file", Range{File: path}, "File cannot be read", "%s.", sentence(err))
			continue
		}
		f := &TestFile{File: File{Path: path, Bytes: b, Digest: sdk.Sum(b)}}
		ds = append(ds, f.read(w)...)
		out = append(out, f)
	}
	return out, ds.sorted()
}

// read reads one file.
func (f *TestFile) read(w *Workflow) Diagnostics {
	body, ds := parseNative(&f.File)
	if body == nil || ds.HasErrors() {
		return ds
	}
	p := w.withOutputs()
	r := &reader{w: w, p: p, check: newEvaluator(p, nil, RunInfo{}), fileSet: &fileSet{names: p.scope}}
	for _, a := range body.Attributes {
		r.ds.errorf("unsupported-argument", a.NameRange, "Unsupported argument", "A file of tests is made of run, variables and secrets blocks, there is no argument %q outside of them.", a.Name)
	}
	var values []testValue
	secrets := map[string]string{}
	var runs []*block
	for _, in := range body.Blocks {
		t := testBlocks[in.Type]
		if t == nil {
			kinds := keysOfMap(testBlocks)
			r.ds.errorf("unsupported-block", in.TypeRange, "Unsupported block", "There is no block %q in a file of tests.%s", in.Type, orPossible(DidYouMean(in.Type, kinds), kinds))
			continue
		}
		b := checkBlock(&r.ds, in, t)
		switch in.Type {
		case "variables":
			values = append(values, r.testValues(b)...)
		case "secrets":
			r.testSecrets(b, secrets)
		default:
			runs = append(runs, b)
		}
	}
	names := map[string]int{}
	for _, b := range runs {
		if i, dup := names[b.name]; dup {
			r.duplicate("run", b.name, b.header(), hclRange(f.Runs[i].Range))
			continue
		}
		run := &TestRun{Name: b.name, Resume: -1, Range: rangeOf(b.header()), p: p, values: slices.Clip(values), Secrets: maps.Clone(secrets)}
		r.testRun(b, run, names)
		names[b.name] = len(f.Runs)
		f.Runs = append(f.Runs, run)
	}
	return append(ds, r.ds...)
}

// withOutputs is the workflow's program with a local for each output, for what is
// asserted of them.
func (w *Workflow) withOutputs() *program {
	p, names := *w.impl, *w.impl.scope
	p.scope, p.locals = &names, slices.Clip(p.locals)
	names.outputIndex = map[string]int{}
	for i := range p.outputs {
		name := w.Outputs[i].Name
		names.outputNames = append(names.outputNames, name)
		names.outputIndex[name] = p.newLocal("output."+name, hclRange(w.Outputs[i].Range), p.outputs[i].value)
	}
	return &p
}

func (r *reader) testValues(b *block) (vs []testValue) {
	for _, name := range sortedArgs(b) {
		a := b.attrs[name]
		if _, known := r.p.varIndex[name]; !known {
			r.ds.errorf("unknown-variable", a.NameRange, "Unknown variable", "There is no variable %q in this workflow.%s", name, orPossible(DidYouMean(name, r.p.varNames), r.p.varNames))
		} else if v, ok := r.constant(a.Expr); ok {
			vs = append(vs, testValue{name, v, rangeOf(a.SrcRange)})
		}
	}
	return vs
}

// testSecrets reads what the secrets of the workflow hold in a test.
func (r *reader) testSecrets(b *block, into map[string]string) {
	for _, name := range sortedArgs(b) {
		a := b.attrs[name]
		if _, known := r.p.secretIndex[name]; !known {
			r.ds.errorf("unknown-secret", a.NameRange, "Unknown secret", "There is no secret %q in this workflow.%s", name, orPossible(DidYouMean(name, r.p.secretNames), r.p.secretNames))
		} else if v, ok := r.constant(a.Expr); ok && (v.IsNull() || v.Type() != cty.String) {
			r.ds.errorf("wrong-type", a.Expr.Range(), "Wrong type", "A secret is a text, this is %s.", describe(v))
		} else if ok {
			into[name] = v.AsString()
		}
	}
}

// testRun reads one run; earlier are those before it.
func (r *reader) testRun(b *block, run *TestRun, earlier map[string]int) {
	t := testBlocks["run"]
	for _, in := range b.inner(&r.ds, "variables", t) {
		run.values = append(run.values, r.testValues(in)...)
	}
	for _, in := range b.inner(&r.ds, "secrets", t) {
		r.testSecrets(in, run.Secrets)
	}
	run.asserts = r.rules(b, "assert", t, inAssert)
	for _, x := range run.asserts {
		for _, x := range []*expression{x.condition, x.message} {
			r.p.canonize(x)
		}
	}
	r.check.resize()
	r.checkRules(run.asserts)
	for _, in := range b.inner(&r.ds, "override_step", t) {
		run.answers = append(run.answers, r.testAnswers(in, testAnswers{step: r.overridden(in)}))
	}
	for _, mock := range b.inner(&r.ds, "mock_plugin", t) {
		if _, known := r.p.pluginIndex[mock.name]; !known {
			r.ds.errorf("unknown-plugin", mock.header(), "Unknown plugin", "There is no plugin %q in this workflow.%s", mock.name, orPossible(DidYouMean(mock.name, r.p.pluginNames), r.p.pluginNames))
		}
		for _, in := range mock.inner(&r.ds, "mock_step", t.inner["mock_plugin"]) {
			run.answers = append(run.answers, r.testAnswers(in, testAnswers{plugin: mock.name, stepType: in.name}))
		}
	}
	r.expected(b.expr("expect_failures"), run)
	if e := b.expr("resume"); e != nil {
		tr, hd := hclv2.AbsTraversalForExpr(e)
		name, ok := attrName(tr, 1)
		i, known := earlier[normal(name)]
		switch {
		case hd.HasErrors() || !ok || tr.RootName() != "run" || len(tr) != 2:
			r.ds.errorf("invalid-resume", e.Range(), "Not a run", "resume names an earlier run of this file: run.NAME, without quotes.")
		case !known:
			names := keysOfMap(earlier)
			r.ds.errorf("unknown-run", e.Range(), "Unknown run", "There is no run %q before this one.%s", name, orPossible(DidYouMean(name, names), names))
		default:
			run.Resume = i
		}
	}
}

// overridden is the address of the step or instance that an override_step names.
func (r *reader) overridden(b *block) string {
	step, instance, err := SplitAddress("step." + strings.TrimPrefix(b.name, "step."))
	if err != nil {
		r.ds.errorf("unknown-step", b.header(), "Unknown step", "%s.", sentence(err))
		return ""
	}
	names := make([]string, len(r.w.Steps))
	for i := range r.w.Steps {
		s := &r.w.Steps[i]
		if names[i] = s.Name; s.Address() == step || strings.ReplaceAll(s.Address(), AllInstances, "") == step {
			return InstanceAddress(s.Address(), instance)
		}
	}
	name := strings.TrimPrefix(step, "step.")
	r.ds.errorf("unknown-step", b.header(), "Unknown step", "There is no step %q in this workflow.%s", name, orPossible(DidYouMean(name, names), names))
	return ""
}

func (r *reader) testAnswers(b *block, a testAnswers) testAnswers {
	a.at = b.header()
	a.output = r.p.compile(&r.ds, b.expr("output"), inAnswers)
	a.error = r.p.compile(&r.ds, b.expr("error"), inAnswers)
	a.sequence = r.p.compile(&r.ds, b.expr("sequence"), inAnswers)
	n := 0
	for _, x := range []*expression{a.output, a.error, a.sequence} {
		if x != nil {
			r.p.canonize(x)
			r.p.shape(x)
			n++
		}
	}
	if n != 1 {
		r.ds.errorf("invalid-answer", a.at, "Answer has no single source", "Write exactly one of output = …, error = { class = …, message = … } and sequence = [{ error = … }, { output = … }].")
	}
	return a
}

// expected reads expect_failures.
func (r *reader) expected(e hclsyntax.Expression, run *TestRun) {
	if e == nil {
		return
	}
	items := []hclsyntax.Expression{e}
	if list, ok := e.(*hclsyntax.TupleConsExpr); ok {
		items = list.Exprs
	}
	for _, item := range items {
		t, hd := hclv2.AbsTraversalForExpr(item)
		name, ok := attrName(normalTraversal(t), 1)
		index, known := map[string]map[string]int{"step": r.p.stepIndex, "var": r.p.varIndex, "output": r.p.outputIndex}[t.RootName()]
		if hd.HasErrors() || !ok || len(t) != 2 || !known {
			r.ds.errorf("invalid-expect-failures", item.Range(), "Nothing that can fail", "expect_failures is a list of steps, variables and outputs: [step.a, var.b, output.c].")
		} else if _, known := index[name]; !known {
			names := keysOfMap(index)
			r.ds.errorf("unknown-reference", item.Range(), "Unknown reference", "There is no %s.%s in this workflow.%s", t.RootName(), name, orPossible(DidYouMean(name, names), names))
		} else {
			run.ExpectFailures = append(run.ExpectFailures, t.RootName()+"."+name)
		}
	}
}

// Bind gives the variables what the file and the run say, and nothing from
// elsewhere. invalid are the variables whose validations do not hold; Values is
// nil exactly when there are errors.
func (t *TestRun) Bind() (v *Values, invalid []string, ds Diagnostics) {
	b := &binder{p: t.p.w.impl, given: make([]given, len(t.p.vars))}
	for _, x := range t.values {
		b.set(x.name, x.v, "", x.at)
	}
	v = b.values()
	if !b.ds.HasErrors() {
		b.validate(v)
	}
	if b.ds.HasErrors() {
		v = nil
	}
	return v, b.invalid, b.ds.sorted()
}

// Answers evaluates what steps and plugins are made to say.
func (t *TestRun) Answers(values *Values) (Answers, Diagnostics) {
	out := Answers{Steps: map[string][]Answer{}, Plugins: map[string]map[string][]Answer{}}
	var ds Diagnostics
	e := newEvaluator(t.p, values, RunInfo{})
	for i := range t.answers {
		a := &t.answers[i]
		list, more := a.evaluate(e)
		ds = append(ds, more...)
		if a.step != "" {
			out.Steps[a.step] = list
			continue
		}
		if out.Plugins[a.plugin] == nil {
			out.Plugins[a.plugin] = map[string][]Answer{}
		}
		out.Plugins[a.plugin][a.stepType] = list
	}
	return out, ds
}

func (a *testAnswers) evaluate(e *Evaluator) ([]Answer, Diagnostics) {
	x := a.output
	if x == nil {
		x = a.error
	}
	if x == nil {
		x = a.sequence
	}
	text, ds := e.json(x, Scope{})
	if ds.HasErrors() {
		return nil, ds
	}
	var out []Answer
	add := func(item json.RawMessage) {
		answer, err := answerOf(item)
		if err != nil {
			ds.errorf("invalid-answer", x.rng, "Answer cannot be used", "%s.", sentence(err))
			return
		}
		out = append(out, answer)
	}
	switch {
	case a.output != nil:
		out = []Answer{{Output: text}}
	case a.error != nil:
		add(with(json.RawMessage("{}"), "error", text))
	case kindOf(text) != "list":
		ds.errorf("invalid-answer", x.rng, "Answer cannot be used", "sequence must be a list of { output = … } and { error = … }, this is %s.", article(kindOf(text)))
	default:
		elements(text, func(item []byte) bool { add(item); return true })
		if len(out) == 0 && !ds.HasErrors() {
			ds.errorf("invalid-answer", x.rng, "Answer cannot be used", "The sequence is empty. The last answer in it is that of all further attempts.")
		}
	}
	return out, ds
}

func answerOf(item json.RawMessage) (Answer, error) {
	var v struct {
		Output json.RawMessage `json:"output"`
		Error  *sdk.Error      `json:"error"`
	}
	if err := json.Unmarshal(item, &v); err != nil || kindOf(item) != "object" {
		return Answer{}, fmt.Errorf("an answer is { output = … } or { error = { class = …, message = … } }, not %s", shorten(item, 60))
	}
	switch {
	case (v.Output == nil) == (v.Error == nil):
		return Answer{}, fmt.Errorf("an answer has exactly one of output and error: %s", shorten(item, 60))
	case v.Error != nil && !slices.Contains(sdk.Classes(), v.Error.Class):
		names := make([]string, 0, len(sdk.Classes()))
		for _, c := range sdk.Classes() {
			names = append(names, string(c))
		}
		return Answer{}, fmt.Errorf("there is no class %q of errors%s", v.Error.Class, orPossible(DidYouMean(string(v.Error.Class), names), names))
	}
	return Answer{v.Output, v.Error}, nil
}

// Assert judges what must be true of a run that has ended; up answers for every
// step. Each assertion that does not hold is an error.
func (t *TestRun) Assert(values *Values, run RunInfo, up Upstream) Diagnostics {
	var ds Diagnostics
	e, s := newEvaluator(t.p, values, run), Scope{Up: up}
	for _, x := range t.asserts {
		ok, more := e.holds(x, s)
		if !more.HasErrors() && !ok {
			more.errorf("assertion-failed", x.condition.rng, "Assertion does not hold", "%s", period(e.complaint(x, s)))
			f := e.frame(evaluating, s)
			f.x = x.condition
			f.prepare(x.condition.locals)
			more[len(more)-1].Values = namedValues(x.condition.node, &f.ctx)
		}
		ds = append(ds, more...)
	}
	return ds
}

package hcl

import (
	"encoding/json"
	"fmt"

	goversion "github.com/hashicorp/go-version"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var (
	inAction     = place{what: "an action", roots: []string{"var", "local", "run", "path", "secret"}}
	inCompensate = place{what: "compensate", roots: []string{"var", "local", "self", "secret"}, self: []string{"input", "output"}, blind: "which sees nothing but the step that it undoes. Let that step put the value into its output."}
)

// action reads an action block.
func (r *reader) action(b *block, i int) {
	a := &r.w.Actions[i]
	if e := b.expr("uses"); e != nil {
		a.Use = r.uses(e)
	}
	a.Timeout = r.positive(b, "timeout")
	for _, in := range b.inner(&r.ds, "retry", topBlocks["action"]) {
		a.Retry = append(a.Retry, r.retry(in))
	}
	a.Sandbox = r.sandbox(b, topBlocks["action"])
	r.p.actions[i] = r.p.compile(&r.ds, b.expr("input"), inAction)
}

// before resolves the action of a retry; -1 when it is not there or after an
// error.
func (r *reader) before(b *block) int {
	return r.actionNamed(b, "before", "before names an action that runs before the next attempt: action.NAME, without quotes.")
}

// actionNamed resolves action.NAME; -1 when it is not there or after an error.
func (r *reader) actionNamed(b *block, arg, rule string) int {
	e := b.expr(arg)
	if e == nil {
		return -1
	}
	t, hd := hclv2.AbsTraversalForExpr(e)
	name, ok := "", false
	if !hd.HasErrors() {
		t = normalTraversal(t)
		name, ok = attrName(t, 1)
	}
	if !ok || t.RootName() != "action" || len(t) != 2 {
		hint := ""
		if _, known := r.p.actionIndex[wordOf(e)]; known {
			hint = fmt.Sprintf(" Write action.%s.", wordOf(e))
		}
		r.ds.errorf("invalid-"+arg, e.Range(), "Not an action", "%s%s", rule, hint)
		return -1
	}
	i, ok := r.p.actionIndex[name]
	if !ok {
		hint := DidYouMean(name, r.p.actionNames)
		if hint == "" {
			hint = fmt.Sprintf(" Declare it with action %q { uses = … }.", name)
		}
		r.ds.errorf("unknown-action", e.Range(), "Unknown action", "There is no action %q in this workflow.%s", name, hint)
		return -1
	}
	return i
}

// ActionInput is Input for an action.
func (e *Evaluator) ActionInput(action int) (json.RawMessage, Diagnostics) {
	return e.input(e.p.actions[action], Scope{})
}

// compensate reads how a step is undone; nil when it is not.
func (r *reader) compensate(b *block, code *stepCode, at place) *Compensate {
	blocks := b.inner(&r.ds, "compensate", topBlocks["step"])
	if len(blocks) == 0 {
		return nil
	}
	b = blocks[0]
	c := &Compensate{Use: Use{Plugin: -1}, Range: rangeOf(b.header())}
	if e := b.expr("uses"); e != nil {
		c.Use = r.uses(e)
	}
	for _, in := range b.inner(&r.ds, "retry", compensateBlock) {
		c.Retry = append(c.Retry, r.retry(in))
	}
	code.compensate = r.p.compile(&r.ds, b.expr("input"), at)
	return c
}

// CompensateInput is Input for the undo of a step; s has Input and Output.
func (e *Evaluator) CompensateInput(step int, s Scope) (json.RawMessage, Diagnostics) {
	return e.input(e.p.steps[step].compensate, s)
}

// budget reads the budget block of the workflow or a step; nil without one.
func (r *reader) budget(b *block, t *blockType) *Budget {
	blocks := b.inner(&r.ds, "budget", t)
	if len(blocks) == 0 {
		return nil
	}
	b = blocks[0]
	return &Budget{
		Tokens: int64(r.number(b, "tokens", 0, 1, maxCount, true)),
		Calls:  int64(r.number(b, "calls", 0, 1, maxCount, true)),
		USD:    r.number(b, "usd", 0, 0.01, 1e9, false),
		Range:  rangeOf(b.header()),
	}
}

// requiredVersion reads the constraint on the engine's version and returns its
// text.
func (r *reader) requiredVersion(b *block) string {
	text := r.text(b, "required_version")
	e := b.expr("required_version")
	if text == "" {
		return ""
	}
	c, err := goversion.NewConstraint(text)
	if err != nil {
		r.ds.errorf("invalid-version", e.Range(), "Invalid version constraint", "%q is not a constraint on versions. Write one such as \">= 1.2\", \"~> 1.4\" or \">= 1.2, < 2.0\".", text)
		return ""
	}
	r.p.required = append(r.p.required, requirement{c, text, e.Range()})
	return text
}

// CheckVersion reports whether an engine of this version may run the flow. A
// version that is none, that of a development build, may.
func (w *Workflow) CheckVersion(engine string) Diagnostics {
	v, err := goversion.NewVersion(engine)
	if err != nil {
		return nil
	}
	var ds Diagnostics
	for _, r := range w.impl.required {
		if !r.of.Check(v.Core()) {
			ds.errorf("engine-version", r.rng, "Flow needs another version of the engine", "This is version %s, and the workflow %q wants %s. Install such a version, or change required_version.", engine, w.Name, r.text)
		}
	}
	return ds
}

// excluded is the input without the attributes that checkpoint.exclude names,
// and these alone. Both are nil where nothing is excluded.
func (r *reader) excluded(b *block, s *Step, code *stepCode) {
	names := r.texts(b, "exclude")
	if len(names) == 0 {
		return
	}
	at := b.expr("exclude").Range()
	if code.input == nil {
		r.ds.errorf("invalid-exclude", at, "Step has no input", "exclude takes attributes out of the input, and %s has none. Remove it.", s.Address())
		return
	}
	obj, ok := unwrap(code.input.node).(*hclsyntax.ObjectConsExpr)
	var given []string
	for i := 0; ok && i < len(obj.Items); i++ {
		var key string
		if key, ok = literalKey(obj.Items[i].KeyExpr); ok {
			given = append(given, key)
		}
	}
	if !ok {
		r.ds.errorf("invalid-exclude", at, "Input is not a literal object", "exclude takes attributes out of an input that is written { name = … }, with names that are words. Write the input of %s that way.", s.Address())
		return
	}
	out := map[string]bool{}
	for _, n := range names {
		key := normal(n.text)
		out[key] = true
		found := false
		for _, g := range given {
			found = found || g == key
		}
		if !found {
			r.ds.errorf("unknown-attribute", n.at, "Unknown attribute", "The input of %s has no attribute %q.%s", s.Address(), key, orPossible(DidYouMean(key, given), given))
		}
	}
	keyed, loose := &hclsyntax.ObjectConsExpr{SrcRange: obj.SrcRange}, &hclsyntax.ObjectConsExpr{SrcRange: obj.SrcRange}
	for i, it := range obj.Items {
		if out[given[i]] {
			loose.Items = append(loose.Items, it)
		} else {
			keyed.Items = append(keyed.Items, it)
		}
	}
	for _, n := range given {
		if out[n] {
			s.Exclude = append(s.Exclude, n)
		}
	}
	x := code.input
	code.keyed = &expression{node: keyed, rng: x.rng, locals: x.locals}
	code.loose = &expression{node: loose, rng: x.rng, locals: x.locals}
}

package hcl

import (
	"encoding/json"
	"fmt"

	"github.com/zclconf/go-cty/cty"
)

// When evaluates the condition of a step that has one.
func (e *Evaluator) When(step int, s Scope) (bool, Diagnostics) {
	x := e.p.steps[step].when
	if x == nil {
		return true, nil
	}
	v, ds := e.frame(evaluating, s).value(x)
	if ds.HasErrors() {
		return false, ds
	}
	if v.Type() != cty.Bool || v.IsNull() {
		ds.errorf("wrong-type", x.rng, "Condition is not true or false", "%s", x.plain(fmt.Sprintf("when must be true or false, this is %s.", describe(v))))
		return false, ds
	}
	return v.True(), nil
}

// Input evaluates the input of a step, a JSON object; {} when none is written.
// Where an attribute is a bare reference to an output, it holds that part of
// the output byte for byte.
func (e *Evaluator) Input(step int, s Scope) (json.RawMessage, Diagnostics) {
	return e.input(e.p.steps[step].input, s)
}

func (e *Evaluator) input(x *expression, s Scope) (json.RawMessage, Diagnostics) {
	if x == nil {
		return json.RawMessage("{}"), nil
	}
	return e.object(x, "input", s)
}

// Config evaluates the configuration of a plugin, a JSON object; {} when none
// is written.
func (e *Evaluator) Config(plugin int) (json.RawMessage, Diagnostics) {
	x := e.p.plugins[plugin]
	if x == nil {
		return json.RawMessage("{}"), nil
	}
	return e.object(x, "config", Scope{})
}

// Output evaluates a result of the flow. The steps that it names must have
// ended, those of its hard references succeeded. Its preconditions are judged
// first.
func (e *Evaluator) Output(i int, up Upstream) (json.RawMessage, Diagnostics) {
	code, s := &e.p.outputs[i], Scope{Up: up}
	for _, x := range code.pre {
		ok, ds := e.holds(x, s)
		if !ds.HasErrors() && !ok {
			ds.errorf("precondition", x.condition.rng, "Precondition does not hold", "%s", period(e.complaint(x, s)))
			ds[len(ds)-1].Values = namedValues(x.condition.node, &e.frame(evaluating, s).ctx)
		}
		if ds.HasErrors() {
			return nil, ds
		}
	}
	return e.json(code.value, s)
}

func (e *Evaluator) object(x *expression, name string, s Scope) (json.RawMessage, Diagnostics) {
	b, ds := e.json(x, s)
	if !ds.HasErrors() && kindOf(b) != "object" {
		ds.errorf("wrong-type", x.rng, "Value is not an object", "%s", x.plain(fmt.Sprintf("%s must be an object, such as { text = … }; this is %s.", name, found(b, kindOf(b)))))
		return nil, ds
	}
	return b, ds
}

func (e *Evaluator) json(x *expression, s Scope) (json.RawMessage, Diagnostics) {
	w := jsonWriter{f: e.frame(evaluating, s)}
	w.f.x = x
	sh := x.shape
	if sh == nil {
		sh = &shape{node: x.node, locals: x.locals}
	}
	w.shape(sh)
	if w.f.limit != "" {
		w.ds = w.f.limitDiag()
	}
	if w.ds.HasErrors() {
		return nil, w.ds
	}
	return w.dst, nil
}

func (f *frame) limitDiag() Diagnostics {
	var ds Diagnostics
	ds.errorf("evaluation-limit", f.at, "Expression is too expensive", "%s.", limitText(f.limit))
	return ds
}

func limitText(reason string) string {
	return fmt.Sprintf("The evaluation was stopped because %s. Do this work in a step", reason)
}

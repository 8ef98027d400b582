package hcl

import (
	"encoding/json"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// fallbackCode is what a fallback evaluates: one of the two, or neither.
type fallbackCode struct {
	output, input *expression
}

var (
	inPrecondition  = place{what: "a precondition", roots: everywhere, loops: true}
	inPostcondition = place{what: "a postcondition", roots: append(slices.Clip(everywhere), "self"), self: []string{"output"}, loops: true}
	inCheck         = place{what: "a check", roots: append(slices.Clip(everywhere), "self", "secret"), self: []string{"input", "output"}, loops: true}
	inFallback      = place{what: "the input of a fallback", roots: append(slices.Clip(everywhere), "self", "secret"), self: []string{"input", "error"}, loops: true}
	inAnswer        = place{what: "a fallback", roots: append(slices.Clip(everywhere), "self"), self: []string{"input", "error"}, loops: true}
)

// fallback reads one block of the chain.
func (r *reader) fallback(b *block, step int, around *block) (Fallback, fallbackCode) {
	f := Fallback{On: r.caught(b), Use: Use{Plugin: -1}, Range: rangeOf(b.header())}
	output, uses, last := b.expr("output"), b.expr("uses"), b.expr("last")
	n := 0
	for _, e := range []hclsyntax.Expression{output, uses, last} {
		if e != nil {
			n++
		}
	}
	if n != 1 {
		r.ds.errorf("invalid-fallback", b.header(), "Fallback has no single source", "A fallback has exactly one of output = {…}, uses = plugin.PLUGIN.TYPE and last = true. For several, write several fallback blocks: they are tried in their order.")
	}
	switch {
	case uses != nil:
		f.Kind, f.Use = FallbackStep, r.uses(uses)
	case last != nil:
		f.Kind = FallbackLast
		if v, ok := r.constant(last); ok && (v.IsNull() || v.Type() != cty.Bool || v.False()) {
			r.ds.errorf("invalid-value", last.Range(), "Invalid value", "last must be true, this is %s. Remove the block for no fallback.", describe(v))
		}
	}
	if e := b.expr("input"); e != nil && uses == nil {
		r.ds.errorf("invalid-fallback", e.Range(), "Input without a step type", "input is what the step type in uses receives, and this fallback has no uses. Write uses = plugin.PLUGIN.TYPE, or remove input.")
	}
	return f, fallbackCode{output: r.p.compile(&r.ds, output, inAnswer.in(step, around)), input: r.p.compile(&r.ds, b.expr("input"), inFallback.in(step, around))}
}

// caught are the classes after which a fallback answers: all but refused, which
// somebody has to have thought of, and cancelled.
func (r *reader) caught(b *block) []sdk.Class {
	if e := b.expr("on"); e != nil {
		return r.classList(e, func(c sdk.Class) string {
			if c == sdk.ClassCancelled {
				return "A step that was cancelled ends, and nothing answers in its place."
			}
			return ""
		})
	}
	return slices.DeleteFunc(sdk.Classes(), func(c sdk.Class) bool { return c == sdk.ClassRefused || c == sdk.ClassCancelled })
}

// checkFallback checks the types of one fallback.
func (r *reader) checkFallback(x fallbackCode, want cty.Type) {
	r.wantObject(x.input, "input")
	v, ok := r.checked(x.output)
	if !ok || want == cty.NilType {
		return
	}
	if err := fits(v, want, ""); err != nil {
		r.ds.errorf("wrong-type", x.output.rng, "Fallback does not fit", "%s", period(sentence(err)))
	}
}

// FallbackOutput evaluates the answer of fallback k of a step, one of kind
// FallbackOutput. Where it is a bare reference to an output, it is that part of
// the output byte for byte. It still has to pass CheckOutput.
func (e *Evaluator) FallbackOutput(step, k int, s Scope) (json.RawMessage, Diagnostics) {
	return e.json(e.p.steps[step].fallbacks[k].output, s)
}

// FallbackInput is Input for fallback k of a step, one of kind FallbackStep.
func (e *Evaluator) FallbackInput(step, k int, s Scope) (json.RawMessage, Diagnostics) {
	return e.input(e.p.steps[step].fallbacks[k].input, s)
}

// CheckInput is Input for check k of a step; s has Input and Output.
func (e *Evaluator) CheckInput(step, k int, s Scope) (json.RawMessage, Diagnostics) {
	return e.input(e.p.steps[step].checks[k], s)
}

// checksDigest is Identity.Checks.
func (e *Evaluator) checksDigest(step int, values map[string]sdk.Digest, ds *Diagnostics) sdk.Digest {
	checks := e.p.w.Steps[step].Checks
	if len(checks) == 0 {
		return sdk.Digest{}
	}
	h := begin("checks ")
	for k, x := range e.p.steps[step].checks {
		h = h.str(checks[k].StepType).digest(e.configDigest(checks[k].Plugin, ds)).digest(e.identify(x, values, ds))
	}
	return h.sum()
}

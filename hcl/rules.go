package hcl

import (
	"fmt"

	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// rule is a condition with what is said when it does not hold: a validation, a
// precondition, a postcondition.
type rule struct {
	condition, message *expression
}

// rules reads the blocks of one kind.
func (r *reader) rules(b *block, kind string, t *blockType, at place) []rule {
	var out []rule
	for _, in := range b.inner(&r.ds, kind, t) {
		x := rule{r.p.compile(&r.ds, in.expr("condition"), at), r.p.compile(&r.ds, in.expr("error_message"), at)}
		if x.condition != nil && x.message != nil {
			out = append(out, x)
		}
	}
	return out
}

// checkRules checks their types.
func (r *reader) checkRules(rules []rule) {
	for _, x := range rules {
		r.want(x.condition, cty.Bool, "condition", "must be true or false")
		r.want(x.message, cty.String, "error_message", "must be a string")
	}
}

// holds judges one rule.
func (e *Evaluator) holds(x rule, s Scope) (bool, Diagnostics) {
	v, ds := e.frame(evaluating, s).value(x.condition)
	if !ds.HasErrors() && (v.Type() != cty.Bool || v.IsNull()) {
		ds.errorf("wrong-type", x.condition.rng, "Wrong type", "%s", x.condition.plain(fmt.Sprintf("condition must be true or false, this is %s.", describe(v))))
	}
	return !ds.HasErrors() && v.True(), ds
}

// complaint is what a rule that does not hold says, never "".
func (e *Evaluator) complaint(x rule, s Scope) string {
	if x.message.marked.sensitive {
		return fmt.Sprintf("the condition at %s is not met; what its error_message says is sensitive", rangeOf(x.condition.rng))
	}
	v, ds := e.frame(evaluating, s).value(x.message)
	if !ds.HasErrors() && v.Type() == cty.String && !v.IsNull() && v.AsString() != "" {
		return v.AsString()
	}
	return fmt.Sprintf("the condition at %s is not met", rangeOf(x.condition.rng))
}

// judge returns the message of the first rule that does not hold, "" when all
// do.
func (e *Evaluator) judge(rules []rule, s Scope) (message string, ds Diagnostics) {
	for _, x := range rules {
		ok, ds := e.holds(x, s)
		switch {
		case ds.HasErrors():
			return "", ds
		case !ok:
			return e.complaint(x, s), nil
		}
	}
	return "", nil
}

// Precondition judges the preconditions of a step, in their order. The message
// is that of the first that does not hold, "" when all do.
func (e *Evaluator) Precondition(step int, s Scope) (message string, ds Diagnostics) {
	return e.judge(e.p.steps[step].pre, s)
}

// Postcondition judges the postconditions of a step over Scope.Output, as
// Precondition does.
func (e *Evaluator) Postcondition(step int, s Scope) (message string, ds Diagnostics) {
	return e.judge(e.p.steps[step].post, s)
}

// judgement is the digest of the rules' conditions with the values they name;
// zero without any.
func (e *Evaluator) judgement(rules []rule, ds *Diagnostics) sdk.Digest {
	if len(rules) == 0 {
		return sdk.Digest{}
	}
	h := begin("rules ")
	for _, x := range rules {
		h = h.digest(e.identify(x.condition, map[string]sdk.Digest{}, ds))
	}
	return h.sum()
}

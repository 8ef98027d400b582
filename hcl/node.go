package hcl

import (
	"errors"
	"fmt"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// The nodes in this file stand where HCL's own would either run away (for,
// templates, arithmetic) or do silently what a reader would not expect
// (conditionals that make "1" of 1, [*] on a map).

// condExpr evaluates one branch, the one that is chosen, and hands its value
// on as it is. HCL would convert both to a common type.
type condExpr struct{ *hclsyntax.ConditionalExpr }

func (e *condExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	cond, hd := e.Condition.Value(ctx)
	if hd.HasErrors() {
		return cty.DynamicVal, hd
	}
	if !cond.IsKnown() {
		if cond.Type() != cty.Bool && cond.Type() != cty.DynamicPseudoType {
			return cty.DynamicVal, e.notBool(cond, ctx)
		}
		return e.either(ctx)
	}
	if cond.IsNull() || cond.Type() != cty.Bool {
		return cty.DynamicVal, e.notBool(cond, ctx)
	}
	chosen := e.FalseResult
	if cond.True() {
		chosen = e.TrueResult
	}
	if f := frameOf(ctx); f == nil || f.mode != checking {
		return chosen.Value(ctx)
	}
	a, b, _, hd := e.branches(ctx) // each once: they can be conditionals themselves
	switch {
	case hd.HasErrors():
		return cty.DynamicVal, hd
	case cond.True():
		return a, nil
	}
	return b, nil
}

func (e *condExpr) notBool(v cty.Value, ctx *hclv2.EvalContext) hclv2.Diagnostics {
	return evalDiag("incorrect-condition-type", e.Condition, ctx, e.Condition.Range(), "Condition is not true or false", "A condition must be true or false, this is %s.", describe(v))
}

// either is the value when the condition is not known: of the common type if
// both branches have one.
func (e *condExpr) either(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	_, _, common, hd := e.branches(ctx)
	return common, hd
}

// branches evaluates both and says what they have in common.
func (e *condExpr) branches(ctx *hclv2.EvalContext) (a, b, common cty.Value, hd hclv2.Diagnostics) {
	a, hd = e.TrueResult.Value(ctx)
	b, hd2 := e.FalseResult.Value(ctx)
	if hd = append(hd, hd2...); hd.HasErrors() {
		return a, b, cty.DynamicVal, hd
	}
	ta, tb := a.Type(), b.Type()
	if ta.IsPrimitiveType() && tb.IsPrimitiveType() && ta != tb {
		return a, b, cty.DynamicVal, evalDiag("inconsistent-conditional-result-types", e, ctx, e.SrcRange, "Branches have different types", "One branch is a %s, the other a %s. Convert one of them, for example with tostring().", ta.FriendlyName(), tb.FriendlyName())
	}
	if ta.Equals(tb) {
		return a, b, cty.UnknownVal(ta), nil
	}
	return a, b, cty.DynamicVal, nil
}

// describe names what a value is, for a message.
func describe(v cty.Value) string {
	switch {
	case v.IsKnown() && v.IsNull():
		return "null"
	case !v.IsWhollyKnown():
		return article(v.Type().FriendlyName())
	}
	return fmt.Sprintf("%s (%s)", article(v.Type().FriendlyName()), preview(v))
}

// forExpr counts its iterations and stops at the bound of the evaluation.
type forExpr struct{ *hclsyntax.ForExpr }

func (e *forExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	coll, hd := e.CollExpr.Value(ctx)
	if hd.HasErrors() || f == nil {
		return cty.DynamicVal, hd
	}
	if coll.IsNull() || coll.Type() != cty.DynamicPseudoType && !coll.CanIterateElements() && coll.IsKnown() || coll.Type().IsPrimitiveType() {
		return cty.DynamicVal, evalDiag("iteration-over-non-iterable-value", e.CollExpr, ctx, e.CollExpr.Range(), "Value has no elements", "The collection of a for must be a list, set, map, tuple or object; this is %s.", describe(coll))
	}
	if !coll.IsKnown() {
		// One round with elements of which nothing but the type is known finds
		// the mistakes that do not depend on values.
		key, elem := elementOf(coll.Type())
		_, _, _, hd := e.round(e.child(ctx, key, elem))
		return cty.DynamicVal, hd
	}
	if !f.size(e.CollExpr.Range(), coll) {
		return cty.DynamicVal, nil
	}
	var (
		vals    []cty.Value
		byKey   = map[string]cty.Value{}
		groups  = map[string][]cty.Value{}
		unknown bool
	)
	for it := coll.ElementIterator(); it.Next(); {
		if !f.spend(e.SrcRange, 1, 0) {
			return cty.DynamicVal, nil
		}
		k, v := it.Element()
		child := e.child(ctx, k, v)
		key, val, include, hd := e.round(child)
		switch {
		case hd.HasErrors():
			return cty.DynamicVal, hd
		case include == maybe:
			unknown = true
		case include == no:
		case e.KeyExpr == nil:
			vals = append(vals, val)
		case e.Group:
			groups[key] = append(groups[key], val)
		default:
			if _, dup := byKey[key]; dup {
				return cty.DynamicVal, evalDiag("duplicate-key", e.KeyExpr, child, e.KeyExpr.Range(), "Duplicate key", "Two elements give the key %q. If that is meant, write an ellipsis after the value (...) to get a list of them.", key)
			}
			byKey[key] = val
		}
	}
	if unknown {
		return cty.DynamicVal, nil
	}
	var out cty.Value
	switch {
	case e.KeyExpr == nil:
		out = cty.TupleVal(vals)
	case e.Group:
		for k, vs := range groups {
			byKey[k] = cty.TupleVal(vs)
		}
		fallthrough
	default:
		out = cty.ObjectVal(byKey)
	}
	if !f.size(e.SrcRange, out) {
		return cty.DynamicVal, nil
	}
	return out, nil
}

func (e *forExpr) child(ctx *hclv2.EvalContext, k, v cty.Value) *hclv2.EvalContext {
	c := ctx.NewChild()
	c.Variables = map[string]cty.Value{e.ValVar: v}
	if e.KeyVar != "" {
		c.Variables[e.KeyVar] = k
	}
	return c
}

type included uint8

const (
	yes included = iota
	no
	maybe
)

// round evaluates the parts of one iteration.
func (e *forExpr) round(ctx *hclv2.EvalContext) (key string, val cty.Value, in included, hd hclv2.Diagnostics) {
	if e.CondExpr != nil {
		cond, hd := e.CondExpr.Value(ctx)
		switch {
		case hd.HasErrors():
			return "", cty.DynamicVal, no, hd
		case !cond.IsKnown():
			in = maybe
		case cond.IsNull() || cond.Type() != cty.Bool:
			return "", cty.DynamicVal, no, evalDiag("incorrect-condition-type", e.CondExpr, ctx, e.CondExpr.Range(), "Condition is not true or false", "The condition after if must be true or false, this is %s.", describe(cond))
		case cond.False():
			return "", cty.DynamicVal, no, nil
		}
	}
	if e.KeyExpr != nil {
		k, hd := e.KeyExpr.Value(ctx)
		if hd.HasErrors() {
			return "", cty.DynamicVal, no, hd
		}
		s, err := convert.Convert(k, cty.String)
		switch {
		case err != nil || s.IsKnown() && s.IsNull():
			return "", cty.DynamicVal, no, evalDiag("invalid-object-key", e.KeyExpr, ctx, e.KeyExpr.Range(), "Key is not a string", "A key must be a string, this is %s.", describe(k))
		case !s.IsKnown():
			in = maybe
		default:
			key = s.AsString()
		}
	}
	val, hd = e.ValExpr.Value(ctx)
	return key, val, in, hd
}

func elementOf(ty cty.Type) (key, elem cty.Value) {
	switch {
	case ty.IsListType():
		return cty.UnknownVal(cty.Number), cty.UnknownVal(ty.ElementType())
	case ty.IsMapType():
		return cty.UnknownVal(cty.String), cty.UnknownVal(ty.ElementType())
	case ty.IsSetType():
		return cty.UnknownVal(ty.ElementType()), cty.UnknownVal(ty.ElementType())
	}
	return cty.DynamicVal, cty.DynamicVal
}

// splatSource stands before [*]. On a map HCL would make a list of the one
// map, which nobody means. What is named in it is found by who walks through.
type splatSource struct {
	*hclsyntax.ParenthesesExpr
	marker hclv2.Range
}

func (e *splatSource) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	v, hd := e.Expression.Value(ctx)
	if !hd.HasErrors() && v.Type().IsMapType() {
		return cty.DynamicVal, evalDiag("splat-of-map", e.Expression, ctx, e.marker, "[*] on a map", "[*] takes a list; of a map it would make a list of one map. Write values(…)[*].")
	}
	return v, hd
}

// binaryExpr keeps numbers in the range of a float64: text of the others can
// have gigabytes. The right side of && and || is evaluated only when it counts.
type binaryExpr struct{ *hclsyntax.BinaryOpExpr }

func (e *binaryExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	params := e.Op.Impl.Params()
	left, hd := operand(ctx, e.Op, e.LHS, params[0].Type, " on both sides")
	if hd.HasErrors() {
		return cty.DynamicVal, hd
	}
	if left.IsKnown() && (e.Op == hclsyntax.OpLogicalAnd && left.False() || e.Op == hclsyntax.OpLogicalOr && left.True()) {
		return left, nil
	}
	right, hd := operand(ctx, e.Op, e.RHS, params[1].Type, " on both sides")
	if hd.HasErrors() {
		return cty.DynamicVal, hd
	}
	if !left.IsKnown() || !right.IsKnown() {
		return cty.UnknownVal(e.Op.Type), nil
	}
	if f := frameOf(ctx); !left.Type().IsPrimitiveType() && f != nil {
		n, text := measure(left)
		if !f.spend(e.SrcRange, 0, 16*n+text>>6) { // comparing is dearer than measuring
			return cty.DynamicVal, nil
		}
	}
	v, err := e.apply(left, right)
	if err == nil && v.Type() == cty.Number && v.IsKnown() {
		err = checkNumber(v)
	}
	if err != nil {
		return cty.DynamicVal, evalDiag("number-out-of-range", e, ctx, e.SrcRange, "Operation has no result", "%s.", sentence(err))
	}
	return v, nil
}

// apply goes past cty's function machinery where it can; it is most of the cost
// of an addition.
func (e *binaryExpr) apply(left, right cty.Value) (cty.Value, error) {
	switch e.Op {
	case hclsyntax.OpAdd:
		return left.Add(right), nil
	case hclsyntax.OpSubtract:
		return left.Subtract(right), nil
	case hclsyntax.OpMultiply:
		return left.Multiply(right), nil
	case hclsyntax.OpDivide, hclsyntax.OpModulo:
		if right.AsBigFloat().Sign() == 0 {
			return cty.NilVal, errors.New("division by zero")
		}
	}
	return e.Op.Impl.Call([]cty.Value{left, right})
}

// operand evaluates one side and brings it to the type that the operator takes.
func operand(ctx *hclv2.EvalContext, op *hclsyntax.Operation, side hclsyntax.Expression, ty cty.Type, where string) (cty.Value, hclv2.Diagnostics) {
	v, hd := side.Value(ctx)
	if hd.HasErrors() || ty == cty.DynamicPseudoType {
		return v, hd
	}
	out := v
	if v.Type() != ty {
		var err error
		var beyond rangeError
		if out, err = convertValue(v, ty); errors.As(err, &beyond) {
			return cty.DynamicVal, evalDiag("number-out-of-range", side, ctx, side.Range(), "Number is out of range", "%s.", sentence(err))
		} else if err != nil {
			return cty.DynamicVal, evalDiag("invalid-operand", side, ctx, side.Range(), "Operand has the wrong type", "%s takes a %s%s, this is %s.", operators[op], ty.FriendlyName(), where, describe(v))
		}
	}
	if out.IsKnown() && out.IsNull() {
		return cty.DynamicVal, evalDiag("null-value", side, ctx, side.Range(), "Value is null", "%s takes a %s%s, this is null.", operators[op], ty.FriendlyName(), where)
	}
	return out, nil
}

// unaryExpr is - or ! with an operand that is converted as those of the others are.
type unaryExpr struct{ *hclsyntax.UnaryOpExpr }

func (e *unaryExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	v, hd := operand(ctx, e.Op, e.Val, e.Op.Impl.Params()[0].Type, "")
	switch {
	case hd.HasErrors():
		return cty.DynamicVal, hd
	case !v.IsKnown():
		return cty.UnknownVal(e.Op.Type), nil
	case e.Op == hclsyntax.OpNegate:
		return v.Negate(), nil
	}
	return v.Not(), nil
}

// templateExpr joins its parts and bounds the result.
type templateExpr struct{ *hclsyntax.TemplateExpr }

func (e *templateExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	var b strings.Builder
	var all hclv2.Diagnostics
	f := frameOf(ctx)
	known := true
	for _, part := range e.Parts {
		v, hd := part.Value(ctx)
		if hd.HasErrors() {
			all = append(all, hd...)
			continue
		}
		s, err := convert.Convert(v, cty.String)
		switch {
		case err != nil:
			all = append(all, evalDiag("invalid-template-interpolation-value", part, ctx, part.Range(), "Value cannot be part of a text", "Only strings, numbers and bools have a text form, this is %s. Use jsonencode(…) for others.", describe(v))...)
		case !s.IsKnown():
			known = false
		case s.IsNull():
			all = append(all, evalDiag("invalid-template-interpolation-value", part, ctx, part.Range(), "Value is null", "Null cannot be part of a text. Write coalesce(…, \"\") if nothing should stand here.")...)
		case known:
			if b.Len()+len(s.AsString()) > maxText {
				if f != nil {
					f.stop(e.SrcRange, fmt.Sprintf("it makes a text of more than %d MiB", maxText>>20))
				}
				return cty.DynamicVal, nil
			}
			b.WriteString(s.AsString())
		}
	}
	if f != nil && !f.spend(e.SrcRange, 0, b.Len()>>6) || all.HasErrors() || !known {
		return cty.UnknownVal(cty.String), all
	}
	return cty.StringVal(b.String()), nil
}

// joinExpr is the text of a %{ for } in a template.
type joinExpr struct{ *hclsyntax.TemplateJoinExpr }

func (e *joinExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	v, hd := e.Tuple.Value(ctx)
	if hd.HasErrors() || !v.IsWhollyKnown() {
		return cty.UnknownVal(cty.String), hd
	}
	f := frameOf(ctx)
	var b strings.Builder
	for it := v.ElementIterator(); it.Next(); {
		_, part := it.Element()
		s, err := convert.Convert(part, cty.String)
		if err != nil || s.IsNull() {
			return cty.DynamicVal, evalDiag("invalid-template-interpolation-value", e.Tuple, ctx, e.Tuple.Range(), "Value cannot be part of a text", "One round of the for gives %s.", describe(part))
		}
		if b.Len()+len(s.AsString()) > maxText {
			f.stop(e.Tuple.Range(), fmt.Sprintf("it makes a text of more than %d MiB", maxText>>20))
			return cty.DynamicVal, nil
		}
		b.WriteString(s.AsString())
	}
	return cty.StringVal(b.String()), nil
}

// tryExpr is try(a, b, …), the first argument without an error, and can(a),
// whether it has none.
type tryExpr struct{ *hclsyntax.FunctionCallExpr }

func (e *tryExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	if f != nil && f.mode != evaluating {
		// What is not known yet may turn out to be an error, so any argument
		// may become the result. Only in the last one a mistake is certain.
		var hd hclv2.Diagnostics
		known := cty.DynamicVal
		for i, arg := range e.Args {
			v, argDiags := arg.Value(ctx)
			hd = argDiags
			if i == 0 && !argDiags.HasErrors() && v.IsWhollyKnown() {
				known = v
			}
		}
		switch {
		case f.limit != "":
			return cty.DynamicVal, nil
		case e.Name == "can":
			return cty.UnknownVal(cty.Bool), nil
		case known.IsKnown():
			return known, nil
		}
		return cty.DynamicVal, hd
	}
	var last hclv2.Diagnostics
	for _, arg := range e.Args {
		v, hd := arg.Value(ctx)
		if f != nil && f.limit != "" {
			return cty.DynamicVal, nil
		}
		if e.Name == "can" {
			return cty.BoolVal(!hd.HasErrors()), nil
		}
		if !hd.HasErrors() {
			return v, nil
		}
		last = hd
	}
	return cty.DynamicVal, last
}

// convertExpr is convert(value, type). HCL's own drops attributes that the
// type does not have.
type convertExpr struct {
	*hclsyntax.FunctionCallExpr
	ty       cty.Type
	defaults *typeexpr.Defaults
}

func (e *convertExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	v, hd := e.Args[0].Value(ctx)
	if hd.HasErrors() {
		return cty.DynamicVal, hd
	}
	out, err := convertTo(v, e.ty, e.defaults)
	if err != nil {
		return cty.DynamicVal, evalDiag("conversion", e.Args[0], ctx, e.Args[0].Range(), "Value cannot be converted", "It does not fit %s: %s.", typeText(e.ty), err)
	}
	return out, nil
}

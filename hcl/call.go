package hcl

import (
	"errors"
	"fmt"
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// fn is a function of the language.
type fn struct {
	impl function.Function
	// guard refuses wholly known arguments whose result would be too large,
	// before it is computed.
	guard func(args []cty.Value) error
	// whole functions look at every element of their arguments; while one of
	// them is not known, neither is the result. cty looks at the top only.
	whole bool
	// quick functions do not look at every element of their arguments, so
	// these are not measured.
	quick bool
	// cost is the work of the call besides looking at its arguments.
	cost func(args []cty.Value) int
	// file functions take a path first and read the flow's directory; their
	// arguments must be known before the run, and what they read is part of
	// the step's identity.
	file bool
	// with replaces impl.Call where the frame is needed.
	with func(f *frame, e *callExpr, args []cty.Value) (cty.Value, error)
	// template is templatefile. It compiles text that calls functions again,
	// so the table of functions cannot hold its code.
	template bool
}

// callExpr is a call of one of the functions.
type callExpr struct {
	*hclsyntax.FunctionCallExpr
	fn      *fn
	base    string // of a function that reads files: where they lie, as in scope
	secrets []int  // that its arguments name; filled in by canonize
}

func (e *callExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	if f == nil || !f.spend(e.NameRange, 1, 0) {
		return cty.DynamicVal, nil
	}
	args, hd := e.arguments(ctx)
	if hd.HasErrors() || args == nil {
		return cty.DynamicVal, hd
	}
	known := true
	for i, a := range args {
		if p := e.param(i); a.IsNull() && !p.AllowNull {
			return cty.DynamicVal, e.fail(ctx, i, errors.New("the value is null"))
		}
		if !e.fn.quick && !f.size(e.Args[min(i, len(e.Args)-1)].Range(), a) {
			return cty.DynamicVal, nil
		}
		known = known && a.IsWhollyKnown()
	}
	if known && e.fn.cost != nil && !f.spend(e.Range(), 0, e.fn.cost(args)) {
		return cty.DynamicVal, nil
	}
	if known && e.fn.guard != nil {
		if err := e.fn.guard(args); err != nil {
			return cty.DynamicVal, e.failure(ctx, err)
		}
	}
	var v cty.Value
	var err error
	switch {
	case !known && e.fn.whole:
		var ty cty.Type
		if ty, err = e.fn.impl.ReturnTypeForValues(args); err == nil {
			v = cty.UnknownVal(ty)
		}
	case e.fn.template:
		v, err = f.template(e, ctx, args)
	case e.fn.with != nil:
		v, err = e.fn.with(f, e, args)
	default:
		v, err = e.fn.impl.Call(args)
	}
	if err != nil {
		hd := e.failure(ctx, err)
		if f.pathUnknown {
			f.pathUnknown = false
			f.unplanned = append(f.unplanned, hd...)
		}
		return cty.DynamicVal, hd
	}
	if !f.size(e.Range(), v) {
		return cty.DynamicVal, nil
	}
	if v.Type() == cty.Number && v.IsKnown() && !v.IsNull() {
		if err := checkNumber(v); err != nil {
			return cty.DynamicVal, e.fail(ctx, -1, err)
		}
	}
	if len(e.secrets) > 0 && f.mode == evaluating && f.e.run.Derived != nil {
		f.derived(e.secrets[0], v)
	}
	return v, nil
}

// derived tells of the texts in v, which was made of a secret.
func (f *frame) derived(secret int, v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, x cty.Value) (bool, error) {
		if x.IsKnown() && !x.IsNull() && x.Type() == cty.String {
			f.e.run.Derived(secret, x.AsString())
		}
		return true, nil
	})
}

// diagError carries diagnostics through a function that returns an error.
type diagError struct{ hd hclv2.Diagnostics }

func (e diagError) Error() string { return e.hd.Error() }

// arguments evaluates and converts the arguments. Without an error they are
// nil when their number is not known yet.
func (e *callExpr) arguments(ctx *hclv2.EvalContext) ([]cty.Value, hclv2.Diagnostics) {
	var all hclv2.Diagnostics
	args := make([]cty.Value, 0, len(e.Args))
	for i, a := range e.Args {
		v, hd := a.Value(ctx)
		all = append(all, hd...)
		if !e.ExpandFinal || i+1 < len(e.Args) {
			args = append(args, v)
			continue
		}
		switch {
		case hd.HasErrors():
		case v.Type() == cty.DynamicPseudoType || !v.IsKnown():
			return nil, all
		case v.IsNull() || !v.CanIterateElements() || v.Type().IsMapType() || v.Type().IsObjectType():
			all = append(all, evalDiag("invalid-function-argument", a, ctx, a.Range(), "Value has no elements", "The argument before ... must be a list, set or tuple; this is %s.", describe(v))...)
		case v.LengthInt() > 10_000:
			all = append(all, evalDiag("invalid-function-argument", a, ctx, a.Range(), "Too many arguments", "A function takes at most 10000 arguments, this list has %d elements.", v.LengthInt())...)
		default:
			for it := v.ElementIterator(); it.Next(); {
				_, elem := it.Element()
				args = append(args, elem)
			}
		}
	}
	if all.HasErrors() {
		return nil, all
	}
	params, rest := e.fn.impl.Params(), e.fn.impl.VarParam()
	if len(args) < len(params) || len(args) > len(params) && rest == nil {
		return nil, evalDiag("wrong-number-of-arguments", e, ctx, e.Range(), "Wrong number of arguments", "%s takes %s, %d given.", e.signature(), count(len(params), rest != nil), len(args))
	}
	for i, a := range args {
		v, err := convertValue(a, e.param(i).Type)
		if err != nil {
			return nil, e.fail(ctx, i, err)
		}
		args[i] = v
	}
	return args, nil
}

func count(n int, more bool) string {
	s := fmt.Sprintf("%d arguments", n)
	if n == 1 {
		s = "1 argument"
	}
	if more {
		s += " or more"
	}
	return s
}

// signature is "join(separator, lists...)".
func (e *callExpr) signature() string {
	s := e.Name + "("
	for i, p := range e.fn.impl.Params() {
		if i > 0 {
			s += ", "
		}
		s += p.Name
	}
	if p := e.fn.impl.VarParam(); p != nil {
		if len(e.fn.impl.Params()) > 0 {
			s += ", "
		}
		s += p.Name + "..."
	}
	return s + ")"
}

// failure is what a function's error becomes.
func (e *callExpr) failure(ctx *hclv2.EvalContext, err error) hclv2.Diagnostics {
	var inner diagError
	if errors.As(err, &inner) {
		return inner.hd
	}
	var arg function.ArgError
	if errors.As(err, &arg) {
		return e.fail(ctx, arg.Index, arg)
	}
	var broken function.PanicError // such as log(0, 0): its text is a stack trace
	if errors.As(err, &broken) {
		err = errors.New("it has no result for these values")
	}
	return e.fail(ctx, -1, err)
}

func (e *callExpr) fail(ctx *hclv2.EvalContext, arg int, err error) hclv2.Diagnostics {
	if arg < 0 || len(e.Args) == 0 {
		return evalDiag("function-call", e, ctx, e.Range(), "Function call does not work", "%s: %s.", e.signature(), err)
	}
	a := e.Args[min(arg, len(e.Args)-1)]
	return evalDiag("invalid-function-argument", e, ctx, a.Range(), "Invalid argument", "%s, argument %q: %s.", e.signature(), e.param(arg).Name, err)
}

// param is the parameter that receives argument i; the number of arguments has
// been checked.
func (e *callExpr) param(i int) *function.Parameter {
	if params := e.fn.impl.Params(); i < len(params) {
		return &params[i]
	}
	return e.fn.impl.VarParam()
}

// functionNames lists the names of the language's functions, sorted.
func functionNames() []string {
	names := []string{"can", "convert", "try"}
	for n := range functions {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

package hcl

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

var errorFacetType = cty.Object(map[string]cty.Type{"class": cty.String, "message": cty.String})

// failureType is what attempt.last_error and self.error are. Of a step that
// ended the code is no facet: it is the plugin's, and changes with it.
// The details are what the plugin says of it, null for nothing: of a model's
// answer that was not good enough, the answer.
var failureType = cty.Object(map[string]cty.Type{"class": cty.String, "code": cty.String, "message": cty.String, "details": cty.DynamicPseudoType})

// Value finds the one value that r names.
func (r *refExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	if f == nil || r.index < 0 || f.limit != "" {
		return cty.DynamicVal, nil
	}
	switch r.kind {
	case refVar:
		v := &f.e.p.vars[r.index]
		if f.mode == checking {
			return r.follow(cty.UnknownVal(v.ty.WithoutOptionalAttributesDeep()), ctx)
		}
		return r.follow(f.e.values.vals[r.index], ctx)
	case refLocal:
		c := f.cell(r.index)
		if !c.ready() {
			return cty.DynamicVal, nil // only in a flow that has errors
		}
		f.reads = append(f.reads, c.reads...)
		f.unplanned = append(f.unplanned, c.unplanned...)
		if c.diags.HasErrors() {
			if f.mode == checking {
				return cty.DynamicVal, nil // the local itself is reported
			}
			return cty.DynamicVal, c.diags
		}
		return r.follow(c.v, ctx)
	case refRun:
		if f.mode == checking {
			return r.follow(cty.UnknownVal(cty.String), ctx)
		}
		if r.name == "run.id" {
			return r.follow(cty.StringVal(f.e.run.ID), ctx)
		}
		return r.follow(cty.StringVal(f.e.startedAt()), ctx)
	case refPath:
		// Absolute, so that it is one place for a program that runs elsewhere, and the
		// same from wherever the flow is applied.
		dir := f.e.p.dir
		if abs, err := filepath.Abs(dir); err == nil && dir != "" {
			dir = abs
		}
		return r.follow(cty.StringVal(dir), ctx)
	case refSecret:
		v, err := f.secretValue(r)
		if err != nil {
			return cty.DynamicVal, evalDiag("missing-secret", r, nil, r.SrcRange, "Secret has no value", "%s.", sentence(err))
		}
		return r.follow(v, ctx)
	case refEach, refSelf, refAttempt:
		return r.scoped(f, ctx)
	}
	return r.facetValue(f, ctx)
}

func (e *Evaluator) startedAt() string { return e.run.StartedAt.UTC().Format(time.RFC3339) }

func (r *refExpr) facetValue(f *frame, ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	if f.mode != evaluating {
		ty := cty.DynamicPseudoType
		switch {
		case r.facet == sdk.FacetOutput:
			ty = r.sourceType(f, nil)
		case r.shared == len(f.e.p.steps[r.index].loops):
			ty = facetType(r.facet)
		}
		return r.follow(cty.UnknownVal(ty.WithoutOptionalAttributesDeep()), ctx)
	}
	if r.facet == sdk.FacetOutput {
		return r.decoded(f, ctx)
	}
	res := f.scope.Up(r.index)
	if res.Instances != nil {
		return r.follow(instancesFacet(r.facet, &res), ctx)
	}
	return r.follow(facetOf(r.facet, &res), ctx)
}

// facetType is the type of a facet that says how a step ended.
func facetType(facet sdk.Facet) cty.Type {
	switch facet {
	case sdk.FacetError:
		return errorFacetType
	case sdk.FacetAttempts:
		return cty.Number
	case sdk.FacetDegraded:
		return cty.Bool
	}
	return cty.String
}

func facetOf(facet sdk.Facet, res *Result) cty.Value {
	switch facet {
	case sdk.FacetAttempts:
		return cty.NumberIntVal(int64(res.Attempts))
	case sdk.FacetDegraded:
		return cty.BoolVal(res.Degraded)
	case sdk.FacetError:
		if res.Error == nil {
			return cty.NullVal(errorFacetType)
		}
		return cty.ObjectVal(map[string]cty.Value{
			"class": cty.StringVal(string(res.Error.Class)), "message": cty.StringVal(res.Error.Message),
		})
	}
	return cty.StringVal(res.State.String())
}

// instancesFacet has the shape of the collection.
func instancesFacet(facet sdk.Facet, res *Result) cty.Value {
	if len(res.Instances) == 0 {
		if res.List {
			return cty.ListValEmpty(facetType(facet))
		}
		return cty.MapValEmpty(facetType(facet))
	}
	all := Expansion{List: res.List, Each: make([]Each, len(res.Instances))}
	vals := make([]cty.Value, len(res.Instances))
	for i := range res.Instances {
		in := &res.Instances[i]
		if all.Each[i].Key = in.Key; in.Instances != nil {
			vals[i] = instancesFacet(facet, &in.Result)
		} else {
			vals[i] = facetOf(facet, &in.Result)
		}
	}
	return gathered(vals, &all)
}

// scoped is the value of each, self and attempt.
func (r *refExpr) scoped(f *frame, ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	known := f.mode == evaluating || r.kind == refEach && len(f.scope.Each) > r.level
	switch r.name {
	case "attempt.number":
		if known {
			return r.follow(cty.NumberIntVal(int64(max(f.scope.Attempt, 1))), ctx)
		}
		return r.follow(cty.UnknownVal(cty.Number), ctx)
	case "attempt.last_error", "self.error":
		e := f.scope.LastError
		if r.kind == refSelf {
			e = f.scope.Error
		}
		switch {
		case !known:
			return r.follow(cty.UnknownVal(failureType), ctx)
		case e == nil:
			return r.follow(cty.NullVal(failureType), ctx)
		}
		details := cty.NullVal(cty.DynamicPseudoType)
		if len(e.Details) > 0 {
			if v, err := decodeJSON(e.Details, cty.DynamicPseudoType); err == nil {
				details = v // what cannot be calculated with is left out
			}
		}
		return r.follow(cty.ObjectVal(map[string]cty.Value{
			"class": cty.StringVal(string(e.Class)), "code": cty.StringVal(e.Code), "message": cty.StringVal(e.Message), "details": details,
		}), ctx)
	}
	if known {
		return r.decoded(f, ctx)
	}
	return r.follow(cty.UnknownVal(r.sourceType(f, nil).WithoutOptionalAttributesDeep()), ctx)
}

// hasSource reports whether r leads into JSON text: of an output, of each, of
// self.
func (r *refExpr) hasSource() bool {
	return r.kind == refFacet && r.facet == sdk.FacetOutput || r.kind == refEach || r.kind == refSelf && r.name != "self.error"
}

// source is the JSON text that r leads into; nil when there is none.
func (r *refExpr) source(f *frame) json.RawMessage {
	switch s := &f.scope; {
	case r.kind == refFacet:
		if res := s.Up(r.index); res.State == sdk.Succeeded {
			return res.Output
		}
	case r.name == "self.input":
		return s.Input
	case r.name == "self.output":
		return s.Output
	case len(s.Each) <= r.level:
	case r.part == eachValue:
		return s.Each[r.level].Value
	default:
		return s.Each[r.level].Key
	}
	return nil
}

// sourceType is the type of the source, as far as it is known; text is the
// source itself or nil.
func (r *refExpr) sourceType(f *frame, text json.RawMessage) cty.Type {
	code := &f.e.p.steps[r.index]
	ty, loops := code.outType, code.loops
	if f.e.promised != nil {
		ty, loops = f.e.promised[r.index].out, f.e.promised[r.index].loops
	}
	switch {
	case r.kind == refFacet:
		for k := len(loops) - 1; k >= r.shared; k-- {
			if k == r.shared && text != nil {
				return loops[k].collectionOf(ty, text)
			}
			ty = loops[k].collection(ty)
		}
	case r.kind == refEach && r.part == eachValue:
		ty = loops[r.level].val
	case r.kind == refEach:
		ty = loops[r.level].key
	case r.name == "self.input":
		ty = code.inType
	}
	if ty == cty.NilType {
		return cty.DynamicPseudoType
	}
	return ty
}

// note says where the type of an output comes from, if that may surprise.
func (r *refExpr) note(ctx *hclv2.EvalContext) string {
	f := frameOf(ctx)
	if f == nil || r.kind != refFacet || f.e.promised == nil || f.e.promised[r.index].note == "" {
		return ""
	}
	return " " + f.e.promised[r.index].note
}

// decoded is the value at the end of the reference.
func (r *refExpr) decoded(f *frame, ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	source := r.source(f)
	raw, hd := r.within(source, f, ctx)
	if hd != nil {
		return cty.DynamicVal, hd
	}
	v, err := decodeJSON(raw, typeAt(r.sourceType(f, source), r.path))
	if err != nil {
		return cty.DynamicVal, evalDiag("invalid-output", r, ctx, r.SrcRange, "Output cannot be used in an expression", "%s: %s.", r.text, err)
	}
	return v, nil
}

// raw is the JSON text that a reference with a source stands for.
func (r *refExpr) raw(f *frame, ctx *hclv2.EvalContext) (json.RawMessage, hclv2.Diagnostics) {
	return r.within(r.source(f), f, ctx)
}

// within follows the reference in its source.
func (r *refExpr) within(source json.RawMessage, f *frame, ctx *hclv2.EvalContext) (json.RawMessage, hclv2.Diagnostics) {
	base := func() string { return traversalText(r.Traversal[:len(r.Traversal)-len(r.rest)]) }
	switch {
	case source == nil && r.kind == refFacet:
		return nil, evalDiag("absent-output", r, ctx, r.SrcRange, "Output is absent", "step.%s is %s and has no output. Where that may happen, write try(%s, …).", r.name, f.scope.Up(r.index).State, r.text)
	case source == nil:
		return nil, evalDiag("absent-output", r, ctx, r.SrcRange, "Value is absent", "There is no %s in this evaluation. Where that may happen, write try(%s, …).", base(), r.text)
	}
	if r.path == nil {
		return nil, evalDiag("invalid-index", r, ctx, r.SrcRange, "Invalid index", "%s is no place in a value: an index is a whole number from 0.", r.text)
	}
	at, n, ok := find(source, r.path)
	if ok {
		return at, nil
	}
	where := base() + traversalText(r.rest[:n])
	s := r.path[n]
	detail, code := "", "unsupported-attribute"
	switch kind := kindOf(at); {
	case kind == "null":
		detail = fmt.Sprintf("%s is null.", where)
	case s.isIndex && kind == "list":
		code = "invalid-index"
		k := 0
		elements(at, func([]byte) bool { k++; return true })
		detail = fmt.Sprintf("%s has %d elements, there is no index %d; the first is 0.", where, k, s.index)
	case !s.isIndex && kind == "object":
		keys := keysOf(at)
		detail = fmt.Sprintf("%s has no attribute %q; it has %s.%s", where, s.name, listOf(keys), DidYouMean(s.name, keys))
	case !s.isIndex && kind == "list":
		detail = fmt.Sprintf("%s is a list and has no attribute %q. Choose an element first: %[1]s[0].%[2]s, or take it of each: %[1]s[*].%[2]s.", where, s.name)
	case kind == "object":
		detail = fmt.Sprintf("%s is an object and has no index %d. Its attributes are %s.", where, s.index, listOf(keysOf(at)))
	default:
		detail = fmt.Sprintf("%s is %s (%s) and has nothing inside.", where, article(kind), shorten(at, 60))
	}
	return nil, evalDiag(code, r, ctx, r.rest[n].SourceRange(), "Output has no such part", "%s", detail)
}

// follow applies the rest of the reference to a cty value.
func (r *refExpr) follow(v cty.Value, ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	if len(r.rest) == 0 {
		return v, nil
	}
	base := r.Traversal[:len(r.Traversal)-len(r.rest)]
	for i := range r.rest {
		next, hd := r.rest[i : i+1].TraverseRel(v)
		if !hd.HasErrors() {
			v = next
			continue
		}
		where := traversalText(base) + traversalText(r.rest[:i])
		at := r.rest[i].SourceRange()
		name, isAttr := attrName(r.rest, i)
		switch ty := v.Type(); {
		case v.IsKnown() && v.IsNull():
			return cty.DynamicVal, evalDiag("null-value", r, ctx, at, "Value is null", "%s is null and has nothing inside. Where that may happen, write try(%s, …).", where, r.text)
		case isAttr && (ty.IsListType() || ty.IsTupleType()):
			return cty.DynamicVal, evalDiag("unsupported-attribute", r, ctx, at, "Unsupported attribute", "%s is a list and has no attribute %q. Choose an element first: %[1]s[0].%[2]s, or take it of each: %[1]s[*].%[2]s.", where, name)
		case isAttr && (ty.IsObjectType() || ty.IsMapType()):
			keys := attributeNames(v)
			return cty.DynamicVal, evalDiag("unsupported-attribute", r, ctx, at, "Unsupported attribute", "%s has no attribute %q; it has %s.%s%s", where, name, listOf(keys), DidYouMean(name, keys), r.note(ctx))
		case isAttr:
			return cty.DynamicVal, evalDiag("unsupported-attribute", r, ctx, at, "Unsupported attribute", "%s is %s and has no attribute %q.", where, article(ty.FriendlyName()), name)
		}
		for _, d := range hd {
			d.Expression, d.EvalContext = r, ctx
		}
		return cty.DynamicVal, hd
	}
	return v, nil
}

func attributeNames(v cty.Value) []string {
	var keys []string
	if ty := v.Type(); ty.IsObjectType() {
		for k := range ty.AttributeTypes() {
			keys = append(keys, k)
		}
	} else if v.IsKnown() && !v.IsNull() {
		for it := v.ElementIterator(); it.Next() && len(keys) < 1000; {
			k, _ := it.Element()
			keys = append(keys, k.AsString())
		}
	}
	slices.Sort(keys)
	return keys
}

// typeAt is what ty says about the value at path; any where it says nothing.
func typeAt(ty cty.Type, path []step) cty.Type {
	for _, s := range path {
		switch {
		case ty == cty.NilType:
			return cty.DynamicPseudoType
		case ty.IsObjectType() && !s.isIndex && ty.HasAttribute(s.name):
			ty = ty.AttributeType(s.name)
		case ty.IsMapType() && !s.isIndex, ty.IsListType() && s.isIndex:
			ty = ty.ElementType()
		case ty.IsTupleType() && s.isIndex && s.index < ty.Length():
			ty = ty.TupleElementType(s.index)
		default:
			return cty.DynamicPseudoType
		}
	}
	if ty == cty.NilType {
		return cty.DynamicPseudoType
	}
	return ty
}

// namedValues are the values of what an expression names, for a diagnostic.
func namedValues(e hclv2.Expression, ctx *hclv2.EvalContext) []NamedValue {
	node, ok := e.(hclsyntax.Node)
	f := frameOf(ctx)
	if !ok || f == nil || f.mode == checking {
		return nil
	}
	w := &valueWalker{ctx: ctx}
	hclsyntax.Walk(node, w)
	return w.out
}

type valueWalker struct {
	ctx    *hclv2.EvalContext
	hidden []map[string]struct{}
	out    []NamedValue
}

func (w *valueWalker) Enter(n hclsyntax.Node) hclv2.Diagnostics {
	name, e := "", hclsyntax.Expression(nil)
	switch t := n.(type) {
	case hclsyntax.ChildScope:
		w.hidden = append(w.hidden, t.LocalNames)
		return nil
	case *refExpr:
		name, e = t.text, t
	case *hclsyntax.ScopeTraversalExpr:
		for _, h := range w.hidden {
			if _, ok := h[t.Traversal.RootName()]; ok {
				return nil // a variable that has no value here
			}
		}
		name, e = traversalText(t.Traversal), t
	default:
		return nil
	}
	if len(w.out) < 6 && frameOf(w.ctx).hides(e) {
		if !slices.Contains(w.out, NamedValue{name, hiddenText}) {
			w.out = append(w.out, NamedValue{name, hiddenText})
		}
		return nil
	}
	if len(w.out) >= 6 || slices.ContainsFunc(w.out, func(v NamedValue) bool { return v.Name == name }) {
		return nil
	}
	if r, ok := e.(*refExpr); ok && r.hasSource() {
		f := frameOf(w.ctx)
		if f.mode != evaluating {
			return nil
		}
		if raw, hd := r.raw(f, nil); hd == nil {
			w.out = append(w.out, NamedValue{name, shorten([]byte(strings.ToValidUTF8(string(raw[:min(len(raw), 400)]), "")), 80)})
		}
		return nil
	}
	if v, hd := e.Value(w.ctx); !hd.HasErrors() && v.IsWhollyKnown() {
		w.out = append(w.out, NamedValue{name, preview(v)})
	}
	return nil
}

func (w *valueWalker) Exit(n hclsyntax.Node) hclv2.Diagnostics {
	if _, ok := n.(hclsyntax.ChildScope); ok {
		w.hidden = w.hidden[:len(w.hidden)-1]
	}
	return nil
}

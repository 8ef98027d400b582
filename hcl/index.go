package hcl

import (
	"encoding/json"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// indexExpr is x[key] with a key that is computed, such as
// step.y.output[each.key]. Of an output only the part that is named is decoded:
// an instance of a fan-out must not pay for all the others.
type indexExpr struct{ *hclsyntax.IndexExpr }

func (e *indexExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	if raw, ty, ok := e.part(ctx); ok {
		if v, err := decodeJSON(raw, ty); err == nil {
			return v, nil
		}
	}
	// Whatever is unusual HCL converts, or tells what is wrong with it.
	return e.IndexExpr.Value(ctx)
}

// part is the JSON text that the expression names and what is known of its type;
// ok is false when it has to be evaluated as a whole.
func (e *indexExpr) part(ctx *hclv2.EvalContext) (raw json.RawMessage, ty cty.Type, ok bool) {
	r, isRef := unwrap(e.Collection).(*refExpr)
	f := frameOf(ctx)
	if !isRef || f == nil || f.mode != evaluating || !r.hasSource() || r.path == nil {
		return nil, ty, false
	}
	key, hd := e.Key.Value(ctx)
	if hd.HasErrors() || !key.IsKnown() || key.IsNull() || key.Type() != cty.String && key.Type() != cty.Number {
		return nil, ty, false
	}
	path := jsonPath(hclv2.Traversal{hclv2.TraverseIndex{Key: key}})
	source := r.source(f)
	whole, hd := r.within(source, f, ctx)
	if hd.HasErrors() || path == nil {
		return nil, ty, false
	}
	ty = typeAt(r.sourceType(f, source), r.path)
	if ty.IsSetType() {
		return nil, ty, false
	}
	raw, _, ok = find(whole, path)
	return raw, typeAt(ty, path), ok
}

// rawPart is what an expression stands for that is nothing but such an index,
// with attributes after it.
func rawPart(e hclsyntax.Expression, ctx *hclv2.EvalContext) (json.RawMessage, bool) {
	switch t := unwrap(e).(type) {
	case *indexExpr:
		raw, _, ok := t.part(ctx)
		return raw, ok
	case *hclsyntax.RelativeTraversalExpr:
		path := jsonPath(t.Traversal)
		x, isIndex := unwrap(t.Source).(*indexExpr)
		if !isIndex || path == nil {
			return nil, false
		}
		raw, _, ok := x.part(ctx)
		if ok {
			raw, _, ok = find(raw, path)
		}
		return raw, ok
	}
	return nil, false
}

package hcl

import (
	"encoding/json"
	"fmt"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// indexExpr is x[key] with a key that is computed, such as
// step.y.output[each.key]. Of an output only the part that is named is decoded:
// an instance of a fan-out must not pay for all the others.
type indexExpr struct{ *hclsyntax.IndexExpr }

func (e *indexExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	key, hd := e.Key.Value(ctx)
	if hd.HasErrors() {
		return cty.DynamicVal, hd
	}
	if raw, ty, ok := e.partAt(key, ctx); ok {
		if v, err := decodeJSON(raw, ty); err == nil {
			return v, nil
		}
	}
	if err := checkKey(key); err != nil {
		return cty.DynamicVal, evalDiag("invalid-index", e.Key, ctx, e.Key.Range(), "Invalid index", "%s.", sentence(err))
	}
	// Whatever is unusual HCL converts, or tells what is wrong with it. The key is
	// not evaluated again: keys can be such expressions themselves, each twice as
	// dear as the one in it.
	asked := *e.IndexExpr
	asked.Key = &keyExpr{e.Key, key}
	return asked.Value(ctx)
}

// keyExpr is an expression with the value it has.
type keyExpr struct {
	hclsyntax.Expression
	value cty.Value
}

func (e *keyExpr) Value(*hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) { return e.value, nil }

// keys is t up to the first key that no collection has.
func (c *compiler) keys(t hclv2.Traversal) hclv2.Traversal {
	for i, s := range t {
		if s, ok := s.(hclv2.TraverseIndex); ok {
			if err := checkKey(s.Key); err != nil {
				c.ds.errorf("invalid-index", s.SrcRange, "Invalid index", "%s.", sentence(err))
				return t[:i]
			}
		}
	}
	return t
}

// checkKey refuses a key that HCL would read as a number for minutes.
func checkKey(key cty.Value) error {
	if key.IsKnown() && !key.IsNull() && key.Type() == cty.String && len(key.AsString()) > maxDigits {
		return fmt.Errorf("a key may have %d bytes, this one has %d", maxDigits, len(key.AsString()))
	}
	return nil
}

// part is the JSON text that the expression names and what is known of its type;
// ok is false when it has to be evaluated as a whole.
func (e *indexExpr) part(ctx *hclv2.EvalContext) (raw json.RawMessage, ty cty.Type, ok bool) {
	key, hd := e.Key.Value(ctx)
	if hd.HasErrors() {
		return nil, ty, false
	}
	return e.partAt(key, ctx)
}

func (e *indexExpr) partAt(key cty.Value, ctx *hclv2.EvalContext) (raw json.RawMessage, ty cty.Type, ok bool) {
	r, isRef := unwrap(e.Collection).(*refExpr)
	f := frameOf(ctx)
	if !isRef || f == nil || f.mode != evaluating || !r.hasSource() || r.path == nil {
		return nil, ty, false
	}
	if !key.IsKnown() || key.IsNull() || key.Type() != cty.String && key.Type() != cty.Number {
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

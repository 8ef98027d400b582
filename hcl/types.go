package hcl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// typeText is a type as one would write it, attributes in order of name.
func typeText(ty cty.Type) string {
	switch {
	case ty == cty.DynamicPseudoType:
		return "any"
	case ty.IsPrimitiveType():
		return ty.FriendlyName()
	case ty.IsListType():
		return "list(" + typeText(ty.ElementType()) + ")"
	case ty.IsSetType():
		return "set(" + typeText(ty.ElementType()) + ")"
	case ty.IsMapType():
		return "map(" + typeText(ty.ElementType()) + ")"
	case ty.IsTupleType():
		parts := make([]string, ty.Length())
		for i := range parts {
			parts[i] = typeText(ty.TupleElementType(i))
		}
		return "tuple([" + strings.Join(parts, ", ") + "])"
	case ty.IsObjectType():
		var parts []string
		for _, name := range attributesOf(ty) {
			t := typeText(ty.AttributeType(name))
			if ty.AttributeOptional(name) {
				t = "optional(" + t + ")"
			}
			parts = append(parts, name+" = "+t)
		}
		if len(parts) == 0 {
			return "object({})"
		}
		return "object({ " + strings.Join(parts, ", ") + " })"
	}
	return ty.FriendlyName()
}

// typeWords are what a type is written with.
var typeWords = []string{"any", "bool", "number", "string", "list", "map", "object", "optional", "set", "tuple"}

// typeOf reads a type.
func typeOf(e hclsyntax.Expression) (cty.Type, *typeexpr.Defaults, Diagnostics) {
	ty, defaults, hd := typeexpr.TypeConstraintWithDefaults(e)
	ds := fromHCL(hd)
	for i := range ds {
		if _, quoted, ok := strings.Cut(ds[i].Detail, `eyword "`); ok {
			word, _, _ := strings.Cut(quoted, `"`)
			ds[i].Detail += DidYouMean(word, typeWords)
		}
	}
	return ty, defaults, ds
}

func attributesOf(ty cty.Type) []string {
	var names []string
	for n := range ty.AttributeTypes() {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// convertTo is what a variable of type ty makes of v: attributes that the type
// does not have are an error, defaults are filled in, then cty converts.
func convertTo(v cty.Value, ty cty.Type, defaults *typeexpr.Defaults) (cty.Value, error) {
	if err := closed(v, ty, ""); err != nil {
		return cty.NilVal, err
	}
	if defaults != nil && v.IsKnown() && !v.IsNull() {
		v = defaults.Apply(v)
	}
	return convertValue(v, ty)
}

// closed refuses attributes that an object type does not have, at any depth.
func closed(v cty.Value, ty cty.Type, at string) error {
	if !v.IsKnown() || v.IsNull() || ty == cty.DynamicPseudoType || ty.IsPrimitiveType() || !v.CanIterateElements() {
		return nil
	}
	isObject := v.Type().IsObjectType() || v.Type().IsMapType()
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		k, elem := it.Element()
		elemType, where := cty.DynamicPseudoType, fmt.Sprintf("%s[%d]", at, i)
		switch {
		case ty.IsObjectType() && isObject:
			name := k.AsString()
			where = at + "." + name
			if !ty.HasAttribute(name) {
				names := attributesOf(ty)
				where := ""
				if at != "" {
					where = " at " + strings.TrimPrefix(at, ".")
				}
				hint := ""
				if n := nearest(name, names); n != "" {
					hint = fmt.Sprintf(" (did you mean %q?)", n)
				}
				return fmt.Errorf("there is no attribute %q%s%s; the type has %s", name, where, hint, listOf(names))
			}
			elemType = ty.AttributeType(name)
		case ty.IsMapType() && isObject:
			where = at + "." + k.AsString()
			elemType = ty.ElementType()
		case ty.IsListType() && !isObject, ty.IsSetType() && !isObject:
			elemType = ty.ElementType()
		case ty.IsTupleType() && !isObject && i < ty.Length():
			elemType = ty.TupleElementType(i)
		}
		if err := closed(elem, elemType, where); err != nil {
			return err
		}
	}
	return nil
}

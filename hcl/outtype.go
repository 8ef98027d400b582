package hcl

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// CheckOutput reports whether out fits the step's output_type. It is strict: a
// number is not a string, objects have no attribute beyond their type's, null
// stands only where the type says optional or any. The error names the place
// as a JSON Pointer, what is wanted and what was found. Without an
// output_type it is nil for any JSON.
func (e *Evaluator) CheckOutput(step int, out json.RawMessage) error {
	ty := e.p.steps[step].outType
	if ty == cty.NilType {
		return nil
	}
	if err := sdk.CheckJSON(out); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return conform(out[skipSpace(out, 0):], ty, "")
}

// pointerEscape spells a key in a JSON Pointer.
var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// conform recurses as deep as the text nests, which CheckJSON bounds.
func conform(b []byte, ty cty.Type, at string) error {
	kind := kindOf(b)
	want := ""
	switch {
	case ty == cty.DynamicPseudoType:
		return nil
	case ty.IsPrimitiveType():
		want = ty.FriendlyName()
	case ty.IsListType(), ty.IsSetType(), ty.IsTupleType():
		want = "list"
	default:
		want = "object"
	}
	if kind != want {
		return mismatch(at, "want %s, found %s", typeText(ty), found(b, kind))
	}
	switch {
	case ty.IsListType(), ty.IsSetType():
		return conformList(b, at, -1, func(int) cty.Type { return ty.ElementType() })
	case ty.IsTupleType():
		return conformList(b, at, ty.Length(), ty.TupleElementType)
	case ty.IsMapType():
		var err error
		members(b, func(k, v []byte) bool {
			err = conform(v, ty.ElementType(), at+"/"+pointerEscape.Replace(unquote(k)))
			return err == nil
		})
		return err
	case ty.IsObjectType():
		return conformObject(b, ty, at)
	}
	return nil
}

func conformList(b []byte, at string, length int, elem func(int) cty.Type) error {
	var err error
	n := 0
	elements(b, func(v []byte) bool {
		if length < 0 || n < length {
			err = conform(v, elem(n), at+"/"+strconv.Itoa(n))
		}
		n++
		return err == nil
	})
	if err == nil && length >= 0 && n != length {
		return mismatch(at, "want %d elements, found %d", length, n)
	}
	return err
}

func conformObject(b []byte, ty cty.Type, at string) error {
	var err error
	seen := map[string]bool{}
	members(b, func(k, v []byte) bool {
		name := normal(unquote(k))
		where := at + "/" + pointerEscape.Replace(name)
		if !ty.HasAttribute(name) {
			err = noAttribute(where, name, ty)
			return false
		}
		seen[name] = true
		if kindOf(v) == "null" && ty.AttributeOptional(name) {
			return true
		}
		err = conform(v, ty.AttributeType(name), where)
		return err == nil
	})
	if err != nil {
		return err
	}
	for _, name := range attributesOf(ty) {
		if !seen[name] && !ty.AttributeOptional(name) {
			return missing(at, name, ty)
		}
	}
	return nil
}

func mismatch(at, format string, args ...any) error {
	if at != "" {
		at = "at " + at + ": "
	}
	return fmt.Errorf("output does not fit output_type: %s%s", at, fmt.Sprintf(format, args...))
}

func found(b []byte, kind string) string {
	switch kind {
	case "null":
		return "null"
	case "string", "number", "bool":
		return kind + " " + shorten(b, 60)
	}
	return kind
}

// fits is conform for a value of which not everything is known, as far as can be
// told.
func fits(v cty.Value, ty cty.Type, at string) error {
	switch {
	case ty == cty.DynamicPseudoType:
		return nil
	case v.IsWhollyKnown():
		b, err := appendJSON(nil, v)
		if err != nil {
			return err
		}
		return conform(b, ty, at)
	case !v.IsKnown():
		return fitsType(v.Type(), ty, at)
	}
	// What is not wholly known is no primitive value and not null.
	if err := fitsType(v.Type(), ty, at); err != nil {
		return err
	}
	n := 0
	for it := v.ElementIterator(); it.Next(); n++ {
		k, elem := it.Element()
		where, want := at+"/"+strconv.Itoa(n), cty.Type{}
		if k.Type() == cty.String {
			where = at + "/" + pointerEscape.Replace(k.AsString())
		}
		switch {
		case ty.IsCollectionType():
			want = ty.ElementType()
		case ty.IsTupleType() && n >= ty.Length():
			return mismatch(at, "want %d elements, found more", ty.Length())
		case ty.IsTupleType():
			want = ty.TupleElementType(n)
		case !ty.HasAttribute(k.AsString()):
			return noAttribute(where, k.AsString(), ty)
		default:
			want = ty.AttributeType(k.AsString())
			if ty.AttributeOptional(k.AsString()) && elem.IsKnown() && elem.IsNull() {
				continue
			}
		}
		if err := fits(elem, want, where); err != nil {
			return err
		}
	}
	return nil
}

// fitsType compares types, of the parts as far as both say something.
func fitsType(from, ty cty.Type, at string) error {
	list := from.IsListType() || from.IsSetType() || from.IsTupleType()
	object := from.IsMapType() || from.IsObjectType()
	ok := false
	switch {
	case from == cty.DynamicPseudoType || ty == cty.DynamicPseudoType:
		return nil
	case ty.IsPrimitiveType():
		ok = from == ty
	case ty.IsListType(), ty.IsSetType():
		ok = list
	case ty.IsTupleType():
		ok = list
		if from.IsTupleType() && from.Length() != ty.Length() {
			return mismatch(at, "want %d elements, found %d", ty.Length(), from.Length())
		}
	default:
		ok = object
	}
	if !ok {
		return mismatch(at, "want %s, found %s", typeText(ty), typeText(from))
	}
	switch {
	case from.IsObjectType() && ty.IsObjectType():
		return fitsObject(from, ty, at)
	case from.IsCollectionType() && ty.IsCollectionType():
		return fitsType(from.ElementType(), ty.ElementType(), at)
	}
	return nil
}

func fitsObject(from, ty cty.Type, at string) error {
	for _, name := range attributesOf(from) {
		where := at + "/" + pointerEscape.Replace(name)
		if !ty.HasAttribute(name) {
			return noAttribute(where, name, ty)
		}
		if err := fitsType(from.AttributeType(name), ty.AttributeType(name), where); err != nil {
			return err
		}
	}
	for _, name := range attributesOf(ty) {
		if !from.HasAttribute(name) && !ty.AttributeOptional(name) {
			return missing(at, name, ty)
		}
	}
	return nil
}

func noAttribute(at, name string, ty cty.Type) error {
	names := attributesOf(ty)
	return mismatch(at, "the type has no such attribute; it has %s.%s", listOf(names), DidYouMean(name, names))
}

func missing(at, name string, ty cty.Type) error {
	return mismatch(at, "the attribute %q is missing, want %s", name, typeText(ty.AttributeType(name)))
}

package hcl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// maxKinds is how many different types of elements are brought to a common one.
const maxKinds = 100

// convertValue converts as cty does, but in linear time: cty looks for the
// common type of a collection's elements by comparing every pair, also when all
// are strings, and takes a minute for a list of 100,000.
func convertValue(v cty.Value, ty cty.Type) (cty.Value, error) {
	switch {
	case ty == cty.DynamicPseudoType || v.Type().Equals(ty):
		return v, nil
	case ty == cty.Number && v.Type() == cty.String && v.IsKnown() && !v.IsNull():
		n, err := number(v.AsString())
		if out := rangeError(""); err != nil && !errors.As(err, &out) {
			err = fmt.Errorf("a number is required, this is %s", describe(v))
		}
		return n, err
	case !v.IsKnown() || v.IsNull() || ty.IsPrimitiveType():
		out, err := convert.Convert(v, ty)
		if err != nil && v.IsKnown() {
			return out, fmt.Errorf("%w, this is %s", err, describe(v))
		}
		return out, err
	}
	from := v.Type()
	list := from.IsTupleType() || from.IsListType() || from.IsSetType()
	object := from.IsObjectType() || from.IsMapType()
	switch {
	case ty.IsListType() && list, ty.IsSetType() && list:
		return convertList(v, ty)
	case ty.IsMapType() && object:
		return convertMap(v, ty)
	case ty.IsObjectType() && object:
		return convertObject(v, ty)
	case ty.IsTupleType() && from.IsTupleType():
		return convertTuple(v, ty)
	}
	return cty.NilVal, fmt.Errorf("%s is required, this is %s", article(typeText(ty)), describe(v))
}

// partError is an error in a part of a value, with the way to that part.
type partError struct {
	path string // ".tags[3]"
	err  error
}

func (e *partError) Error() string {
	return fmt.Sprintf("at %s: %s", strings.TrimPrefix(e.path, "."), e.err)
}

func (e *partError) Unwrap() error { return e.err }

func inPart(step string, err error) error {
	var inner *partError
	if errors.As(err, &inner) {
		return &partError{step + inner.path, inner.err}
	}
	return &partError{step, err}
}

// elementType is the type that a collection's elements are converted to: what
// the type says, or what is common to them where it says any.
func elementType(v cty.Value, ty cty.Type) (cty.Type, error) {
	if ty.ElementType() != cty.DynamicPseudoType {
		return ty.ElementType(), nil
	}
	var kinds []cty.Type
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if t := e.Type(); !slices.ContainsFunc(kinds, t.Equals) {
			if kinds = append(kinds, t); len(kinds) > maxKinds {
				return cty.NilType, fmt.Errorf("the elements have more than %d different types", maxKinds)
			}
		}
	}
	if len(kinds) == 0 {
		return cty.DynamicPseudoType, nil
	}
	common, _ := convert.UnifyUnsafe(kinds)
	if common == cty.NilType {
		return common, errNoCommonType
	}
	return common, nil
}

var errNoCommonType = errors.New("the elements have no common type")

func convertList(v cty.Value, ty cty.Type) (cty.Value, error) {
	elem, err := elementType(v, ty)
	if err != nil {
		return cty.NilVal, err
	}
	vals := make([]cty.Value, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		c, err := convertValue(e, elem)
		if err != nil {
			return cty.NilVal, inPart(fmt.Sprintf("[%d]", len(vals)), err)
		}
		vals = append(vals, c)
	}
	plain := elem.WithoutOptionalAttributesDeep()
	switch {
	case len(vals) == 0 && ty.IsListType():
		return cty.ListValEmpty(plain), nil
	case len(vals) == 0:
		return cty.SetValEmpty(plain), nil
	case !cty.CanListVal(vals):
		return cty.NilVal, errNoCommonType
	case ty.IsListType():
		return cty.ListVal(vals), nil
	}
	return cty.SetVal(vals), nil
}

func convertMap(v cty.Value, ty cty.Type) (cty.Value, error) {
	elem, err := elementType(v, ty)
	if err != nil {
		return cty.NilVal, err
	}
	vals := make(map[string]cty.Value, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		c, err := convertValue(e, elem)
		if err != nil {
			return cty.NilVal, inPart("."+k.AsString(), err)
		}
		vals[k.AsString()] = c
	}
	switch {
	case len(vals) == 0:
		return cty.MapValEmpty(elem.WithoutOptionalAttributesDeep()), nil
	case !cty.CanMapVal(vals):
		return cty.NilVal, errNoCommonType
	}
	return cty.MapVal(vals), nil
}

func convertObject(v cty.Value, ty cty.Type) (cty.Value, error) {
	given := v.AsValueMap()
	vals := make(map[string]cty.Value, len(ty.AttributeTypes()))
	for _, name := range attributesOf(ty) {
		want := ty.AttributeType(name)
		e, ok := given[name]
		switch {
		case ok:
			c, err := convertValue(e, want)
			if err != nil {
				return cty.NilVal, inPart("."+name, err)
			}
			vals[name] = c
		case ty.AttributeOptional(name):
			vals[name] = cty.NullVal(want.WithoutOptionalAttributesDeep())
		default:
			return cty.NilVal, fmt.Errorf("the attribute %q is missing, want %s", name, typeText(want))
		}
	}
	return cty.ObjectVal(vals), nil
}

func convertTuple(v cty.Value, ty cty.Type) (cty.Value, error) {
	if v.LengthInt() != ty.Length() {
		return cty.NilVal, fmt.Errorf("want %d elements, found %d", ty.Length(), v.LengthInt())
	}
	vals := v.AsValueSlice()
	for i := range vals {
		c, err := convertValue(vals[i], ty.TupleElementType(i))
		if err != nil {
			return cty.NilVal, inPart(fmt.Sprintf("[%d]", i), err)
		}
		vals[i] = c
	}
	return cty.TupleVal(vals), nil
}

// collectionFunc is tolist, toset or tomap.
func collectionFunc(ty cty.Type) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "v", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			out, err := convertValue(args[0], ty)
			if err != nil {
				return cty.NilType, function.NewArgError(0, err)
			}
			return out.Type(), nil
		},
		Impl: func(args []cty.Value, ret cty.Type) (cty.Value, error) {
			return convertValue(args[0], ret)
		},
	})
}

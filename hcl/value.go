package hcl

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

const (
	maxElements = 1_000_000 // in one value, nested ones included
	maxText     = 16 << 20  // bytes of strings in one value
)

// decodeJSON makes a cty value of JSON text, as what ty says: an output typed
// map(string) is a map, not an object. Where ty is any, or the value does not
// fit it, the shape follows the value. cty/json is not used: it is about ten
// times slower.
func decodeJSON(b []byte, ty cty.Type) (cty.Value, error) {
	d := decoder{b: b}
	return d.value(ty)
}

type decoder struct {
	b     []byte
	p     int
	count int
	depth int
}

func (d *decoder) value(ty cty.Type) (cty.Value, error) {
	if d.count++; d.count > maxElements {
		return cty.NilVal, fmt.Errorf("the value has more than %d elements; hand it on with a bare reference, or compute with it in a step", maxElements)
	}
	d.p = skipSpace(d.b, d.p)
	if d.p >= len(d.b) {
		return cty.NilVal, errors.New("unexpected end of JSON")
	}
	if d.depth > sdk.MaxDepth {
		return cty.NilVal, fmt.Errorf("the value nests deeper than %d levels", sdk.MaxDepth)
	}
	from := d.p
	switch d.b[from] {
	case '{':
		return d.object(ty)
	case '[':
		return d.array(ty)
	case '"':
		d.p = skipString(d.b, from)
		return d.as(cty.StringVal(unquote(d.b[from:d.p])), ty)
	}
	d.p = skipValue(d.b, from)
	switch d.b[from] {
	case 't':
		return d.as(cty.True, ty)
	case 'f':
		return d.as(cty.False, ty)
	case 'n':
		return cty.NullVal(ty.WithoutOptionalAttributesDeep()), nil
	}
	n, err := number(string(d.b[from:d.p]))
	if err != nil {
		return cty.NilVal, err
	}
	return d.as(n, ty)
}

func (d *decoder) as(v cty.Value, ty cty.Type) (cty.Value, error) {
	// Converting to a collection of any would unify its elements, and make the
	// string "1" of the number 1.
	if ty.HasDynamicTypes() || ty.Equals(v.Type()) {
		return v, nil
	}
	if c, err := convertValue(v, ty); err == nil {
		return c, nil
	}
	return v, nil
}

func (d *decoder) object(ty cty.Type) (cty.Value, error) {
	d.depth++
	defer func() { d.depth-- }()
	vals := map[string]cty.Value{}
	for d.p++; ; d.p++ {
		d.p = skipSpace(d.b, d.p)
		if d.p >= len(d.b) || d.b[d.p] != '"' {
			break
		}
		end := skipString(d.b, d.p)
		key := cty.NormalizeString(unquote(d.b[d.p:end]))
		d.p = skipSpace(d.b, end) + 1
		elem := cty.DynamicPseudoType
		switch {
		case ty.IsMapType():
			elem = ty.ElementType()
		case ty.IsObjectType() && ty.HasAttribute(key):
			elem = ty.AttributeType(key)
		}
		v, err := d.value(elem)
		if err != nil {
			return cty.NilVal, err
		}
		vals[key] = v
		if d.p = skipSpace(d.b, d.p); d.p >= len(d.b) || d.b[d.p] != ',' {
			break
		}
	}
	d.p = min(d.p+1, len(d.b))
	if ty.IsMapType() && len(vals) > 0 && uniform(vals) {
		return cty.MapVal(vals), nil
	}
	if ty.IsMapType() && len(vals) == 0 {
		return cty.MapValEmpty(ty.ElementType().WithoutOptionalAttributesDeep()), nil
	}
	return d.as(cty.ObjectVal(vals), ty)
}

func (d *decoder) array(ty cty.Type) (cty.Value, error) {
	d.depth++
	defer func() { d.depth-- }()
	var vals []cty.Value
	for d.p++; ; d.p++ {
		d.p = skipSpace(d.b, d.p)
		if d.p >= len(d.b) || d.b[d.p] == ']' {
			break
		}
		elem := cty.DynamicPseudoType
		switch {
		case ty.IsListType(), ty.IsSetType():
			elem = ty.ElementType()
		case ty.IsTupleType() && len(vals) < ty.Length():
			elem = ty.TupleElementType(len(vals))
		}
		v, err := d.value(elem)
		if err != nil {
			return cty.NilVal, err
		}
		vals = append(vals, v)
		if d.p = skipSpace(d.b, d.p); d.p >= len(d.b) || d.b[d.p] != ',' {
			break
		}
	}
	d.p = min(d.p+1, len(d.b))
	return d.as(cty.TupleVal(vals), ty)
}

func uniform(vals map[string]cty.Value) bool {
	var ty cty.Type
	for _, v := range vals {
		if ty == cty.NilType {
			ty = v.Type()
		} else if !ty.Equals(v.Type()) {
			return false
		}
	}
	return true
}

// number reads a decimal. It keeps every digit (512 bits), but refuses what
// could only be written out as a text of megabytes, or takes minutes to read, with
// a rangeError.
func number(s string) (cty.Value, error) {
	if len(s) < 18 {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return cty.NumberIntVal(n), nil
		}
	}
	short := s
	if len(short) > 40 {
		short = strings.ToValidUTF8(short[:40], "") + "…"
	}
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return cty.NilVal, fmt.Errorf("%s is not a number", short)
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > 5 || len(s) > maxDigits {
		return cty.NilVal, rangeError("the number " + short + " is out of range")
	}
	v, err := cty.ParseNumberVal(s)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s is not a number", short)
	}
	return v, checkNumber(v)
}

const (
	maxDigits   = 6_000  // reading takes time that grows with their square
	maxExponent = 1024   // 2^1024 is 1.8e308
	minExponent = -16384 // written out, about 5,000 digits
)

// rangeError is about a number that is none of ours, though it is one.
type rangeError string

func (e rangeError) Error() string { return string(e) }

func checkNumber(v cty.Value) error {
	f := v.AsBigFloat()
	if f.IsInf() {
		return rangeError("a number is infinite")
	}
	switch e := f.MantExp(nil); {
	case e > maxExponent:
		return rangeError("a number is larger than 1.8e308")
	case e < minExponent:
		return rangeError("a number is closer to zero than 1e-4932")
	}
	return nil
}

// appendNumber writes a number with all its digits, in the shortest form that
// gives the same number again.
func appendNumber(dst []byte, f *big.Float) []byte {
	if n, acc := f.Int64(); acc == big.Exact {
		return strconv.AppendInt(dst, n, 10)
	}
	// big.Float's own search for the shortest form is slow; most decimals
	// are those of a float64.
	if f64, _ := f.Float64(); f64 != 0 {
		at := len(dst)
		dst = strconv.AppendFloat(dst, f64, 'f', -1, 64)
		if back, _, err := big.ParseFloat(string(dst[at:]), 10, f.Prec(), big.ToNearestEven); err == nil && back.Cmp(f) == 0 {
			return dst
		}
		dst = dst[:at]
	}
	return f.Append(dst, 'f', -1)
}

var errTooLarge = fmt.Errorf("the value is larger than %d MiB as JSON; keep large data in the outputs of steps and hand it on with bare references", maxText>>20)

// appendJSON writes a wholly known value. Keys are sorted, nothing but what
// JSON demands is escaped.
func appendJSON(dst []byte, v cty.Value) ([]byte, error) {
	e := encoder{dst: dst, limit: len(dst) + maxText}
	err := e.value(v)
	return e.dst, err
}

type encoder struct {
	dst   []byte
	limit int
}

func (e *encoder) value(v cty.Value) error {
	if len(e.dst) > e.limit {
		return errTooLarge
	}
	ty := v.Type()
	switch {
	case !v.IsKnown():
		return errors.New("the value is not known")
	case v.IsNull():
		e.dst = append(e.dst, "null"...)
	case ty == cty.String:
		e.dst = appendString(e.dst, v.AsString())
	case ty == cty.Number:
		if err := checkNumber(v); err != nil {
			return err
		}
		e.dst = appendNumber(e.dst, v.AsBigFloat())
	case ty == cty.Bool:
		e.dst = strconv.AppendBool(e.dst, v.True())
	case ty.IsListType(), ty.IsSetType(), ty.IsTupleType():
		sep := byte('[')
		for it := v.ElementIterator(); it.Next(); sep = ',' {
			e.dst = append(e.dst, sep)
			_, elem := it.Element()
			if err := e.value(elem); err != nil {
				return err
			}
		}
		if sep == '[' {
			e.dst = append(e.dst, sep)
		}
		e.dst = append(e.dst, ']')
	case ty.IsMapType(), ty.IsObjectType():
		sep := byte('{')
		for it := v.ElementIterator(); it.Next(); sep = ',' { // in order of keys
			e.dst = append(e.dst, sep)
			k, elem := it.Element()
			e.dst = append(appendString(e.dst, k.AsString()), ':')
			if err := e.value(elem); err != nil {
				return err
			}
		}
		if sep == '{' {
			e.dst = append(e.dst, sep)
		}
		e.dst = append(e.dst, '}')
	default:
		return fmt.Errorf("a value of type %s has no JSON form", ty.FriendlyName())
	}
	return nil
}

// appendCanonical writes JSON text that CheckJSON accepts so that equal values
// have equal bytes: keys sorted, numbers by value, strings as they are.
func appendCanonical(dst, b []byte) []byte {
	return canonicalJSON(dst, b, 0)
}

func canonicalJSON(dst, b []byte, depth int) []byte {
	b = bytes.TrimSpace(b)
	if depth > sdk.MaxDepth { // a value of the flow's own making, which no step can receive
		return append(dst, b...)
	}
	switch kindOf(b) {
	case "object":
		all := sortedMembers(b, len(b))
		dst = append(dst, '{')
		for i, m := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonicalJSON(append(appendString(dst, m.name), ':'), m.value, depth+1)
		}
		return append(dst, '}')
	case "list":
		sep := byte('[')
		elements(b, func(v []byte) bool {
			dst = canonicalJSON(append(dst, sep), v, depth+1)
			sep = ','
			return true
		})
		if sep == '[' {
			dst = append(dst, sep)
		}
		return append(dst, ']')
	case "string":
		return appendString(dst, unquote(b))
	case "number":
		// What has more digits than a number keeps is equal only to itself.
		if n, err := number(string(b)); err == nil && len(b) <= exactDigits {
			return appendNumber(dst, n.AsBigFloat())
		}
	}
	return append(dst, b...)
}

const exactDigits = 100 // of 512 bits' 154

const hexDigits = "0123456789abcdef"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// measure counts the elements of v and the bytes of its strings, and gives up
// once either is over its limit. Values share memory, so that a small program
// can make one that is too large to write out; what is measured is what it
// would be, written out.
func measure(v cty.Value) (elements, text int) {
	m := meter{}
	m.value(v)
	return m.elements, m.text
}

type meter struct{ elements, text int }

func (m *meter) value(v cty.Value) {
	if m.elements++; m.elements > maxElements || m.text > maxText {
		return
	}
	if v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return
	}
	switch ty := v.Type(); {
	case ty == cty.String:
		m.text += len(v.AsString())
	case ty.IsPrimitiveType() || ty.IsCapsuleType():
	default:
		for it := v.ElementIterator(); it.Next() && m.elements <= maxElements && m.text <= maxText; {
			_, elem := it.Element()
			m.value(elem)
		}
	}
}

// preview is v as JSON, cut for a message.
func preview(v cty.Value) string {
	if n, text := measure(v); n > 10_000 || text > 1<<20 {
		return fmt.Sprintf("a large %s", v.Type().FriendlyName())
	}
	if !v.IsWhollyKnown() {
		return "(not known yet)"
	}
	b, err := appendJSON(nil, v)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return shorten(b, 80)
}

// shorten cuts text between characters.
func shorten(b []byte, n int) string {
	if len(b) <= n {
		return string(b)
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:n]) + "…"
}

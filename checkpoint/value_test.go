package checkpoint_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

func valueDigest(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) sdk.Digest {
	t.Helper()
	d, err := checkpoint.ValueDigest([]byte(text))
	if err != nil {
		t.Fatalf("ValueDigest(%s): %v", text, err)
	}
	return d
}

// TestValueDigest: the texts of a line are spellings of one value, and no two
// lines are equal.
func TestValueDigest(t *testing.T) {
	t.Parallel()
	lines := [][]string{
		{`null`}, {`{"a":null}`}, {`{}`, ` { } `}, {`[]`, "[\n]"}, {`[null]`}, {`""`}, {`"null"`}, {`false`}, {`"false"`}, {`true`},
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1E+1`, `1.000`, `100e-2`},
		{`"1"`, `"\u0031"`}, {`"1.0"`}, {`0`, `-0`, `0.0`, `-0e9`, `0e-99999999999999999999`},
		{`-1`}, {`10`, `1e1`, `1E+01`}, {`0.1`, `1e-1`}, {`0.10000000000000001`},
		{`9007199254740992`}, {`9007199254740993`}, {`1e400`}, {`1e401`, `10e400`},
		{`1e99999999999999999999`, `10e99999999999999999998`}, {`1e-99999999999999999999`},
		{`{"a":"1"}`}, {`{"x":{"a":"1"}}`}, {`{"a":1}`}, {`{"a":true}`}, {`[1]`}, {`[[1]]`},
		{`["ab","c"]`}, {`["a","bc"]`}, {`["abc"]`}, {`["c","ab"]`}, {`{"ab":"c"}`}, {`{"a":"bc"}`},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{ "\u0062" : 2.0, "a" : 1e0 }`}, {`{"a":2,"b":1}`}, {`{"a":{"b":2}}`},
		{`"é"`, `"\u00e9"`, `"\u00E9"`}, {"\"e\u0301\""}, // composed and not: other bytes
		{`"😀"`, `"\ud83d\ude00"`}, {`"/"`, `"\/"`}, {`"\n"`, `"\u000a"`}, {`"\\n"`}, {`"\u0000"`},
	}
	seen := map[sdk.Digest]string{}
	for _, line := range lines {
		first := valueDigest(t, line[0])
		for _, text := range line[1:] {
			if valueDigest(t, text) != first {
				t.Errorf("%s and %s differ", line[0], text)
			}
		}
		if other, dup := seen[first]; dup {
			t.Errorf("%s and %s are equal", other, line[0])
		}
		seen[first] = line[0]
	}
	for _, bad := range []string{``, `{"a":1,"a":1}`, `"\ud800"`, `01`, `1 2`} {
		if d, err := checkpoint.ValueDigest([]byte(bad)); err == nil || !d.IsZero() {
			t.Errorf("ValueDigest(%s) = %s, %v", bad, d, err)
		}
	}
}

// TestValueDigestPinned: the digests are stored, so they are a format.
func TestValueDigestPinned(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"title":"Zwölf","n":[1.50,null,true],"empty":{}}`: "sha256:f34e93c4d9b5853a",
	} {
		if got := valueDigest(t, text).String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s has digest %s, stored was %s..", text, got, want)
		}
	}
}

func TestObjectDigest(t *testing.T) {
	t.Parallel()
	members := map[string]sdk.Digest{"a": valueDigest(t, `1`), "b": valueDigest(t, `[2]`)}
	if checkpoint.ObjectDigest(members) != valueDigest(t, `{"b":[2],"a":1}`) {
		t.Error("an object of digests and the object differ")
	}
	if checkpoint.ObjectDigest(nil) != valueDigest(t, `{}`) {
		t.Error("an object of no digests and {} differ")
	}
}

// Values as the property tests draw them: nil, bool, number, string, []any,
// map[string]any.
type number struct {
	digits int64
	exp    int
}

// normal makes equal numbers equal structs.
func (n number) normal() number {
	if n.digits == 0 {
		return number{}
	}
	for n.digits%10 == 0 {
		n.digits, n.exp = n.digits/10, n.exp+1
	}
	return n
}

// Generators are made anew by each test: rapid's are not for two tests at once.
func numbers() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		return number{rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20)).Draw(t, "digits"), rapid.IntRange(-30, 30).Draw(t, "exp")}.normal()
	})
}

// names are few, so that patterns and equal keys meet.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "ab", "request_id", "a.b", "", "*", "é", "\"\\", "0"}), rapid.String())
}

func scalars() *rapid.Generator[any] {
	return rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), numbers(), rapid.Map(names(), func(s string) any { return s }))
}

func values(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return scalars()
	}
	return rapid.OneOf(scalars(),
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(names(), values(depth-1), 0, 4), func(v map[string]any) any { return v }))
}

// spell writes a value as JSON in one of many ways.
func spell(t *rapid.T, v any) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	pad := func(s string) string { return space.Draw(t, "space") + s + space.Draw(t, "space") }
	switch v := v.(type) {
	case nil:
		return pad("null")
	case bool:
		return pad(strconv.FormatBool(v))
	case number:
		return pad(spellNumber(t, v))
	case string:
		return pad(spellString(t, v))
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = spell(t, v[i])
		}
		return pad("[" + strings.Join(parts, ",") + pad("") + "]")
	case map[string]any:
		var keys []string
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var parts []string
		for _, k := range rapid.Permutation(keys).Draw(t, "order") {
			parts = append(parts, pad(spellString(t, k))+":"+spell(t, v[k]))
		}
		return pad("{" + strings.Join(parts, ",") + pad("") + "}")
	}
	panic(fmt.Sprintf("no spelling of %T", v))
}

func spellNumber(t *rapid.T, n number) string {
	s := strconv.FormatInt(n.digits, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	exp := n.exp
	if zeros := rapid.IntRange(0, 3).Draw(t, "zeros"); n.digits != 0 {
		s, exp = s+strings.Repeat("0", zeros), exp-zeros
	}
	if point := rapid.IntRange(0, len(s)).Draw(t, "point"); point > 0 && point < len(s) {
		s, exp = s[:point]+"."+s[point:], exp+len(s)-point
	} else if point == 0 {
		s, exp = "0."+s, exp+len(s)
	}
	if exp == 0 && rapid.Bool().Draw(t, "bare") {
		return sign + s
	}
	e := rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e") + strconv.Itoa(exp)
	if exp >= 0 && rapid.Bool().Draw(t, "plus") {
		e = e[:1] + "+" + e[1:]
	}
	return sign + s + e
}

func spellString(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r > 0xffff && rapid.Bool().Draw(t, "escape"):
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04X`, hi, lo)
		case r < 0x20, r <= 0xffff && rapid.Bool().Draw(t, "escape"):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '"', r == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TestValueDigestProperty: equal if and only if the values are.
func TestValueDigestProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		a, b := spell(t, v), spell(t, v)
		if valueDigest(t, a) != valueDigest(t, b) {
			t.Fatalf("one value, two digests:\n%s\n%s", a, b)
		}
		other := values(3).Draw(t, "other")
		c := spell(t, other)
		if equal := valueDigest(t, a) == valueDigest(t, c); equal != reflect.DeepEqual(v, other) {
			t.Fatalf("digests equal: %v\n%s\n%s", equal, a, c)
		}
	})
}

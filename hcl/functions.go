package hcl

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are the functions of the language but for try, can and convert,
// which are nodes of their own. It is written once, here.
var functions = map[string]*fn{
	"abs": {impl: stdlib.AbsoluteFunc}, "ceil": {impl: stdlib.CeilFunc}, "floor": {impl: stdlib.FloorFunc},
	"log": {impl: stdlib.LogFunc}, "max": {impl: stdlib.MaxFunc}, "min": {impl: stdlib.MinFunc},
	"parseint": {impl: stdlib.ParseIntFunc, guard: guardParseInt}, "pow": {impl: stdlib.PowFunc}, "signum": {impl: stdlib.SignumFunc},
	"sum": {impl: sumFunc, whole: true},

	"chomp": {impl: stdlib.ChompFunc}, "format": {impl: stdlib.FormatFunc, guard: guardFormat},
	"formatlist": {impl: stdlib.FormatListFunc, guard: guardFormat}, "indent": {impl: stdlib.IndentFunc, guard: guardIndent},
	"join": {impl: stdlib.JoinFunc, guard: guardJoin}, "lower": {impl: stdlib.LowerFunc}, "upper": {impl: stdlib.UpperFunc},
	"regex": {impl: stdlib.RegexFunc}, "regexall": {impl: stdlib.RegexAllFunc},
	"replace": {impl: replaceFunc, guard: guardReplace}, "split": {impl: stdlib.SplitFunc}, "strrev": {impl: stdlib.ReverseFunc},
	"substr": {impl: stdlib.SubstrFunc}, "title": {impl: stdlib.TitleFunc}, "trim": {impl: stdlib.TrimFunc},
	"trimprefix": {impl: stdlib.TrimPrefixFunc}, "trimspace": {impl: stdlib.TrimSpaceFunc}, "trimsuffix": {impl: stdlib.TrimSuffixFunc},
	"startswith": {impl: textTest("prefix", strings.HasPrefix)}, "endswith": {impl: textTest("suffix", strings.HasSuffix)},
	"strcontains": {impl: textTest("substr", strings.Contains)},

	"alltrue": {impl: allTrueFunc, whole: true}, "anytrue": {impl: anyTrueFunc, whole: true}, "chunklist": {impl: stdlib.ChunklistFunc},
	"coalesce": {impl: coalesceFunc, quick: true}, "coalescelist": {impl: stdlib.CoalesceListFunc}, "compact": {impl: stdlib.CompactFunc},
	"concat": {impl: stdlib.ConcatFunc}, "contains": {impl: stdlib.ContainsFunc}, "distinct": {impl: distinctFunc, whole: true},
	"element": {impl: stdlib.ElementFunc, quick: true}, "flatten": {impl: stdlib.FlattenFunc}, "index": {impl: stdlib.IndexFunc},
	"keys": {impl: stdlib.KeysFunc}, "length": {impl: lengthFunc, quick: true}, "lookup": {impl: stdlib.LookupFunc, quick: true},
	"merge": {impl: stdlib.MergeFunc}, "one": {impl: oneFunc, quick: true}, "range": {impl: stdlib.RangeFunc, guard: guardRange},
	"reverse": {impl: stdlib.ReverseListFunc}, "setintersection": {impl: stdlib.SetIntersectionFunc},
	"setproduct": {impl: stdlib.SetProductFunc, guard: guardProduct}, "setsubtract": {impl: stdlib.SetSubtractFunc},
	"setsymmetricdifference": {impl: stdlib.SetSymmetricDifferenceFunc}, "setunion": {impl: stdlib.SetUnionFunc},
	"slice": {impl: stdlib.SliceFunc}, "sort": {impl: stdlib.SortFunc}, "values": {impl: stdlib.ValuesFunc},
	"zipmap": {impl: stdlib.ZipmapFunc},

	"sensitive": {impl: sameFunc, quick: true}, "nonsensitive": {impl: sameFunc, quick: true},

	"tobool": {impl: stdlib.MakeToFunc(cty.Bool)}, "tolist": {impl: collectionFunc(cty.List(cty.DynamicPseudoType))},
	"tomap": {impl: collectionFunc(cty.Map(cty.DynamicPseudoType))}, "tonumber": {impl: stdlib.MakeToFunc(cty.Number)},
	"toset": {impl: collectionFunc(cty.Set(cty.DynamicPseudoType))}, "tostring": {impl: stdlib.MakeToFunc(cty.String)},

	"base64decode": {impl: base64DecodeFunc}, "base64encode": {impl: text1(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	"csvdecode": {impl: stdlib.CSVDecodeFunc, guard: guardCSV}, "jsondecode": {impl: jsonDecodeFunc}, "jsonencode": {impl: jsonEncodeFunc, whole: true},
	"urldecode": {impl: urlDecodeFunc}, "urlencode": {impl: text1(url.QueryEscape)}, "uuidv5": {impl: uuidV5Func},
	"yamldecode": {impl: yamlDecodeFunc, guard: guardYAML, cost: costYAML}, "yamlencode": {impl: yaml.YAMLEncodeFunc, whole: true},
	"md5":    {impl: text1(func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha1":   {impl: text1(func(s string) string { h := sha1.Sum([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha256": {impl: text1(func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) })},
	"sha512": {impl: text1(func(s string) string { h := sha512.Sum512([]byte(s)); return hex.EncodeToString(h[:]) })},

	"formatdate": {impl: stdlib.FormatDateFunc, guard: guardFormatDate}, "timeadd": {impl: stdlib.TimeAddFunc}, "timecmp": {impl: timeCmpFunc},
	"timestamp": {impl: timestampFunc, with: timestamp},

	"file": {impl: pathFunc(cty.String), file: true, with: fileCall}, "fileexists": {impl: pathFunc(cty.Bool), file: true, with: fileCall},
	"fileblob":   {impl: pathFunc(blobType), file: true, with: fileCall},
	"filesha256": {impl: pathFunc(cty.String), file: true, with: fileCall}, "fileset": {impl: filesetFunc, file: true, with: fileCall},
	"templatefile": {impl: templateFunc, file: true, template: true},
}

func text1(f func(string) string) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(f(args[0].AsString())), nil
		},
	})
}

func textTest(what string, f func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: what, Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(f(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// sameFunc returns its argument. What sensitive and nonsensitive mean is read
// from the text; see marked.
var sameFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true}},
	Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
})

// lengthFunc also counts the characters of a string, which cty's refuses.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true, AllowUnknown: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		ty := args[0].Type()
		if ty == cty.String || ty == cty.DynamicPseudoType || ty.IsCollectionType() || ty.IsTupleType() || ty.IsObjectType() {
			return cty.Number, nil
		}
		return cty.Number, function.NewArgErrorf(0, "a string, list, set, map, tuple or object is required, this is %s", article(ty.FriendlyName()))
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v := args[0]
		switch ty := v.Type(); {
		case ty.IsTupleType():
			return cty.NumberIntVal(int64(ty.Length())), nil
		case ty.IsObjectType():
			return cty.NumberIntVal(int64(len(ty.AttributeTypes()))), nil
		case !v.IsKnown():
			return cty.UnknownVal(cty.Number), nil
		case ty == cty.String:
			return stdlib.Strlen(v)
		}
		return v.Length(), nil
	},
})

// coalesceFunc returns the first argument that is neither null nor "", as
// Terraform's does.
var coalesceFunc = function.New(&function.Spec{
	VarParam: &function.Parameter{Name: "values", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true},
	Type:     function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		for _, v := range args {
			if !v.IsKnown() {
				return cty.DynamicVal, nil
			}
			if !v.IsNull() && (v.Type() != cty.String || v.AsString() != "") {
				return v, nil
			}
		}
		return cty.NilVal, errors.New("every argument is null or an empty string")
	},
})

var oneFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v := args[0]
		if ty := v.Type(); !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is required, this is %s", article(ty.FriendlyName()))
		}
		switch v.LengthInt() {
		case 0:
			return cty.NullVal(cty.DynamicPseudoType), nil
		case 1:
			it := v.ElementIterator()
			it.Next()
			_, elem := it.Element()
			return elem, nil
		}
		return cty.NilVal, function.NewArgErrorf(0, "the list must have no or one element, it has %d", v.LengthInt())
	},
})

// longDigits finds a text among values that is taken for a number without end.
func longDigits(vs []cty.Value) (found string) {
	for _, v := range vs {
		_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
			if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
				if s := v.AsString(); len(s) > maxDigits && strings.Trim(s, "0123456789+-.eE") == "" {
					found = s
				}
			}
			return found == "", nil
		})
	}
	return found
}

var sumFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "numbers", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if !args[0].CanIterateElements() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is required, this is %s", article(args[0].Type().FriendlyName()))
		}
		total := cty.Zero
		for it := args[0].ElementIterator(); it.Next(); {
			_, v := it.Element()
			n, err := convertValue(v, cty.Number)
			if err != nil || n.IsNull() {
				return cty.NilVal, function.NewArgErrorf(0, "each element must be a number, this one is %s", describe(v))
			}
			total = total.Add(n)
		}
		return total, nil
	},
})

var (
	allTrueFunc = boolsFunc(true)
	anyTrueFunc = boolsFunc(false)
)

// boolsFunc tells whether all elements are true, or any is: it answers all as
// soon as one element is not all.
func boolsFunc(all bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if !args[0].CanIterateElements() {
				return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is required, this is %s", article(args[0].Type().FriendlyName()))
			}
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				if v.Type() != cty.Bool && !v.IsNull() {
					return cty.NilVal, function.NewArgErrorf(0, "each element must be true or false, this one is %s", describe(v))
				}
				if is := !v.IsNull() && v.True(); is != all {
					return cty.BoolVal(!all), nil
				}
			}
			return cty.BoolVal(all), nil
		},
	})
}

// distinctFunc compares by digest; cty's compares every pair.
var distinctFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v := args[0]
		ty := v.Type()
		if !ty.IsListType() && !ty.IsSetType() && !ty.IsTupleType() {
			return cty.NilVal, function.NewArgErrorf(0, "a list, set or tuple is required, this is %s", article(ty.FriendlyName()))
		}
		seen := map[sdk.Digest]bool{}
		var out []cty.Value
		for it := v.ElementIterator(); it.Next(); {
			_, elem := it.Element()
			b, err := appendJSON(nil, elem)
			if err != nil {
				return cty.NilVal, err
			}
			if d := sdk.Sum(b); !seen[d] {
				seen[d] = true
				out = append(out, elem)
			}
		}
		if ty.IsTupleType() {
			return cty.TupleVal(out), nil
		}
		if len(out) == 0 {
			return cty.ListValEmpty(ty.ElementType()), nil
		}
		return cty.ListVal(out), nil
	},
})

// replaceFunc takes a pattern between slashes, as Terraform's does.
var replaceFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: "substr", Type: cty.String}, {Name: "replace", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		s, sub, with := args[0].AsString(), args[1].AsString(), args[2].AsString()
		if len(sub) > 1 && sub[0] == '/' && sub[len(sub)-1] == '/' {
			re, err := regexp.Compile(sub[1 : len(sub)-1])
			if err != nil {
				return cty.NilVal, function.NewArgError(1, err)
			}
			return cty.StringVal(re.ReplaceAllString(s, with)), nil
		}
		return cty.StringVal(strings.ReplaceAll(s, sub, with)), nil
	},
})

var base64DecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		b, err := base64.StdEncoding.DecodeString(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "not base64: %s", err)
		}
		if !utf8.Valid(b) {
			return cty.NilVal, function.NewArgErrorf(0, "the decoded bytes are not UTF-8 text; pass the base64 on and decode it in a step")
		}
		return cty.StringVal(string(b)), nil
	},
})

var urlDecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		s, err := url.QueryUnescape(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "not URL-encoded: %s", err)
		}
		if !utf8.ValidString(s) {
			return cty.NilVal, function.NewArgErrorf(0, "the decoded bytes are not UTF-8 text")
		}
		return cty.StringVal(s), nil
	},
})

// uuidNamespaces are those of RFC 9562, appendix A.
var uuidNamespaces = map[string]string{
	"dns": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "url": "6ba7b811-9dad-11d1-80b4-00c04fd430c8",
	"oid": "6ba7b812-9dad-11d1-80b4-00c04fd430c8", "x500": "6ba7b814-9dad-11d1-80b4-00c04fd430c8",
}

var uuidRE = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// uuidV5Func makes the UUID of a name (RFC 9562, 5.5): of equal names always the
// same. There is no function that makes a random one.
var uuidV5Func = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "namespace", Type: cty.String}, {Name: "name", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		space := args[0].AsString()
		if known, ok := uuidNamespaces[space]; ok {
			space = known
		}
		if space = strings.ToLower(space); !uuidRE.MatchString(space) {
			return cty.NilVal, function.NewArgErrorf(0, "%s is neither dns, url, oid or x500 nor a UUID", preview(args[0]))
		}
		b, _ := hex.DecodeString(strings.ReplaceAll(space, "-", "")) // the pattern has judged it
		sum := sha1.Sum(append(b, args[1].AsString()...))
		sum[6], sum[8] = sum[6]&0x0f|0x50, sum[8]&0x3f|0x80
		return cty.StringVal(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])), nil
	},
})

var jsonEncodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		b, err := appendJSON(nil, args[0])
		return cty.StringVal(string(b)), err
	},
})

var jsonDecodeFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "str", Type: cty.String}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		b := []byte(args[0].AsString())
		if err := sdk.CheckJSON(b); err != nil {
			return cty.NilVal, function.NewArgError(0, err)
		}
		return decodeJSON(b, cty.DynamicPseudoType)
	},
})

var timestampFunc = function.New(&function.Spec{Type: function.StaticReturnType(cty.String)})

func timestamp(f *frame, _ *callExpr, _ []cty.Value) (cty.Value, error) {
	if f.mode == checking {
		return cty.UnknownVal(cty.String), nil
	}
	return cty.StringVal(f.e.startedAt()), nil
}

var timeCmpFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "a", Type: cty.String}, {Name: "b", Type: cty.String}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		var t [2]time.Time
		for i := range t {
			var err error
			if t[i], err = time.Parse(time.RFC3339, args[i].AsString()); err != nil {
				return cty.NilVal, function.NewArgErrorf(i, "%s is not a time such as 2006-01-02T15:04:05Z", preview(args[i]))
			}
		}
		return cty.NumberIntVal(int64(t[0].Compare(t[1]))), nil
	},
})

var widthRE = regexp.MustCompile(`[0-9]{5,}`)

// guardFormat bounds the text that format and formatlist make: no width of
// more than four digits, and not more than every verb with the longest
// argument.
func guardFormat(args []cty.Value) error {
	if args[0].Type() != cty.String || args[0].IsNull() {
		return nil
	}
	spec := args[0].AsString()
	if w := widthRE.FindString(spec); w != "" {
		return function.NewArgErrorf(0, "a width or precision of %s is too large; the limit is 9999", shorten([]byte(w), 20))
	}
	longest, lists := 32, 1
	for _, a := range args[1:] {
		_, text := measure(a)
		longest = max(longest, text)
		if a.IsKnown() && !a.IsNull() && !a.Type().IsPrimitiveType() {
			lists = max(lists, a.LengthInt())
		}
	}
	if digits := longDigits(args[1:]); digits != "" {
		_, err := number(digits)
		return err
	}
	verbs := strings.Count(spec, "%")
	wide := 0
	if regexp.MustCompile(`[0-9]{3,}`).MatchString(spec) {
		wide = 9999
	}
	if total := len(spec) + verbs*(longest+wide); total > maxText || total*lists > 4*maxText {
		return fmt.Errorf("the text could have more than %d MiB", maxText>>20)
	}
	return nil
}

func guardIndent(args []cty.Value) error {
	n, _ := args[0].AsBigFloat().Int64()
	return atMost((strings.Count(args[1].AsString(), "\n") + 1) * int(max(0, min(n, maxText))))
}

func guardJoin(args []cty.Value) error {
	_, sep := measure(args[0])
	total := 0
	for _, a := range args[1:] {
		n, text := measure(a)
		total += text + n*sep
	}
	return atMost(total)
}

func guardReplace(args []cty.Value) error {
	s, sub, with := args[0].AsString(), args[1].AsString(), args[2].AsString()
	if len(sub) > 1 && sub[0] == '/' && sub[len(sub)-1] == '/' {
		// $1 can stand for the whole match, so each match can give back
		// what it took, once per reference.
		if strings.Count(with, "$") > 0 {
			return atMost(len(s)*(strings.Count(with, "$")+1) + len(s)*len(with))
		}
		return atMost((len(s) + 1) * len(with))
	}
	return atMost(len(s) + strings.Count(s, sub)*len(with))
}

// maxProduct bounds the elements of setproduct's arguments together: cty compares
// the types of every pair of them.
const maxProduct = 2000

func guardProduct(args []cty.Value) error {
	n, all := 1, 0
	for _, a := range args {
		if a.IsNull() || !a.CanIterateElements() {
			return nil
		}
		if all += a.LengthInt(); all > maxProduct {
			return fmt.Errorf("the sets have more than %d elements together", maxProduct)
		}
		if n *= max(a.LengthInt(), 1); n > maxElements/max(len(args), 1) {
			return fmt.Errorf("the product has more than %d elements", maxElements/max(len(args), 1))
		}
	}
	return nil
}

// maxRange is how many numbers cty's range gives.
const maxRange = 1024

// guardRange refuses what never ends or gives too many numbers, since cty advises a
// smaller step for both.
func guardRange(args []cty.Value) error {
	n := make([]*big.Float, len(args))
	for i, a := range args {
		if a.IsNull() || a.AsBigFloat().IsInf() {
			return nil // cty says what is wrong
		}
		n[i] = a.AsBigFloat()
	}
	start, end, step := new(big.Float), n[0], big.NewFloat(1)
	if len(n) > 1 {
		start, end = n[0], n[1]
	}
	if end.Cmp(start) < 0 {
		step = big.NewFloat(-1)
	}
	if len(n) > 2 {
		if step = n[2]; step.Sign() == 0 {
			return function.NewArgErrorf(2, "a step of 0 never reaches the end")
		}
	}
	count := new(big.Float).Sub(end, start)
	if count.Quo(count, step).Cmp(big.NewFloat(maxRange)) > 0 {
		return fmt.Errorf("it would give more than %d numbers; take a larger step, or concat ranges that each give fewer", maxRange)
	}
	return nil
}

// maxDateFormat bounds in bytes the format of formatdate; cty's scanner ends without a
// word at one of 64 KiB.
const maxDateFormat = 4096

func guardFormatDate(args []cty.Value) error {
	if f := args[0]; !f.IsNull() && len(f.AsString()) > maxDateFormat {
		return function.NewArgErrorf(0, "a format may have at most %d bytes, this one has %d", maxDateFormat, len(f.AsString()))
	}
	return nil
}

func guardCSV(args []cty.Value) error {
	s := args[0].AsString()
	header, _, _ := strings.Cut(s, "\n")
	if cells := strings.Count(s, "\n") * (strings.Count(header, ",") + 1); cells > maxElements {
		return fmt.Errorf("the table has more than %d cells", maxElements)
	}
	return nil
}

func guardParseInt(args []cty.Value) error {
	if s := args[0]; s.Type() == cty.String && !s.IsNull() && len(s.AsString()) > 1100 {
		return errors.New("the number is larger than 1.8e308")
	}
	return nil
}

func atMost(n int) error {
	if n > maxText || n < 0 {
		return fmt.Errorf("the text would have more than %d MiB", maxText>>20)
	}
	return nil
}

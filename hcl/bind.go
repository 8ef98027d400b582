package hcl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// EnvPrefix begins the names of environment variables that give values.
const EnvPrefix = "ENGINE_VAR_"

// BindOptions says where the values of variables come from. Later entries of a
// list win over earlier ones; Vars win over VarFiles, these over the automatic
// files in Dir, these over Environ, and these over defaults.
type BindOptions struct {
	// Vars are "name=value". The value "@file" stands for the text of that
	// file, "@@x" for the text "@x". The value of a variable of a primitive
	// type is the text itself, of any other type an HCL expression.
	Vars     []string
	VarFiles []string // *.hcl or *.json
	Environ  []string // as os.Environ gives it; only ENGINE_VAR_* is looked at
	Dir      string   // where *.auto.vars.hcl and *.auto.vars.hcl.json lie; "" for none
}

// Values are the values of a flow's variables: converted, complete, valid. They
// are immutable.
type Values struct {
	p    *program
	vals []cty.Value // by variable
	// raw is, for a variable that is a text, that text as it was given: cty
	// brings strings into normal form C, and a bare reference must not.
	raw []string
}

// JSON returns every variable's value, for the run record. Keys of objects are
// sorted, so equal values give equal bytes.
func (v *Values) JSON() map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(v.vals))
	for i := range v.vals {
		b, err := v.appendJSON(nil, i)
		if err != nil {
			panic("hcl: a bound value has no JSON form: " + err.Error()) // Bind has written it once
		}
		out[v.p.vars[i].name] = b
	}
	return out
}

func (v *Values) appendJSON(dst []byte, i int) ([]byte, error) {
	if val := v.vals[i]; val.Type() == cty.String && !val.IsNull() && v.raw[i] != "" {
		return appendString(dst, v.raw[i]), nil
	}
	return appendJSON(dst, v.vals[i])
}

// Bind gives values to the variables, converts them to their types and judges
// the validations. A name that no variable has is an error where a person wrote
// it, in Vars and in files, and ignored in Environ. Values is nil exactly when
// there are errors.
func (w *Workflow) Bind(o BindOptions) (*Values, Diagnostics) {
	b := &binder{p: w.impl, given: make([]given, len(w.impl.vars))}
	b.environ(o.Environ)
	if o.Dir != "" {
		b.auto(o.Dir)
	}
	for _, path := range o.VarFiles {
		b.file(path)
	}
	for _, v := range o.Vars {
		b.flag(v)
	}
	v := b.values()
	if !b.ds.HasErrors() {
		b.validate(v)
	}
	if b.ds.HasErrors() {
		return nil, b.ds.sorted()
	}
	return v, b.ds.sorted()
}

// plain is what may be said of a value of v.
func (v *variable) plain(detail string) string {
	if v.sensitive {
		return "what is wrong with it is not shown, because the variable is sensitive."
	}
	return detail
}

// hide takes what the diagnostics from one on say of a value away, if it is that
// of a sensitive variable.
func (b *binder) hide(name string, from int) {
	if i, ok := b.p.varIndex[normal(name)]; ok {
		for k := range b.ds[from:] {
			b.ds[from+k].Detail = capital(b.p.vars[i].plain(b.ds[from+k].Detail))
		}
	}
}

type binder struct {
	p     *program
	ds    Diagnostics
	given []given // by variable

	invalid []string // the variables whose validations do not hold
}

// fail notes that a value of a variable was given and cannot be used, which was told.
func (b *binder) fail(name string) {
	if i, ok := b.p.varIndex[normal(name)]; ok {
		b.given[i].failed = true
	}
}

// given is the strongest value so far of a variable, and where it was written.
type given struct {
	failed bool      // one was given and is no value
	v      cty.Value // NilVal when there is none
	raw    string    // the text of a string
	at     Range
}

func (b *binder) set(name string, v cty.Value, raw string, at Range) {
	if i, ok := b.p.varIndex[normal(name)]; ok {
		b.given[i] = given{v: v, raw: raw, at: at}
		return
	}
	hint := DidYouMean(name, b.p.varNames)
	if hint == "" {
		hint = fmt.Sprintf(" The workflow has %s.", listOf(slices.Sorted(slices.Values(b.p.varNames))))
	}
	b.ds.report(Error, "unknown-variable", at, "Unknown variable", "There is no variable %q in this workflow.%s", name, hint)
}

func (b *binder) environ(env []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		name, ok := strings.CutPrefix(name, EnvPrefix)
		if _, declared := b.p.varIndex[normal(name)]; !ok || !declared {
			continue
		}
		b.text(name, value, Range{File: EnvPrefix + name})
	}
}

func (b *binder) auto(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.ds.report(Error, "unreadable-file", Range{File: dir}, "Directory cannot be read", "%s.", sentence(readError(dir, err)))
		return
	}
	for _, e := range entries { // sorted by name
		if n := e.Name(); strings.HasSuffix(n, ".auto.vars.hcl") || strings.HasSuffix(n, ".auto.vars.hcl.json") {
			b.file(filepath.Join(dir, n))
		}
	}
}

func (b *binder) flag(arg string) {
	name, value, ok := strings.Cut(arg, "=")
	at := Range{File: "--var " + name}
	if !ok || name == "" {
		b.ds.report(Error, "invalid-var", Range{File: "--var " + arg}, "Value of a variable is incomplete", "Write --var NAME=VALUE.")
		return
	}
	if rest, ok := strings.CutPrefix(value, "@"); ok && !strings.HasPrefix(rest, "@") {
		text, err := readLimited(rest)
		if err != nil {
			b.fail(name)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.ds.report(Error, "unreadable-file", at, "File cannot be read", "There is no file %s. For a text that begins with @, double it: --var %s=@%s.", rest, name, value)
			return
		case err != nil:
			b.ds.report(Error, "unreadable-file", at, "File cannot be read", "%s.", sentence(err))
			return
		}
		value = string(text)
	} else if ok {
		value = rest
	}
	b.text(name, value, at)
}

// text sets a variable from text: the text itself for a primitive type or one
// that was not written, an expression for the others.
func (b *binder) text(name, value string, at Range) {
	if !utf8.ValidString(value) {
		b.fail(name)
		b.ds.report(Error, "invalid-utf8", at, "Value is not UTF-8 text", "The value of %q has bytes that are not UTF-8. Encode it, for example as base64.", name)
		return
	}
	i, ok := b.p.varIndex[normal(name)]
	if !ok || !b.p.vars[i].typed || b.p.vars[i].ty.IsPrimitiveType() {
		b.set(name, cty.StringVal(value), value, at)
		return
	}
	if raw := []byte(value); sdk.CheckJSON(raw) == nil { // its escapes are not HCL's, and it holds no templates
		if v, err := decodeJSON(raw, cty.DynamicPseudoType); err == nil {
			b.set(name, v, "", at)
			return
		}
	}
	ds := guardExpression(at.File, []byte(value))
	if !ds.HasErrors() {
		e, hd := hclsyntax.ParseExpression([]byte(value), at.File, hclv2.InitialPos)
		if ds = fromHCL(hd); !ds.HasErrors() {
			before := len(b.ds)
			if v, ok := b.constant(e); ok {
				b.set(name, v, "", at)
			} else {
				b.fail(name)
			}
			b.hide(name, before)
			return
		}
	}
	b.fail(name)
	for _, d := range ds {
		b.ds.report(Error, d.Code, at, "Value is not an expression", "The variable %q is of type %s, whose values are written as in HCL or JSON. %s", name, typeText(b.p.vars[i].ty), capital(b.p.vars[i].plain(d.Detail)))
		break
	}
}

// constant evaluates an expression that may name nothing.
func (b *binder) constant(e hclsyntax.Expression) (cty.Value, bool) {
	before := len(b.ds)
	p := &program{scope: newScope()}
	x := p.compile(&b.ds, e, inConstant)
	if len(b.ds) > before {
		return cty.NilVal, false
	}
	v, ds := newEvaluator(p, nil, RunInfo{}).frame(evaluating, Scope{}).value(x)
	b.ds = append(b.ds, ds...)
	return v, !ds.HasErrors()
}

// file reads a file of values: arguments of HCL, or one JSON object.
func (b *binder) file(path string) {
	src, err := readLimited(path)
	if err != nil {
		b.ds.report(Error, "unreadable-file", Range{File: path}, "File cannot be read", "%s.", sentence(err))
		return
	}
	if strings.HasSuffix(path, ".json") {
		b.jsonFile(path, src)
		return
	}
	if _, ds := guardFile(path, src, hclv2.InitialPos); ds.HasErrors() {
		b.ds = append(b.ds, ds...)
		return
	}
	file, hd := hclsyntax.ParseConfig(src, path, hclv2.InitialPos)
	if hd.HasErrors() {
		b.ds = append(b.ds, fromHCL(hd)...)
		return
	}
	body := file.Body.(*hclsyntax.Body)
	for _, bl := range body.Blocks {
		b.ds.errorf("unsupported-block", bl.TypeRange, "Unsupported block", "A file of values has lines NAME = VALUE, and no blocks.")
	}
	for _, name := range keysOfMap(body.Attributes) {
		a := body.Attributes[name]
		before := len(b.ds)
		if v, ok := b.constant(a.Expr); ok {
			b.set(name, v, "", rangeOf(a.SrcRange))
		}
		b.hide(name, before)
	}
}

func (b *binder) jsonFile(path string, src []byte) {
	at := Range{File: path}
	src = bytes.TrimPrefix(src, bom)
	if err := sdk.CheckJSON(src); err != nil || kindOf(src) != "object" {
		why := "it is " + article(kindOf(src))
		if err != nil {
			why = err.Error()
		}
		b.ds.report(Error, "invalid-json", at, "File is not a JSON object", "%s must be one JSON object of values: %s.", path, why)
		return
	}
	members(src, func(k, raw []byte) bool {
		name := unquote(k)
		if name == "//" { // a comment
			return true
		}
		v, err := decodeJSON(raw, cty.DynamicPseudoType)
		if err != nil {
			detail := sentence(err) + "."
			if i, ok := b.p.varIndex[normal(name)]; ok {
				detail = b.p.vars[i].plain(detail)
			}
			b.ds.report(Error, "invalid-value", at, "Value cannot be used", "%q: %s", name, detail)
			return true
		}
		text := ""
		if kindOf(raw) == "string" {
			text = unquote(raw)
		}
		b.set(name, v, text, at)
		return true
	})
}

// values converts what was given and falls back on defaults.
func (b *binder) values() *Values {
	out := &Values{p: b.p, vals: make([]cty.Value, len(b.p.vars)), raw: make([]string, len(b.p.vars))}
	for i := range b.p.vars {
		v, g := &b.p.vars[i], b.given[i]
		out.vals[i] = v.def
		if g.v == cty.NilVal {
			if v.def == cty.NilVal && !g.failed {
				b.ds.errorf("missing-variable", v.rng, "Variable has no value", "The variable %q has no default and no value was given. Write --var %[1]s=VALUE, or set %s%[1]s.", v.name, EnvPrefix)
			}
			continue
		}
		if g.v.IsNull() && !v.nullable {
			// As for Terraform, null means "as if it were not written".
			if v.def == cty.NilVal {
				b.ds.report(Error, "null-value", g.at, "Variable is null", "The variable %q is not nullable and has no default. Give a value, or set nullable = true where it is declared, at %s.", v.name, rangeOf(v.rng))
			}
			continue
		}
		val, err := convertTo(g.v, v.ty, v.defaults)
		if err == nil {
			_, err = appendJSON(nil, val)
		}
		if err != nil {
			b.ds.report(Error, "wrong-type", g.at, "Value has the wrong type", "The value of %q does not fit %s: %s It is declared at %s.", v.name, typeText(v.ty), v.plain(err.Error()+"."), rangeOf(v.rng))
			continue
		}
		out.vals[i], out.raw[i] = val, g.raw
	}
	return out
}

// validate judges the validation blocks, which may name every variable.
func (b *binder) validate(values *Values) {
	e := newEvaluator(b.p, values, RunInfo{})
	for i := range b.p.vars {
		v := &b.p.vars[i]
		for _, rule := range v.validations {
			ok, ds := e.holds(rule, Scope{})
			if ds.HasErrors() {
				b.ds = append(b.ds, ds...)
				continue
			}
			if ok {
				continue
			}
			b.invalid = append(b.invalid, v.name)
			text := e.complaint(rule, Scope{})
			at := b.given[i].at
			if at.IsZero() {
				at = rangeOf(v.rng)
			}
			d := Diagnostic{Code: "invalid-variable", Summary: "Invalid value of a variable", Subject: at,
				Detail: fmt.Sprintf("%s\n\nThis was checked by the validation at %s.", text, rangeOf(rule.condition.rng))}
			d.Values = namedValues(rule.condition.node, &e.frame(evaluating, Scope{}).ctx)
			b.ds = append(b.ds, d)
		}
	}
}

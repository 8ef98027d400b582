package hcl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// Schemas are the JSON Schemas of a step type's input and output, as its manifest
// gives them; nil for none.
type Schemas struct {
	Input, Output json.RawMessage
	// Note is a sentence about where Output comes from, for who names what is not
	// in it; may be "".
	Note string
}

// CheckTypes checks what the flow names of outputs, and what inputs hold, against
// the schemas of the step types that it uses. It needs no values and finds what
// can be told without them; the schemas themselves are for the host to judge with
// the values. Of an output only what its schema lists may be named, unless the
// schema says that there is more; what may be there or not stands in try. The
// workflow must have no errors.
func (w *Workflow) CheckTypes(of func(Use) Schemas) Diagnostics {
	t := &typeChecker{p: w.impl, e: newEvaluator(w.impl, nil, RunInfo{}), of: of}
	t.e.promised = make([]promise, len(w.Steps))
	for i := range w.Steps {
		t.promise(i)
	}
	for _, n := range w.impl.order {
		if i := n - len(w.Steps); i >= 0 && w.impl.loopOf(i) != nil {
			sub := w.impl.loopOf(i)
			l := *sub.loop
			t.loop(&l)
			for _, s := range sub.steps {
				t.e.promised[s].loops[sub.around.names.depth] = &l
			}
		} else if i >= 0 {
			t.e.frame(checking, Scope{}).prepare([]int{i})
			t.ds = append(t.ds, fromHCL(t.e.cells[i].diags)...)
		} else if w.impl.steps[n].own() != nil {
			t.loop(t.e.promised[n].loops[len(w.impl.steps[n].loops)-1])
		}
	}
	for i := range w.Steps {
		t.step(&w.Steps[i], &w.impl.steps[i])
	}
	for i := range w.Actions {
		t.input(w.impl.actions[i], w.Actions[i].Use, "action."+w.Actions[i].Name, w.Actions[i].Range)
	}
	for i := range w.impl.outputs {
		out := &w.impl.outputs[i]
		t.value(out.value)
		t.rules(out.pre)
	}
	return t.ds.sorted()
}

// promise is what manifests say of a step, beside what the flow says.
type promise struct {
	out   cty.Type // of one instance
	note  string   // where that comes from
	loops []*loop  // as those of a stepCode
}

type typeChecker struct {
	p  *program
	e  *Evaluator
	of func(Use) Schemas
	ds Diagnostics
}

func (t *typeChecker) loop(l *loop) {
	r := &reader{w: t.p.w, p: t.p, check: t.e}
	r.loop(l)
	t.ds = append(t.ds, r.ds...)
}

func (t *typeChecker) promise(i int) {
	s, code := &t.p.w.Steps[i], &t.p.steps[i]
	out := code.outType
	if out == cty.NilType {
		out = cty.DynamicPseudoType
		// Another step type that answers in its place answers in its own way.
		if !slices.ContainsFunc(s.Fallbacks, func(f Fallback) bool { return f.Kind == FallbackStep }) {
			schemas := t.of(Use{Plugin: s.Plugin, StepType: s.StepType})
			out, t.e.promised[i].note = parseSchema(schemas.Output).promised(), schemas.Note
		}
	}
	t.e.promised[i].out = out
	for _, l := range code.loops {
		own := *l
		t.e.promised[i].loops = append(t.e.promised[i].loops, &own)
	}
}

func (t *typeChecker) step(s *Step, code *stepCode) {
	t.value(code.when)
	t.value(code.salt)
	t.rules(code.pre)
	t.rules(code.post)
	t.input(code.input, Use{Plugin: s.Plugin, StepType: s.StepType}, s.Address(), s.Range)
	for k, x := range code.checks {
		t.input(x, s.Checks[k].Use, "a check of "+s.Address(), s.Checks[k].Range)
	}
	for k, f := range code.fallbacks {
		t.value(f.output)
		if s.Fallbacks[k].Kind == FallbackStep {
			t.input(f.input, s.Fallbacks[k].Use, "a fallback of "+s.Address(), s.Fallbacks[k].Range)
		}
	}
	if s.Compensate != nil {
		t.input(code.compensate, s.Compensate.Use, "the undo of "+s.Address(), s.Compensate.Range)
	}
}

func (t *typeChecker) rules(rules []rule) {
	for _, x := range rules {
		t.value(x.condition)
		t.value(x.message)
	}
}

// value reports what can be told of an expression; ok is false without one, and
// after a mistake.
func (t *typeChecker) value(x *expression) (v cty.Value, ok bool) {
	if x == nil {
		return cty.NilVal, false
	}
	v, ds := t.e.frame(checking, Scope{}).value(x)
	t.ds = append(t.ds, ds...)
	return v, !ds.HasErrors()
}

// input compares an input with the schema of the step type that receives it.
func (t *typeChecker) input(x *expression, use Use, who string, at Range) {
	v, where := cty.EmptyObjectVal, hclRange(at)
	if x != nil {
		var ok bool
		if v, ok = t.value(x); !ok {
			return
		}
		where = x.rng
	}
	if use.Plugin < 0 {
		return
	}
	m := parseSchema(t.of(use).Input).misfit(v, "")
	if m == nil {
		return
	}
	if x != nil {
		where = itemAt(x, m.top, where)
	}
	detail := m.text
	if x != nil && x.marked.sensitive {
		detail = x.hiddenDetail()
	}
	if m.at != "" {
		detail = "at " + m.at + ": " + detail
	}
	t.ds.errorf("input-type", where, "Input does not fit", "The input of %s is not what plugin.%s.%s takes: %s", who, t.p.w.Plugins[use.Plugin].Name, use.StepType, period(detail))
}

// itemAt is where an attribute of a literal object stands.
func itemAt(x *expression, name string, otherwise hclv2.Range) hclv2.Range {
	if obj, ok := unwrap(x.node).(*hclsyntax.ObjectConsExpr); ok {
		for _, it := range obj.Items {
			if key, ok := literalKey(it.KeyExpr); ok && key == name {
				return hclv2.RangeBetween(it.KeyExpr.Range(), it.ValueExpr.Range())
			}
		}
	}
	return otherwise
}

// schemaType is the part of a JSON Schema that is a type: what it says of objects,
// lists and primitive values. nil is any.
type schemaType struct {
	kind     string // as kindOf says
	props    map[string]*schemaType
	required []string
	open     bool        // an object has other attributes too, or may have
	closed   bool        // it has not: additionalProperties is false
	rest     *schemaType // of the other attributes
	elem     *schemaType // of a list
}

var schemaKinds = map[string]string{"object": "object", "array": "list", "string": "string", "number": "number", "integer": "number", "boolean": "bool"}

func parseSchema(text json.RawMessage) *schemaType {
	if len(text) == 0 || sdk.CheckJSON(text) != nil {
		return nil
	}
	var v any
	if json.Unmarshal(text, &v) != nil {
		return nil
	}
	return schemaOf(v)
}

// Words of a schema that change what those read here mean, so that nothing is said,
// and words that may describe more of an object. All others say less than a type
// or add to it: what does not fit the type does not fit the whole.
var (
	changing = []string{"patternProperties", "prefixItems"}
	adding   = []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "unevaluatedProperties"}
)

func schemaOf(v any) *schemaType {
	s, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	has := func(word string) bool { _, ok := s[word]; return ok }
	if slices.ContainsFunc(changing, has) {
		return nil
	}
	name, _ := s["type"].(string)
	t := &schemaType{kind: schemaKinds[name]}
	switch t.kind {
	case "":
		return nil
	case "list":
		t.elem = schemaOf(s["items"])
	case "object":
		props, _ := s["properties"].(map[string]any)
		t.props = make(map[string]*schemaType, len(props))
		for name, p := range props {
			t.props[normal(name)] = schemaOf(p)
		}
		required, _ := s["required"].([]any)
		for _, r := range required {
			if name, ok := r.(string); ok {
				name = normal(name)
				t.required = append(t.required, name)
				if _, described := t.props[name]; !described {
					t.props[name] = nil // it is there, whatever it is
				}
			}
		}
		slices.Sort(t.required)
		switch rest := s["additionalProperties"].(type) {
		case bool:
			t.open, t.closed = rest, !rest
		case map[string]any:
			t.open, t.rest = true, schemaOf(rest)
		default:
			t.open = len(props) == 0 || slices.ContainsFunc(adding, has)
		}
	}
	return t
}

// promised is what may be named of such a value.
func (t *schemaType) promised() cty.Type {
	if t == nil {
		return cty.DynamicPseudoType
	}
	switch t.kind {
	case "string":
		return cty.String
	case "number":
		return cty.Number
	case "bool":
		return cty.Bool
	case "list":
		return cty.List(t.elem.promised())
	}
	switch {
	case t.open && len(t.props) == 0 && t.rest != nil:
		return cty.Map(t.rest.promised())
	case t.open:
		return cty.DynamicPseudoType
	}
	attrs := make(map[string]cty.Type, len(t.props))
	for name, p := range t.props {
		attrs[name] = p.promised()
	}
	return cty.Object(attrs)
}

// misfit is why a value is not of a type.
type misfit struct {
	at, top string // a JSON Pointer, and its first part
	text    string
}

// misfit compares as far as both sides say something.
func (t *schemaType) misfit(v cty.Value, at string) *misfit {
	if t == nil || v.Type() == cty.DynamicPseudoType && !v.IsKnown() {
		return nil
	}
	if v.IsKnown() && v.IsNull() {
		return &misfit{at: at, text: fmt.Sprintf("want %s, found null", t.kind)}
	}
	kind := ""
	switch ty := v.Type(); {
	case ty == cty.String:
		kind = "string"
	case ty == cty.Number:
		kind = "number"
	case ty == cty.Bool:
		kind = "bool"
	case ty.IsListType() || ty.IsSetType() || ty.IsTupleType():
		kind = "list"
	case ty.IsMapType() || ty.IsObjectType():
		kind = "object"
	}
	if kind != t.kind {
		return &misfit{at: at, text: fmt.Sprintf("want %s, found %s", t.kind, describe(v))}
	}
	switch kind {
	case "list":
		return t.misfitList(v, at)
	case "object":
		return t.misfitObject(v, at)
	}
	return nil
}

func (t *schemaType) misfitList(v cty.Value, at string) *misfit {
	if !v.IsKnown() || t.elem == nil {
		return nil
	}
	n := 0
	for it := v.ElementIterator(); it.Next(); n++ {
		_, elem := it.Element()
		if m := t.elem.misfit(elem, at+"/"+strconv.Itoa(n)); m != nil {
			return m
		}
	}
	return nil
}

func (t *schemaType) misfitObject(v cty.Value, at string) *misfit {
	if !v.IsKnown() && !v.Type().IsObjectType() {
		return nil
	}
	have := attributeNames(v)
	for _, name := range have {
		where, top := at+"/"+pointerEscape.Replace(name), name
		p, listed := t.props[name]
		switch {
		case listed:
		case t.closed:
			names := keysOfMap(t.props)
			return &misfit{at: where, top: top, text: fmt.Sprintf("there is no such attribute.%s", orPossible(DidYouMean(name, names), names))}
		default:
			p = t.rest
		}
		var elem cty.Value
		switch {
		case v.IsKnown() && v.Type().IsObjectType():
			elem = v.GetAttr(name)
		case v.IsKnown():
			elem = v.Index(cty.StringVal(name))
		default:
			elem = cty.UnknownVal(v.Type().AttributeType(name))
		}
		if m := p.misfit(elem, where); m != nil {
			m.top = top
			return m
		}
	}
	for _, name := range t.required {
		if !slices.Contains(have, name) {
			return &misfit{at: at, text: fmt.Sprintf("the attribute %q is missing", name)}
		}
	}
	return nil
}

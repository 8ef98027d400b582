package hcl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// defaultInstances is how many instances a for_each may have where the workflow
// does not say.
const defaultInstances = 10_000

// shapeKnown says what is known of a for_each before it is evaluated.
type shapeKnown uint8

const (
	shapeUnknown shapeKnown = iota
	shapeList
	shapeMap
)

// loop is the for_each of a step.
type loop struct {
	x    *expression
	text string // as written, for messages

	// What follows is filled in while types are checked.
	shape    shapeKnown
	key, val cty.Type // of each.key and each.value
}

// collection is the type of all instances' values together.
func (l *loop) collection(elem cty.Type) cty.Type {
	if elem == cty.NilType {
		elem = cty.DynamicPseudoType
	}
	switch l.shape {
	case shapeList:
		return cty.List(elem)
	case shapeMap:
		return cty.Map(elem)
	}
	return cty.DynamicPseudoType
}

// collectionOf is collection, where the JSON of the values says what the types
// did not.
func (l *loop) collectionOf(elem cty.Type, all json.RawMessage) cty.Type {
	known := *l
	switch kindOf(all) {
	case "list":
		known.shape = shapeList
	case "object":
		known.shape = shapeMap
	}
	return known.collection(elem)
}

// loop checks the for_each of a step and learns what it can of its elements.
func (r *reader) loop(l *loop) {
	l.key, l.val = cty.DynamicPseudoType, cty.DynamicPseudoType
	v, ok := r.checked(l.x)
	if !ok {
		return
	}
	ty := v.Type()
	switch {
	case v.IsKnown() && v.IsNull() || ty.IsPrimitiveType():
		r.ds = append(r.ds, l.unfit(describe(v), "")...)
		return
	case ty.IsSetType() && ty.ElementType() != cty.String && ty.ElementType() != cty.DynamicPseudoType:
		r.ds = append(r.ds, l.unfit(article(ty.FriendlyName()), setHint)...)
		return
	case ty.IsListType() || ty.IsTupleType():
		l.shape, l.key = shapeList, cty.Number
	case ty.IsSetType() || ty.IsMapType() || ty.IsObjectType():
		l.shape, l.key = shapeMap, cty.String
	default:
		return
	}
	if v.IsKnown() && v.LengthInt() > r.w.MaxInstances {
		r.ds = append(r.ds, l.tooMany(r.w.MaxInstances)...)
	}
	l.val = elementTypeOf(ty)
}

// elementTypeOf is the type that all elements have; any if they differ.
func elementTypeOf(ty cty.Type) cty.Type {
	var elems []cty.Type
	switch {
	case ty.IsCollectionType():
		return ty.ElementType()
	case ty.IsTupleType():
		elems = ty.TupleElementTypes()
	case ty.IsObjectType():
		for _, t := range ty.AttributeTypes() {
			elems = append(elems, t)
		}
	}
	if len(elems) == 0 || slices.ContainsFunc(elems, func(t cty.Type) bool { return !t.Equals(elems[0]) }) {
		return cty.DynamicPseudoType
	}
	return elems[0]
}

// textHint is for a string that is the JSON of a collection: the value of a variable
// without a type, or what a model gave.
func textHint(text string) string {
	raw := []byte(text)
	if kind := kindOf(raw); (kind == "list" || kind == "object") && json.Valid(raw) {
		return fmt.Sprintf(" It is the text of one (%s): write jsondecode(…), or give the variable it comes from a type, such as list(string).", kind)
	}
	return ""
}

const setHint = " An instance is known by its key, which is a string: write [for x in … : tostring(x)] inside of toset(), or tolist(…) for numbers as keys."

func (l *loop) unfit(is, hint string) Diagnostics {
	var ds Diagnostics
	what, literal := l.text, l.x.literal != cty.NilVal
	if literal {
		what = "this"
	}
	switch {
	case l.x.marked.sensitive && is != "null":
		is, hint = "a sensitive value of another kind", ""
	case hint != "":
	case is == "null" && literal:
		hint = " For one step without instances, remove the argument."
	case is == "null":
		hint = " Where it may be null, write coalesce(…, [])."
	default:
		hint = " For one instance or none, write [x] or []."
	}
	ds.errorf("invalid-for-each", l.x.rng, "for_each has no elements", "for_each must be a list, a set of strings, a map or an object; %s is %s.%s", what, is, hint)
	return ds
}

func (l *loop) tooMany(limit int) Diagnostics {
	var ds Diagnostics
	ds.errorf("too-many-instances", l.x.rng, "Too many instances", "%s has more than %d elements. Put several into each element, for example with chunklist(), or raise max_instances of the workflow.", l.text, limit)
	return ds
}

// pair is the step whose instances l's own are paired with; -1 for none.
func (p *program) pair(l *loop) int {
	if r := p.bare(l.x.node); r != nil && r.kind == refFacet && r.facet == sdk.FacetOutput && len(r.rest) == 0 && len(p.steps[r.index].loops) > 0 {
		return r.index
	}
	return -1
}

// ForEach evaluates the for_each of a loop that a step stands in, an index into
// Step.Loops, in the scope of an instance of those around it. Values are the JSON
// of the elements; where for_each is a bare reference to an output, they are parts
// of it, byte for byte.
func (e *Evaluator) ForEach(step, loop int, s Scope) (Expansion, Diagnostics) {
	return e.expansion(e.p.steps[step].loops[loop], s)
}

func (e *Evaluator) expansion(l *loop, s Scope) (Expansion, Diagnostics) {
	b := expander{l: l, limit: e.p.maxInstances}
	w := jsonWriter{f: e.frame(evaluating, s)}
	w.f.x = l.x
	var ds Diagnostics
	switch sh := l.x.shape; {
	case sh.kind == shapeRaw && !typeAt(sh.ref.sourceType(w.f, nil), sh.ref.path).IsSetType():
		raw, hd := sh.ref.raw(w.f, &w.f.ctx)
		if ds = fromHCL(hd); !ds.HasErrors() {
			ds = b.json(raw)
		}
	case sh.collection():
		w.shape(sh)
		if ds = w.ds; !ds.HasErrors() && w.f.limit == "" {
			ds = b.json(w.dst)
		}
	default:
		w.f.prepare(l.x.locals)
		v, hd := l.x.node.Value(&w.f.ctx)
		if ds = fromHCL(hd); !ds.HasErrors() && w.f.limit == "" {
			ds = b.value(v)
		}
	}
	if w.f.limit != "" {
		ds = w.f.limitDiag()
	}
	if ds.HasErrors() {
		return Expansion{}, ds
	}
	return b.out, nil
}

// expander makes the instances of a for_each.
type expander struct {
	l     *loop
	limit int
	out   Expansion
}

// add reports whether there may be more.
func (b *expander) add(key, value json.RawMessage) bool {
	b.out.Each = append(b.out.Each, Each{key, value})
	return len(b.out.Each) <= b.limit
}

func (b *expander) index(value json.RawMessage) bool {
	return b.add(strconv.AppendInt(nil, int64(len(b.out.Each)), 10), value)
}

func (b *expander) end() Diagnostics {
	if len(b.out.Each) > b.limit {
		return b.l.tooMany(b.limit)
	}
	return nil
}

func (b *expander) json(raw json.RawMessage) Diagnostics {
	switch kind := kindOf(raw); kind {
	case "list":
		b.out.List = true
		elements(raw, func(v []byte) bool { return b.index(v) })
	case "object":
		for _, m := range sortedMembers(raw, b.limit) {
			b.add(appendString(nil, m.name), m.value)
		}
	default:
		var text string
		_ = json.Unmarshal(raw, &text) // not a string: no hint
		return b.l.unfit(found(raw, kind), textHint(text))
	}
	return b.end()
}

func (b *expander) value(v cty.Value) Diagnostics {
	ty := v.Type()
	switch {
	case v.IsNull() || ty.IsPrimitiveType():
		hint := ""
		if ty == cty.String && !v.IsNull() {
			hint = textHint(v.AsString())
		}
		return b.l.unfit(describe(v), hint)
	case ty.IsSetType() && ty.ElementType() != cty.String && v.LengthInt() > 0:
		return b.l.unfit(article(ty.FriendlyName()), setHint)
	}
	b.out.List = ty.IsListType() || ty.IsTupleType()
	for it := v.ElementIterator(); it.Next(); { // maps and sets in order of their keys
		key, elem := it.Element()
		if ty.IsSetType() && elem.IsNull() {
			return b.l.unfit("a set that holds null", setHint)
		}
		raw, err := appendJSON(nil, elem)
		if err != nil {
			var ds Diagnostics
			ds.errorf("invalid-value", b.l.x.rng, "Value cannot be passed on", "%s", b.l.x.plain(sentence(err)+"."))
			return ds
		}
		more := false
		switch {
		case b.out.List:
			more = b.index(raw)
		case ty.IsSetType():
			more = b.add(raw, raw)
		default:
			more = b.add(appendString(nil, key.AsString()), raw)
		}
		if !more {
			break
		}
	}
	return b.end()
}

// EachIdentity is the digest of the parts of each that `when`, `input` and salt
// name, and of the files whose paths follow from it; of an element {id, text}
// of which only each.value.id is named, the id alone. It is zero when nothing
// of each is named, so instances with equal digests differ in nothing.
func (e *Evaluator) EachIdentity(step int, each []Each) (sdk.Digest, Diagnostics) {
	code := &e.p.steps[step]
	if len(code.parts) == 0 {
		return sdk.Digest{}, nil
	}
	h := begin("each ")
	for _, r := range code.parts {
		source := each[r.level].Key
		if r.part == eachValue {
			source = each[r.level].Value
		}
		if at, _, ok := find(source, r.path); ok && r.path != nil {
			h = h.digest(sdk.Sum(appendCanonical(nil, at)))
		} else {
			h = h.str("absent") // inside try; elsewhere the evaluation will say so
		}
	}
	var ds Diagnostics
	for _, x := range []*expression{code.when, code.identified(), code.salt} {
		if x == nil || x.each == 0 || !x.readsFile {
			continue
		}
		f := e.frame(planning, Scope{Each: each})
		_, _ = f.value(x) // mistakes are for the evaluation to tell
		ds = append(ds, fromHCL(f.unplanned)...)
		for _, r := range f.reads {
			h = h.str(r.call).digest(r.digest)
		}
	}
	if ds.HasErrors() {
		return sdk.Digest{}, ds
	}
	if slices.ContainsFunc(code.parts, func(r *refExpr) bool { return code.loops[r.level].x.marked.sensitive }) {
		return e.keyed(h), nil
	}
	return h.sum(), nil
}

// Salt is the digest of the evaluated salt, which may name each; zero without a
// salt. It belongs into content keys.
func (e *Evaluator) Salt(step int, each []Each) (sdk.Digest, Diagnostics) {
	x := e.p.steps[step].salt
	if x == nil {
		return sdk.Digest{}, nil
	}
	v, ds := e.frame(evaluating, Scope{Each: each}).value(x)
	if ds.HasErrors() {
		return sdk.Digest{}, ds
	}
	d := e.digestOf(v, x, &ds)
	return d, ds
}

// eachParts lists the different parts of each that the expressions name, locals
// expanded.
func (p *program) eachParts(xs ...*expression) []*refExpr {
	var out []*refExpr
	seen, locals := map[sdk.Digest]bool{}, map[int]bool{}
	type visit struct {
		items []*refExpr
		below int // only loops around this one count: those inside have instances of their own
	}
	var stack []visit
	push := func(x *expression, below int) {
		if e, ok := x.node.(*eachExpr); ok {
			below = min(below, e.sub.around.names.depth)
		}
		if x.each.around(below) != 0 {
			stack = append(stack, visit{x.items, below})
		}
	}
	for _, x := range slices.Backward(xs) {
		if x != nil {
			push(x, maxDepth+1)
		}
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.items) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		r, below := top.items[0], top.below
		top.items = top.items[1:]
		switch r.kind {
		case refLocal:
			if l := &p.locals[r.index]; l.expr != nil && l.expr.each != 0 && !locals[r.index] {
				locals[r.index] = true
				push(l.expr, below)
			}
		case refEach:
			if r.level >= below {
				continue
			}
			if d := pathDigest(begin(r.name).num(r.level).sum(), r.rest); !seen[d] {
				seen[d] = true
				out = append(out, r)
			}
		}
	}
	return out
}

// sourceText is what is written at a place, shortened for a message.
func (r *reader) sourceText(e hclsyntax.Expression) string {
	at := rangeOf(e.Range())
	for i := range r.w.Files {
		if f := &r.w.Files[i]; f.Path == at.File && at.End.Byte <= len(f.Bytes) {
			return shorten(f.Bytes[at.Start.Byte:at.End.Byte], 60)
		}
	}
	return "it"
}

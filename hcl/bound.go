package hcl

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// boundExpr is what a variable of a sub-workflow is given, converted and judged as
// that of a workflow is when it is bound; or an output, with its preconditions.
type boundExpr struct {
	*hclsyntax.ParenthesesExpr // of what is given
	name                       string
	v                          *variable
	rules                      []rule
	code, summary              string // of a rule that does not hold
}

// bind makes the expression; x is what is given.
func (r *reader) bind(x *expression, e *boundExpr) *expression {
	e.ParenthesesExpr = &hclsyntax.ParenthesesExpr{Expression: x.node, SrcRange: x.rng}
	uses := slices.Clip(x.uses)
	for _, rule := range e.rules {
		uses = append(append(uses, rule.condition.uses...), rule.message.uses...)
	}
	r.p.keyed = r.p.keyed || e.v.sensitive
	return made(e, x.rng, uses)
}

// boundVariable reads a variable of a sub-workflow.
func (r *reader) boundVariable(b *block) {
	p, sub := r.p, r.sub
	v := &variable{name: b.name, ty: cty.DynamicPseudoType, rng: b.header()}
	r.variable(b, v, &Variable{})
	i := p.varIndex[b.name]
	name := p.locals[i].name
	arg := sub.input[b.name]
	if arg == nil {
		at := sub.b.header()
		if e := sub.b.expr("input"); e != nil {
			at = e.Range()
		}
		if b.expr("default") == nil {
			r.ds.errorf("missing-variable", at, "Variable has no value", "The workflow of %s needs %q, declared at %s. Write it in the input: %[2]s = ….", sub.address(), b.name, rangeOf(b.header()))
		}
		if v.def == cty.NilVal {
			return
		}
		def := b.expr("default").Range()
		arg = &boundArg{made(&hclsyntax.LiteralValueExpr{Val: v.def, SrcRange: def}, def, nil), def}
	}
	p.locals[i].expr = r.bind(arg.x, &boundExpr{name: name, v: v})
	if judged, ok := p.valid[i]; ok {
		p.rules = append(p.rules, v.validations...)
		ref := localRef(i, name, arg.x.rng)
		p.locals[judged].expr = r.bind(made(ref, arg.x.rng, []*refExpr{ref}), &boundExpr{
			name: name, v: &variable{name: b.name, ty: cty.DynamicPseudoType, nullable: true}, rules: v.validations,
			code: "invalid-variable", summary: "Invalid value of a variable",
		})
	}
}

// result reads an output of a sub-workflow.
func (r *reader) result(b *block) {
	i := r.outputs[b.name]
	x := r.p.compile(&r.ds, b.expr("value"), inOutput)
	_ = r.text(b, "description")
	sensitive, rules := r.flag(b, "sensitive", false), r.rules(b, "precondition", topBlocks["output"], inOutput)
	if x != nil && (sensitive || len(rules) > 0) {
		r.p.rules = append(r.p.rules, rules...)
		x = r.bind(x, &boundExpr{
			name: r.p.locals[i].name, rules: rules, code: "precondition", summary: "Precondition does not hold",
			v: &variable{name: b.name, ty: cty.DynamicPseudoType, nullable: true, sensitive: sensitive},
		})
	}
	r.p.locals[i].expr = x
}

func (e *boundExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	v, hd := e.Expression.Value(ctx)
	f := frameOf(ctx)
	if hd.HasErrors() || f == nil || f.limit != "" {
		return v, hd
	}
	if !v.IsKnown() || !v.IsNull() || e.v.nullable {
		if v.IsKnown() && f.e.p.boundSecret(e.Expression) {
			return v, nil // the object that stands for it has no other type
		}
		out, err := convertTo(v, e.v.ty, e.v.defaults)
		if err != nil {
			return cty.DynamicVal, evalDiag("wrong-type", e, ctx, e.SrcRange, "Value has the wrong type", "The value of %s does not fit %s: %s It is declared at %s.", e.name, typeText(e.v.ty), e.v.plain(err.Error()+"."), rangeOf(e.v.rng))
		}
		v = out
	} else if v = e.v.def; v == cty.NilVal { // as for Terraform, null means "as if it were not written"
		return cty.DynamicVal, evalDiag("null-value", e, ctx, e.SrcRange, "Variable is null", "%s is not nullable and has no default. Give a value, or set nullable = true where it is declared, at %s.", e.name, rangeOf(e.v.rng))
	}
	for _, x := range e.rules {
		if hd := e.judge(x, ctx); hd.HasErrors() {
			return cty.DynamicVal, hd
		}
	}
	return v, nil
}

// judge reports a rule that does not hold; one of which not everything is known
// yet may.
func (e *boundExpr) judge(x rule, ctx *hclv2.EvalContext) hclv2.Diagnostics {
	ok, hd := x.condition.node.Value(ctx)
	switch {
	case hd.HasErrors():
		return hd
	case !ok.IsKnown() || ok.Type() == cty.Bool && !ok.IsNull() && ok.True():
		return nil
	case ok.Type() != cty.Bool || ok.IsNull():
		return evalDiag("wrong-type", x.condition.node, ctx, x.condition.rng, "Wrong type", "condition must be true or false, this is %s.", describe(ok))
	}
	says := fmt.Sprintf("The condition at %s is not met.", rangeOf(x.condition.rng))
	if m, hd := x.message.node.Value(ctx); !hd.HasErrors() && m.IsKnown() && !m.IsNull() && m.Type() == cty.String && !x.message.marked.sensitive {
		says = m.AsString()
	}
	return evalDiag(e.code, x.condition.node, ctx, e.SrcRange, e.summary, "%s\n\nThis was checked for %s by the rule at %s.", says, e.name, rangeOf(x.condition.rng))
}

// boundSecret reports whether e is nothing but a secret that is bound to hosts.
func (p *program) boundSecret(e hclsyntax.Expression) bool {
	for range len(p.locals) + 1 {
		switch t := unwrap(e).(type) {
		case *boundExpr:
			e = t.Expression
		case *refExpr:
			if t.kind == refSecret {
				return p.w.Secrets[t.index].Bound()
			}
			if t.kind != refLocal || len(t.rest) > 0 || p.locals[t.index].expr == nil || p.locals[t.index].cyclic {
				return false
			}
			e = p.locals[t.index].expr.node
		default:
			return false
		}
	}
	return false
}

// verbatim reports whether a value that fits ty is not changed by being converted
// to it.
func verbatim(ty cty.Type) bool {
	switch {
	case ty.IsSetType():
		return false
	case ty.IsCollectionType():
		return verbatim(ty.ElementType())
	case ty.IsTupleType():
		return !slices.ContainsFunc(ty.TupleElementTypes(), func(t cty.Type) bool { return !verbatim(t) })
	case ty.IsObjectType():
		for name, t := range ty.AttributeTypes() {
			if ty.AttributeOptional(name) || !verbatim(t) {
				return false
			}
		}
	}
	return true
}

// bound is the canonical form of what a variable is given: what it is given, if it
// takes that as it is.
func (c *canonizer) bound(e *boundExpr) (sdk.Digest, cty.Value) {
	d, lit := c.expr(e.Expression)
	switch {
	case !e.v.typed && e.v.def == cty.NilVal:
		return d, lit
	case lit != cty.NilVal && !lit.IsNull():
		if v, err := convertTo(lit, e.v.ty, e.v.defaults); err == nil {
			return literalDigest(v), v
		}
	}
	h := begin("bound ").str(typeText(e.v.ty)).digest(defaultsDigest(e.v.defaults)).digest(d)
	if e.v.def != cty.NilVal {
		h = h.digest(literalDigest(e.v.def))
	}
	return h.sum(), cty.NilVal
}

// defaultsDigest is that of the defaults inside of a type.
func defaultsDigest(d *typeexpr.Defaults) sdk.Digest {
	h := begin("defaults ")
	if d == nil {
		return h.sum()
	}
	for _, name := range slices.Sorted(maps.Keys(d.DefaultValues)) {
		h = h.str(name).digest(literalDigest(d.DefaultValues[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Children)) {
		h = h.str(name).digest(defaultsDigest(d.Children[name]))
	}
	return h.sum()
}

// statusExpr is a facet of a sub-workflow beside its outputs, read from those of
// its steps: the status of each, and of each the facet itself.
type statusExpr struct {
	*hclsyntax.TupleConsExpr
	facet  sdk.Facet
	steps  int    // Exprs are the statuses of so many steps, then their facets
	sink   []bool // of the steps
	caught bool
}

// status makes the expression of a facet.
func (s *subflow) status(w *Workflow, facet sdk.Facet) *expression {
	at := s.b.header()
	e := &statusExpr{TupleConsExpr: &hclsyntax.TupleConsExpr{SrcRange: at, OpenRange: at}, facet: facet, steps: len(s.steps), caught: s.caught}
	var uses []*refExpr
	for _, f := range []sdk.Facet{sdk.FacetStatus, facet} {
		for _, i := range s.steps {
			r := facetRef(w, i, f, at)
			r.shared = s.set.names.depth
			uses, e.Exprs = append(uses, r), append(e.Exprs, r)
		}
		if facet == sdk.FacetStatus {
			break
		}
	}
	for _, i := range s.steps {
		e.sink = append(e.sink, slices.Contains(s.sinks, i))
	}
	return made(e, at, uses)
}

// Value is what the facets of the steps come to. The whole has succeeded if all
// steps have that no other one inside needs: what happened above them was met.
func (e *statusExpr) Value(ctx *hclv2.EvalContext) (cty.Value, hclv2.Diagnostics) {
	f := frameOf(ctx)
	if f == nil || f.mode != evaluating || f.limit != "" {
		return cty.UnknownVal(facetType(e.facet)), nil
	}
	var parts [][]cty.Value // of each reference: of a step with for_each, those of its instances
	for _, x := range e.Exprs {
		v, hd := x.Value(ctx)
		if hd.HasErrors() {
			return cty.DynamicVal, hd
		}
		parts = append(parts, instancesOf(v))
	}
	status := e.status(parts[:e.steps])
	degraded := false
	if e.caught && status != sdk.Succeeded && status != sdk.Cancelled {
		status, degraded = sdk.Succeeded, true
	}
	if e.facet == sdk.FacetStatus {
		return cty.StringVal(status.String()), nil
	}
	attempts := cty.Zero
	for _, of := range parts[e.steps:] {
		for _, v := range of {
			switch e.facet {
			case sdk.FacetError:
				if !v.IsNull() && status != sdk.Succeeded {
					return v, nil
				}
			case sdk.FacetAttempts:
				attempts = attempts.Add(v)
			case sdk.FacetDegraded:
				degraded = degraded || v.True()
			}
		}
	}
	switch e.facet {
	case sdk.FacetError:
		return cty.NullVal(errorFacetType), nil
	case sdk.FacetAttempts:
		return attempts, nil
	}
	return cty.BoolVal(degraded), nil
}

func (e *statusExpr) status(parts [][]cty.Value) sdk.State {
	ended := map[string]bool{}
	all := true
	for i, of := range parts {
		for _, v := range of {
			ended[v.AsString()] = true
			all = all && (!e.sink[i] || v.AsString() == sdk.Succeeded.String())
		}
	}
	some := len(parts) == 0
	for i, of := range parts {
		some = some || e.sink[i] && slices.ContainsFunc(of, func(v cty.Value) bool { return v.AsString() == sdk.Succeeded.String() })
	}
	switch {
	case all:
		return sdk.Succeeded
	case ended[sdk.Cancelled.String()]:
		return sdk.Cancelled
	case ended[sdk.Failed.String()]:
		return sdk.Failed
	case some:
		return sdk.Succeeded
	}
	return sdk.Skipped
}

// instancesOf are the facets of all instances that v is of, of loops in loops too.
func instancesOf(v cty.Value) (vs []cty.Value) {
	if ty := v.Type(); ty.IsPrimitiveType() || ty.Equals(errorFacetType) {
		return []cty.Value{v}
	}
	for it := v.ElementIterator(); it.Next(); {
		_, elem := it.Element()
		vs = append(vs, instancesOf(elem)...)
	}
	return vs
}

// rebased is a path of the files that are being read, from the workflow's
// directory. What names no path stays as it is.
func (p *program) rebased(source string) string {
	if p.base == "" || source == "" || strings.HasPrefix(source, "std/") || filepath.IsAbs(source) {
		return source
	}
	return "./" + path.Join(filepath.ToSlash(p.base), source)
}

// filesOf are the files of a set of files: base is its directory from the
// workflow's.
func (e *Evaluator) filesOf(base string) *files {
	if base == "" {
		return e.files
	}
	e.belowMu.Lock()
	defer e.belowMu.Unlock()
	fl := e.below[base]
	if fl == nil {
		if e.below == nil {
			e.below = map[string]*files{}
		}
		fl = &files{dir: filepath.Join(e.p.dir, base), base: base}
		e.below[base] = fl
	}
	return fl
}

// shown is the path of a call as it is known in identities and messages.
func (e *callExpr) shown(name cty.Value) string {
	if e.base != "" {
		name = cty.StringVal(path.Join(filepath.ToSlash(e.base), name.AsString()))
	}
	return preview(name)
}

package hcl

import (
	"slices"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// place says what an expression may name, by where it stands.
type place struct {
	what  string // for messages: "the input of a step"
	roots []string
	step  int      // whose each, self and attempt are meant
	loops bool     // each is allowed, if the step has a for_each
	self  []string // what self has
	blind string   // why it sees no steps, and what to do; "" where that is before any has run
}

func (p place) blindness() string {
	if p.blind != "" {
		return p.blind
	}
	return "which is evaluated before any step has run. Pass the value through a step's input."
}

// in is the place in a step, which may have a for_each.
func (p place) in(step int, b *block) place {
	p.step = step
	p.roots = slices.Clip(p.roots)
	if p.loops && b.expr("for_each") != nil {
		p.roots = append(p.roots, "each")
	}
	return p
}

func (p place) allows(root string) bool {
	return slices.Contains(p.roots, root)
}

var (
	everywhere   = []string{"var", "local", "step", "run", "path"}
	inLocal      = place{what: "a local", roots: append(slices.Clip(everywhere), "secret")}
	inWhen       = place{what: "a condition", roots: everywhere, loops: true}
	inForEach    = place{what: "for_each", roots: everywhere}
	inInput      = place{what: "an input", roots: append(slices.Clip(everywhere), "attempt", "secret"), loops: true}
	inOutput     = place{what: "an output", roots: everywhere}
	inConfig     = place{what: "a plugin's config", roots: []string{"var", "local", "run", "path", "secret"}}
	inSalt       = place{what: "a checkpoint's salt", roots: []string{"var", "local"}, loops: true}
	inValidation = place{what: "a validation", roots: []string{"var"}}
	inConstant   = place{what: "a constant"}
)

// compiler turns HCL's syntax tree into ours, in place: references are
// resolved, and nodes that could run away or that HCL evaluates in a way we do
// not want are replaced.
type compiler struct {
	p     *program
	ds    *Diagnostics
	at    place
	out   *expression
	scope [][2]string // variables of the `for` expressions around, innermost last
	opt   bool        // inside an argument of try or can
	whole bool        // nothing around computes with the value
	shown bool        // inside an argument of nonsensitive
	// template is set for template files: every root is a variable of the
	// template, known only at evaluation.
	template bool
}

// compile returns nil for a nil expression.
func (p *program) compile(ds *Diagnostics, e hclsyntax.Expression, at place) *expression {
	if e == nil {
		return nil
	}
	out := &expression{rng: e.Range()}
	c := compiler{p: p, ds: ds, at: at, out: out, whole: true}
	out.node = c.expr(e)
	seen := map[int]bool{}
	for _, r := range out.uses {
		if r.kind == refLocal && r.index >= 0 && !seen[r.index] {
			seen[r.index] = true
			out.locals = append(out.locals, r.index)
		}
	}
	return out
}

// compileTemplate compiles the text of a template file. Its references are not
// resolved but listed: the caller of templatefile gives them values.
func (p *program) compileTemplate(ds *Diagnostics, e hclsyntax.Expression) *expression {
	out := &expression{rng: e.Range()}
	c := compiler{p: p, ds: ds, out: out, template: true}
	out.node = c.expr(e)
	return out
}

func (c *compiler) expr(e hclsyntax.Expression) hclsyntax.Expression {
	defer func(whole, shown bool) { c.whole, c.shown = whole, shown }(c.whole, c.shown)
	switch t := e.(type) {
	case *hclsyntax.ScopeTraversalExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ParenthesesExpr, *hclsyntax.TemplateWrapExpr:
	case *hclsyntax.FunctionCallExpr:
		c.whole, c.shown = false, c.shown || t.Name == "nonsensitive"
	default:
		c.whole = false
	}
	switch t := e.(type) {
	case *hclsyntax.LiteralValueExpr:
		if t.Val.Type() == cty.Number && t.Val.IsKnown() && !t.Val.IsNull() {
			if err := checkNumber(t.Val); err != nil {
				c.ds.errorf("number-out-of-range", t.SrcRange, "Number is out of range", "%s.", sentence(err))
				return &hclsyntax.LiteralValueExpr{Val: cty.UnknownVal(cty.Number), SrcRange: t.SrcRange}
			}
		}
	case *hclsyntax.ScopeTraversalExpr:
		return c.traversal(t)
	case *hclsyntax.RelativeTraversalExpr:
		t.Source = c.expr(t.Source)
		t.Traversal = c.keys(normalTraversal(t.Traversal))
	case *hclsyntax.FunctionCallExpr:
		return c.call(t)
	case *hclsyntax.ConditionalExpr:
		t.Condition, t.TrueResult, t.FalseResult = c.expr(t.Condition), c.expr(t.TrueResult), c.expr(t.FalseResult)
		return &condExpr{t}
	case *hclsyntax.IndexExpr:
		t.Collection, t.Key = c.expr(t.Collection), c.expr(t.Key)
		return &indexExpr{t}
	case *hclsyntax.TupleConsExpr:
		for i := range t.Exprs {
			t.Exprs[i] = c.expr(t.Exprs[i])
		}
	case *hclsyntax.ObjectConsExpr:
		c.object(t)
	case *hclsyntax.ForExpr:
		t.CollExpr = c.expr(t.CollExpr)
		t.KeyVar, t.ValVar = normal(t.KeyVar), normal(t.ValVar)
		c.scope = append(c.scope, [2]string{t.ValVar, t.KeyVar})
		if t.KeyExpr != nil {
			t.KeyExpr = c.expr(t.KeyExpr)
		}
		t.ValExpr = c.expr(t.ValExpr)
		if t.CondExpr != nil {
			t.CondExpr = c.expr(t.CondExpr)
		}
		c.scope = c.scope[:len(c.scope)-1]
		return &forExpr{t}
	case *hclsyntax.SplatExpr:
		t.Source = &splatSource{&hclsyntax.ParenthesesExpr{Expression: c.expr(t.Source), SrcRange: t.Source.Range()}, t.MarkerRange}
		t.Each = c.expr(t.Each)
	case *hclsyntax.BinaryOpExpr:
		t.LHS, t.RHS = c.expr(t.LHS), c.expr(t.RHS)
		return &binaryExpr{t}
	case *hclsyntax.UnaryOpExpr:
		t.Val = c.expr(t.Val)
		return &unaryExpr{t}
	case *hclsyntax.TemplateExpr:
		for i := range t.Parts {
			t.Parts[i] = c.expr(t.Parts[i])
		}
		return &templateExpr{t}
	case *hclsyntax.TemplateJoinExpr:
		t.Tuple = c.expr(t.Tuple)
		return &joinExpr{t}
	case *hclsyntax.TemplateWrapExpr:
		t.Wrapped = c.expr(t.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		t.Expression = c.expr(t.Expression)
	}
	return e
}

// literalKey returns the key of an object's item, if it stands there as a word
// or as a string without templates.
func literalKey(e hclsyntax.Expression) (string, bool) {
	if k, ok := e.(*hclsyntax.ObjectConsKeyExpr); ok {
		if kw := hclv2.ExprAsKeyword(k.Wrapped); kw != "" && !k.ForceNonLiteral {
			return normal(kw), true
		}
		e = k.Wrapped
	}
	if v, ok := literalOf(e); ok && v.Type() == cty.String && !v.IsNull() {
		return v.AsString(), true
	}
	return "", false
}

// literalOf returns the value of a literal, a string without interpolation
// included.
func literalOf(e hclsyntax.Expression) (cty.Value, bool) {
	for {
		switch t := e.(type) {
		case *hclsyntax.ParenthesesExpr:
			e = t.Expression
		case *hclsyntax.TemplateWrapExpr:
			e = t.Wrapped
		case *hclsyntax.LiteralValueExpr:
			return t.Val, t.Val.IsKnown()
		case *templateExpr:
			return literalTemplate(t.TemplateExpr)
		case *hclsyntax.TemplateExpr:
			return literalTemplate(t)
		default:
			return cty.NilVal, false
		}
	}
}

func literalTemplate(t *hclsyntax.TemplateExpr) (cty.Value, bool) {
	if !t.IsStringLiteral() {
		if len(t.Parts) == 0 {
			return cty.StringVal(""), true
		}
		return cty.NilVal, false
	}
	v, _ := t.Parts[0].Value(nil)
	return v, v.IsKnown()
}

func (c *compiler) object(t *hclsyntax.ObjectConsExpr) {
	first := map[string]hclv2.Range{}
	for i := range t.Items {
		it := &t.Items[i]
		if key, ok := literalKey(it.KeyExpr); ok {
			at := it.KeyExpr.Range()
			if prev, dup := first[key]; dup {
				c.ds.errorf("duplicate-key", at, "Duplicate key", "The key %q is already in this object, at %s. Remove one of the two.", key, rangeOf(prev))
			} else {
				first[key] = at
			}
		} else if k, ok := it.KeyExpr.(*hclsyntax.ObjectConsKeyExpr); ok {
			if tr, ok := k.Wrapped.(*hclsyntax.ScopeTraversalExpr); ok && !k.ForceNonLiteral {
				c.ds.errorf("ambiguous-key", tr.SrcRange, "Ambiguous key", "To use the value of %s as the key, put it in parentheses: (%[1]s).", traversalText(tr.Traversal))
				it.KeyExpr = &hclsyntax.LiteralValueExpr{Val: cty.UnknownVal(cty.String), SrcRange: tr.SrcRange}
				it.ValueExpr = c.expr(it.ValueExpr)
				continue
			}
			k.Wrapped = c.key(k.Wrapped)
			k.ForceNonLiteral = true
		} else {
			it.KeyExpr = c.key(it.KeyExpr)
		}
		it.ValueExpr = c.expr(it.ValueExpr)
	}
}

// key compiles what decides under which key a value stands.
func (c *compiler) key(e hclsyntax.Expression) hclsyntax.Expression {
	defer func(whole bool) { c.whole = whole }(c.whole)
	c.whole = false
	return c.expr(e)
}

func (c *compiler) call(t *hclsyntax.FunctionCallExpr) hclsyntax.Expression {
	switch t.Name {
	case "try", "can":
		return c.try(t)
	case "convert":
		return c.convert(t)
	}
	for i := range t.Args {
		t.Args[i] = c.expr(t.Args[i])
	}
	f, ok := functions[t.Name]
	if !ok {
		c.ds.errorf("unknown-function", t.NameRange, "Unknown function", "There is no function %q.%s", t.Name, DidYouMean(t.Name, functionNames()))
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: t.Range()}
	}
	if c.at.roots == nil && !c.template {
		c.ds.errorf("not-constant", t.Range(), "Value must be constant", "%s() cannot be called here. Write the value itself.", t.Name)
	}
	return &callExpr{FunctionCallExpr: t, fn: f, base: c.p.base}
}

func (c *compiler) try(t *hclsyntax.FunctionCallExpr) hclsyntax.Expression {
	if len(t.Args) == 0 || t.ExpandFinal || t.Name == "can" && len(t.Args) != 1 {
		want := "at least one argument, the last one without an ellipsis"
		if t.Name == "can" {
			want = "exactly one argument"
		}
		c.ds.errorf("invalid-function-argument", t.Range(), "Wrong number of arguments", "%s() takes %s.", t.Name, want)
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: t.Range()}
	}
	outer := c.opt
	for i := range t.Args {
		// Nothing is left to catch what the last argument of try lacks.
		c.opt = outer || t.Name == "can" || i+1 < len(t.Args)
		t.Args[i] = c.expr(t.Args[i])
	}
	c.opt = outer
	return &tryExpr{t}
}

func (c *compiler) convert(t *hclsyntax.FunctionCallExpr) hclsyntax.Expression {
	bad := &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: t.Range()}
	if len(t.Args) != 2 || t.ExpandFinal {
		c.ds.errorf("invalid-function-argument", t.Range(), "Wrong number of arguments", "convert() takes a value and a type, such as convert(x, list(string)).")
		return bad
	}
	ty, defaults, ds := typeOf(t.Args[1])
	if ds.HasErrors() {
		*c.ds = append(*c.ds, ds...)
		return bad
	}
	t.Args = t.Args[:1]
	t.Args[0] = c.expr(t.Args[0])
	return &convertExpr{t, ty, defaults}
}

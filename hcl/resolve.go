package hcl

import (
	"fmt"
	"slices"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// traversal resolves a reference. Variables of `for` and of templates stay
// HCL's own nodes.
func (c *compiler) traversal(t *hclsyntax.ScopeTraversalExpr) hclsyntax.Expression {
	t.Traversal = c.keys(normalTraversal(t.Traversal))
	root := t.Traversal.RootName()
	for i := range c.scope {
		if c.scope[i][0] == root || c.scope[i][1] == root {
			return t
		}
	}
	if c.template {
		c.out.free = append(c.out.free, root)
		return t
	}
	r := &refExpr{ScopeTraversalExpr: t, index: -1, optional: c.opt, whole: c.whole, shown: c.shown, text: traversalText(t.Traversal)}
	if !c.at.allows(root) {
		c.noRoot(r, root)
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: t.SrcRange}
	}
	ok := false
	switch root {
	case "var":
		r.kind = refVar
		ok = c.member(r, c.p.varIndex, c.p.varNames, "variable", `Declare it with variable "%s" {}`)
		if ok && c.p.bound {
			r.kind = refLocal
			if valid, judged := c.p.valid[r.index]; judged && c.at.what != inValidation.what {
				r.index = valid
			}
		}
	case "local":
		r.kind = refLocal
		ok = c.member(r, c.p.localIndex, c.p.localNames, "local", "Declare it in a locals block: %s = …")
	case "secret":
		r.kind = refSecret
		ok = c.member(r, c.p.secretIndex, c.p.secretNames, "secret", `Declare it with secret "%s" { env = … }`)
	case "output":
		r.kind = refLocal
		ok = c.member(r, c.p.outputIndex, c.p.outputNames, "output", `Declare it with output "%s" { value = … }`)
	case "step":
		ok = c.facet(r)
	case "run":
		r.kind = refRun
		ok = c.property(r, []string{"id", "started_at"})
	case "path":
		r.kind = refPath
		ok = c.property(r, []string{"workflow"})
	case "each":
		r.kind, r.level = refEach, c.p.depth
		ok = c.property(r, []string{"key", "value"})
	case "self":
		r.kind = refSelf
		ok = c.property(r, c.at.self)
	case "attempt":
		r.kind = refAttempt
		ok = c.property(r, []string{"number", "last_error"})
	}
	if !ok {
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: t.SrcRange}
	}
	r.path = jsonPath(r.rest)
	c.out.uses = append(c.out.uses, r)
	return r
}

// scoped says where a name that has no meaning in most places may stand.
var scoped = map[string]string{
	"each":    "each is what one instance of a step with for_each is made for. It may stand in that step's when, input, salt, conditions, checks and fallbacks",
	"self":    "self is the attempt that is judged, replaced or undone. self.output may stand in postconditions, checks and compensate, self.input in checks, fallbacks and compensate, self.error in fallbacks",
	"action":  "an action is work outside the graph. A retry names it in before; what a step needs comes from a step",
	"attempt": "attempt is the try that is about to be made. It may stand in the input of a step",
}

func (c *compiler) noRoot(r *refExpr, root string) {
	switch {
	case c.at.roots == nil:
		c.ds.errorf("not-constant", r.SrcRange, "Value must be constant", "%s cannot be used here: the value must be known before anything is evaluated. Write the value itself.", r.text)
	case root == "each" && c.at.loops:
		c.ds.errorf("reference-not-allowed", r.SrcRange, "Step has no for_each", "%s belongs to the instances of a step with for_each, and this step has none. Write for_each = ….", r.text)
	case root == "secret":
		name, _ := attrName(r.Traversal, 1)
		declared := ""
		if i, ok := c.p.secretIndex[name]; ok {
			declared = fmt.Sprintf(", declared at %s,", c.p.w.Secrets[i].Range)
		}
		c.ds.errorf("secret-not-allowed", r.SrcRange, "Secret is not allowed here", "%s%s cannot be used in %s. %s", r.text, declared, c.at.what, secretPlaces)
	case scoped[root] != "":
		c.ds.errorf("reference-not-allowed", r.SrcRange, "Reference is not allowed here", "%s cannot be used in %s: %s.", r.text, c.at.what, scoped[root])
	case slices.Contains(everywhere, root) && root == "step":
		c.ds.errorf("reference-not-allowed", r.SrcRange, "Reference is not allowed here", "%s cannot be used in %s, %s", r.text, c.at.what, c.at.blindness())
	case slices.Contains(everywhere, root):
		c.ds.errorf("reference-not-allowed", r.SrcRange, "Reference is not allowed here", "%s cannot be used in %s. It may name %s.", r.text, c.at.what, alternatives(c.at.roots))
	default:
		hint := DidYouMean(root, c.at.roots)
		if _, ok := c.p.localIndex[root]; ok && c.at.allows("local") {
			hint = fmt.Sprintf(" Did you mean local.%s?", root)
		} else if _, ok := c.p.varIndex[root]; ok && c.at.allows("var") {
			hint = fmt.Sprintf(" Did you mean var.%s?", root)
		} else if _, ok := c.p.stepIndex[root]; ok && c.at.allows("step") {
			hint = fmt.Sprintf(" Did you mean step.%s.output?", root)
		}
		c.ds.errorf("unknown-reference", r.SrcRange, "Unknown reference", "There is no %q here.%s %s may name %s; text is written in quotes.", root, hint, capital(c.at.what), alternatives(c.at.roots))
	}
}

// member resolves ROOT.NAME.
func (c *compiler) member(r *refExpr, index map[string]int, names []string, what, declare string) bool {
	name, ok := attrName(r.Traversal, 1)
	if !ok {
		c.ds.errorf("invalid-reference", r.SrcRange, "Incomplete reference", "%s as a whole is not a value. Name one: %s.NAME.", r.Traversal.RootName(), r.Traversal.RootName())
		return false
	}
	i, ok := index[name]
	if !ok {
		hint := DidYouMean(name, names)
		if hint == "" {
			hint = " " + fmt.Sprintf(declare, name) + "."
		}
		c.ds.errorf("unknown-"+what, r.SrcRange, "Unknown "+what, "There is no %s %q in this workflow.%s", what, name, hint)
		return false
	}
	r.index, r.name, r.rest = i, name, r.Traversal[2:]
	return true
}

func (c *compiler) property(r *refExpr, names []string) bool {
	root := r.Traversal.RootName()
	name, ok := attrName(r.Traversal, 1)
	for i, n := range names {
		if ok && n == name {
			r.index, r.part, r.name, r.rest = c.at.step, i, root+"."+n, r.Traversal[2:]
			return true
		}
	}
	c.ds.errorf("unknown-reference", r.SrcRange, "Unknown reference", "There is no %s here. %s has %s.%s", r.text, capital(root), listOf(names), DidYouMean(name, names))
	return false
}

// facet resolves step.NAME.FACET.
func (c *compiler) facet(r *refExpr) bool {
	facets := sdk.FacetNames()
	name, ok := attrName(r.Traversal, 1)
	if !ok {
		c.ds.errorf("invalid-step-reference", r.SrcRange, "Step names are static", "Which step is meant must be readable in the text, because the graph follows from it. Write step.NAME.output.")
		return false
	}
	i, known := c.p.stepIndex[name]
	if !known {
		c.ds.errorf("unknown-step", r.SrcRange, "Unknown step", "There is no step %q in this workflow.%s", name, c.p.stepHint(name))
		return false
	}
	if len(r.Traversal) < 3 {
		c.ds.errorf("invalid-step-reference", r.SrcRange, "Reference names no facet", "A step has the facets %s. Write step.%s.output.", listOf(facets), name)
		return false
	}
	facet, ok := attrName(r.Traversal, 2)
	if _, isIndex := r.Traversal[2].(hclv2.TraverseIndex); isIndex || !ok {
		key := traversalText(r.Traversal[2:3])
		rest := ".output" + key
		if f, ok := attrName(r.Traversal, 3); ok {
			rest = "." + f + key + traversalText(r.Traversal[4:])
		}
		c.ds.errorf("invalid-step-reference", r.SrcRange, "Instance is chosen before the facet", "An element is chosen after the facet. Write step.%s%s.", name, rest)
		return false
	}
	if err := r.facet.UnmarshalText([]byte(facet)); err != nil {
		hint := DidYouMean(facet, facets)
		if hint == "" {
			hint = fmt.Sprintf(" What the step answered is step.%s.output.%s.", name, facet)
		}
		c.ds.errorf("unknown-facet", r.Traversal[2].SourceRange(), "Unknown facet of a step", "A step has the facets %s, but not %q.%s", listOf(facets), facet, hint)
		return false
	}
	if i < 0 {
		return c.subFacet(r, c.p.subs[-1-i])
	}
	r.kind, r.index, r.name, r.rest, r.shared = refFacet, i, name, r.Traversal[3:], c.p.depth
	return true
}

// stepHint is the step that may have been meant, or those there are.
func (p *program) stepHint(name string) string {
	if hint := DidYouMean(name, p.stepNames); hint != "" || len(p.stepNames) == 0 {
		return hint
	}
	return fmt.Sprintf(" Its steps are %s.", listOf(p.stepNames))
}

func attrName(t hclv2.Traversal, i int) (string, bool) {
	if i >= len(t) {
		return "", false
	}
	a, ok := t[i].(hclv2.TraverseAttr)
	return a.Name, ok
}

func normalTraversal(t hclv2.Traversal) hclv2.Traversal {
	out := make(hclv2.Traversal, len(t))
	for i, s := range t {
		switch s := s.(type) {
		case hclv2.TraverseRoot:
			s.Name = normal(s.Name)
			out[i] = s
		case hclv2.TraverseAttr:
			s.Name = normal(s.Name)
			out[i] = s
		default:
			out[i] = s
		}
	}
	return out
}

// jsonPath is t as steps into JSON text.
func jsonPath(t hclv2.Traversal) []step {
	path := make([]step, 0, len(t))
	for _, s := range t {
		switch s := s.(type) {
		case hclv2.TraverseAttr:
			path = append(path, step{name: s.Name})
		case hclv2.TraverseIndex:
			if s.Key.Type() == cty.String {
				path = append(path, step{name: s.Key.AsString()})
				continue
			}
			i, acc := s.Key.AsBigFloat().Int64()
			if acc != 0 || i < 0 || i > maxFile {
				return nil
			}
			path = append(path, step{index: int(i), isIndex: true})
		default:
			return nil
		}
	}
	return path
}

// traversalText is a traversal as one would write it.
func traversalText(t hclv2.Traversal) string {
	var b strings.Builder
	for _, s := range t {
		switch s := s.(type) {
		case hclv2.TraverseRoot:
			b.WriteString(s.Name)
		case hclv2.TraverseAttr:
			b.WriteString("." + s.Name)
		case hclv2.TraverseIndex:
			b.WriteString("[" + preview(s.Key) + "]")
		}
	}
	return b.String()
}

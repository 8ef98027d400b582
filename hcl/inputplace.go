package hcl

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// InputPlace is where the part of a step's input is written that a JSON Pointer
// leads to, or what it is part of, as far as the text tells: a step that refuses its
// input says which part by a pointer. It is the zero Range for a step without input.
func (w *Workflow) InputPlace(step int, pointer string) Range {
	x := w.impl.steps[step].input
	if x == nil {
		return Range{}
	}
	e := w.impl.written(x.node)
	for _, token := range strings.Split(pointer, "/")[1:] {
		part := partNamed(e, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if part == nil {
			break
		}
		e = w.impl.written(part)
	}
	return rangeOf(e.Range())
}

// partNamed is the expression of an element of a literal object or list; nil where
// it is none, or has no such element.
func partNamed(e hclsyntax.Expression, token string) hclsyntax.Expression {
	switch t := e.(type) {
	case *hclsyntax.ObjectConsExpr:
		for _, it := range t.Items {
			if key, ok := literalKey(it.KeyExpr); ok && key == token {
				return it.ValueExpr
			}
		}
	case *hclsyntax.TupleConsExpr:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(t.Exprs) {
			return t.Exprs[i]
		}
	}
	return nil
}

// written is the literal object or list that e is by way of locals; else e.
func (p *program) written(e hclsyntax.Expression) hclsyntax.Expression {
	at := unwrap(e)
	for range len(p.locals) {
		r, ok := at.(*refExpr)
		if !ok || r.kind != refLocal || len(r.rest) > 0 || r.index < 0 || p.locals[r.index].expr == nil || p.locals[r.index].cyclic {
			break
		}
		at = unwrap(p.locals[r.index].expr.node)
	}
	switch at.(type) {
	case *hclsyntax.ObjectConsExpr, *hclsyntax.TupleConsExpr:
		return at
	}
	return unwrap(e)
}

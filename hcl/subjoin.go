package hcl

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// joinSubflows settles what needs all names: which steps of a sub-workflow begin
// and end it, and so what depends_on and its facets stand for. Those inside others
// come first.
func (r *reader) joinSubflows() {
	named := r.namedSteps()
	for k := len(r.p.subs) - 1; k >= 0; k-- {
		sub := r.p.subs[k]
		if sub.set == nil {
			continue
		}
		r.settleWaits(sub.set, named)
		own, used := make(map[int]bool, len(sub.steps)), map[int]bool{}
		for _, i := range sub.steps {
			own[i] = true
		}
		for _, i := range sub.steps {
			begins := true
			for _, up := range named[i] {
				if own[up] {
					used[up], begins = true, false
				}
			}
			if begins {
				sub.sources = append(sub.sources, i)
			}
		}
		for _, i := range sub.steps {
			if !used[i] {
				sub.sinks = append(sub.sinks, i)
			}
		}
		for facet, at := range sub.facets {
			x := sub.status(r.w, facet)
			if sub.loop != nil {
				x = sub.collection(facet, r.p.newLocal(r.p.locals[at].name, sub.b.header(), x), sub.b.header())
			}
			r.p.locals[at].expr = x
		}
		if sub.loop != nil {
			sub.watch(r)
		}
	}
	r.settleWaits(r.fileSet, named)
	for i := range r.p.locals {
		if l := &r.p.locals[i]; l.expr == nil && len(r.p.subs) > 0 { // after an error
			l.expr = made(&hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: l.rng}, l.rng, nil)
		}
	}
}

// settleWaits enters what the depends_on in one set of files name.
func (r *reader) settleWaits(set *fileSet, named [][]int) {
	add := func(i int, up awaited) {
		steps := []int{up.step}
		if up.sub != nil {
			steps = up.sub.sinks
		}
		for _, s := range steps {
			named[i] = append(named[i], s)
			r.w.Steps[i].Facets = append(r.w.Steps[i].Facets, FacetRef{Step: s, Facet: sdk.FacetOutput, Kind: Hard, Order: true, Range: up.at})
		}
	}
	for _, w := range r.waits {
		if r.p.steps[w.step].set == set {
			add(w.step, w.up)
		}
	}
	for _, sub := range set.subs {
		for _, up := range sub.ups {
			for _, i := range sub.sources {
				add(i, up)
			}
		}
	}
}

// namedSteps lists for each step those that its expressions name, locals expanded.
// It is empty without sub-workflows, when nothing needs it.
func (r *reader) namedSteps() [][]int {
	p := r.p
	named := make([][]int, len(p.steps))
	if len(p.subs) == 0 {
		return named
	}
	for i := range p.steps {
		named[i] = p.namedBy(p.steps[i].expressions()...)
	}
	return named
}

// namedBy lists the steps that expressions name, with repetition.
func (p *program) namedBy(xs ...*expression) (steps []int) {
	seen := map[int]bool{}
	var stack []*refExpr
	for _, x := range xs {
		if x != nil {
			stack = append(stack, x.uses...)
		}
	}
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		switch {
		case u.kind == refFacet:
			steps = append(steps, u.index)
		case u.kind == refLocal && !seen[u.index]:
			seen[u.index] = true
			if x := p.locals[u.index].expr; x != nil {
				stack = append(stack, x.uses...)
			} else {
				steps = append(steps, p.facetSteps(u.index)...)
			}
		}
	}
	return steps
}

// facetSteps are the steps behind a facet of a sub-workflow, whose expression is
// not made yet.
func (p *program) facetSteps(at int) []int {
	for _, sub := range p.subs {
		for _, i := range sub.facets {
			if i == at {
				return sub.steps
			}
		}
	}
	return nil
}

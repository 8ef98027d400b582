package hcl

import (
	"fmt"
	"slices"
	"strings"
)

// graph is who names whom: nodes are the steps, then the locals. All
// algorithms on it keep their own stacks, because a chain may be as long as
// the file.
type graph struct {
	edges [][]edge // by node
}

// edge is one reference.
type edge struct {
	to int
	at Range
}

// graph collects the references between steps and locals.
func (r *reader) graph() *graph {
	n := len(r.p.steps)
	g := &graph{edges: make([][]edge, n+len(r.p.locals))}
	add := func(from int, x *expression) {
		if x == nil {
			return
		}
		for _, u := range x.uses {
			switch u.kind {
			case refFacet:
				g.edges[from] = append(g.edges[from], edge{u.index, rangeOf(u.SrcRange)})
			case refLocal:
				g.edges[from] = append(g.edges[from], edge{n + u.index, rangeOf(u.SrcRange)})
			}
		}
	}
	for i := range r.p.steps {
		for _, x := range r.p.steps[i].expressions() {
			add(i, x)
		}
		for _, f := range r.w.Steps[i].Facets {
			g.edges[i] = append(g.edges[i], edge{f.Step, f.Range})
		}
	}
	for i := range r.p.locals {
		add(n+i, r.p.locals[i].expr)
	}
	return g
}

func (r *reader) nodeName(n int) string {
	if n < len(r.p.steps) {
		return r.w.Steps[n].Address()
	}
	return r.p.locals[n-len(r.p.steps)].name
}

// knots returns the strongly connected components, each after those it names
// (Tarjan's order), so their concatenation is a topological order once there
// is no cycle.
func (g *graph) knots() [][]int {
	type visit struct{ node, next int }
	n := len(g.edges)
	index, low := make([]int, n), make([]int, n) // 0 = not seen
	onStack := make([]bool, n)
	var stack []int
	var work []visit
	var out [][]int
	count := 0
	for root := range n {
		if index[root] != 0 {
			continue
		}
		work = append(work[:0], visit{root, 0})
		for len(work) > 0 {
			v := &work[len(work)-1]
			if v.next == 0 {
				count++
				index[v.node], low[v.node] = count, count
				stack = append(stack, v.node)
				onStack[v.node] = true
			}
			if v.next < len(g.edges[v.node]) {
				to := g.edges[v.node][v.next].to
				v.next++
				switch {
				case index[to] == 0:
					work = append(work, visit{to, 0})
				case onStack[to]:
					low[v.node] = min(low[v.node], index[to])
				}
				continue
			}
			node := v.node
			work = work[:len(work)-1]
			if len(work) > 0 {
				up := work[len(work)-1].node
				low[up] = min(low[up], low[node])
			}
			if low[node] == index[node] {
				at := len(stack) - 1
				for stack[at] != node {
					at--
				}
				knot := slices.Clone(stack[at:])
				for _, k := range knot {
					onStack[k] = false
				}
				stack = stack[:at]
				out = append(out, knot)
			}
		}
	}
	return out
}

// maxVisits bounds the breadth-first searches in one knot together: from each of
// its nodes in a small knot, from the first ones in a large one.
const maxVisits = 200_000

// shortest returns a shortest cycle through one of the knot's first nodes, as
// nodes in the order of their references; nil when the knot is no cycle.
func (g *graph) shortest(knot []int) []int {
	slices.Sort(knot)
	s := search{g: g, from: make(map[int]int, len(knot)), inside: make(map[int]bool, len(knot))}
	for _, n := range knot {
		s.inside[n] = true
	}
	var best []int
	for _, start := range knot[:min(len(knot), max(1, maxVisits/len(knot)))] {
		if c := s.cycle(start); c != nil && (best == nil || len(c) < len(best)) {
			best = c
		}
		if len(best) == 1 {
			break
		}
	}
	return best
}

// search is a breadth-first search inside a knot.
type search struct {
	g      *graph
	inside map[int]bool
	from   map[int]int
	queue  []int
}

func (s *search) cycle(start int) []int {
	clear(s.from)
	s.queue = append(s.queue[:0], start)
	for i := 0; i < len(s.queue); i++ {
		n := s.queue[i]
		for _, e := range s.g.edges[n] {
			if e.to == start {
				cycle := []int{n}
				for n != start {
					n = s.from[n]
					cycle = append(cycle, n)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := s.from[e.to]; !seen && s.inside[e.to] {
				s.from[e.to] = n
				s.queue = append(s.queue, e.to)
			}
		}
	}
	return nil
}

// cycles reports one shortest cycle per knot, marks the locals in it, and puts
// the nodes into an order in which each comes after those it names.
func (r *reader) cycles() {
	g := r.graph()
	for _, knot := range g.knots() {
		cycle := g.shortest(knot)
		for _, n := range knot {
			r.order = append(r.order, n)
			if i := n - len(r.p.steps); i >= 0 {
				r.p.locals[i].cyclic = cycle != nil
			}
		}
		if cycle != nil {
			r.reportCycle(g, cycle)
		}
	}
}

// maxEdgesShown is how many references of a cycle are written out.
const maxEdgesShown = 12

func (r *reader) reportCycle(g *graph, cycle []int) {
	// Begin with the reference that comes first in the text.
	first := 0
	edges := make([]Range, len(cycle))
	for i, n := range cycle {
		to := cycle[(i+1)%len(cycle)]
		for _, e := range g.edges[n] {
			if e.to == to {
				edges[i] = e.at
				break
			}
		}
		if a, b := edges[i], edges[first]; a.File < b.File || a.File == b.File && a.Start.Byte < b.Start.Byte {
			first = i
		}
	}
	if len(cycle) == 1 {
		name := r.nodeName(cycle[0])
		r.ds.report(Error, "dependency-cycle", edges[0], "Reference to itself", "%s names itself, so there is no value to begin with. Remove the reference.", name)
		return
	}
	var b strings.Builder
	for k := range cycle {
		i := (first + k) % len(cycle)
		if k == maxEdgesShown-1 && len(cycle) > maxEdgesShown {
			fmt.Fprintf(&b, "  … and %d more, until %s needs %s again\n", len(cycle)-k, r.nodeName(cycle[(first+len(cycle)-1)%len(cycle)]), r.nodeName(cycle[first]))
			break
		}
		fmt.Fprintf(&b, "  %s needs %s\n      %s: %s\n", r.nodeName(cycle[i]), r.nodeName(cycle[(i+1)%len(cycle)]), edges[i], r.sourceLine(edges[i]))
	}
	r.ds.report(Error, "dependency-cycle", edges[first], fmt.Sprintf("Cycle of %d references", len(cycle)), "None of these can be evaluated first:\n%sRemove one of these references.", b.String())
}

// sourceLine is the line of the text in which r begins.
func (r *reader) sourceLine(at Range) string {
	for i := range r.w.Files {
		if f := &r.w.Files[i]; f.Path == at.File {
			line, _ := lineAt(f.Bytes, at.Start.Byte)
			return strings.TrimSpace(string(line))
		}
	}
	return ""
}

package main

import (
	"cmp"
	"math"
	"slices"
)

// layout is where a graph is drawn: the centres of its nodes, and of each edge
// the points that its line passes.
type layout struct {
	width, height float64
	nodes         []point
	edges         [][]point // from the tail to the head
}

type point struct{ x, y float64 }

// The distances of a layout.
const (
	layoutMargin = 24
	nodeGap      = 20 // between boxes of one layer
	lineGap      = 8  // between lines that pass a layer
	layerGap     = 44 // at least; more where lines go far to the side
)

// layOut draws a graph in layers: every edge points down, but for those that
// close a cycle, which point up. widths are those of the boxes, which are all
// of one height; an edge is a pair of node numbers. Boxes do not overlap, and
// no line crosses a box.
//
// It is Sugiyama's method: layers by longest path, an order within each layer
// that crosses few lines (barycentres), then places as near as the boxes allow
// to what they are connected with. Lines that pass layers go through places of
// their own; those from one node share them.
func layOut(widths []float64, height float64, edges [][2]int) layout {
	l := &layering{n: len(widths), widths: slices.Clone(widths)}
	l.turn(edges)
	l.rank()
	l.split()
	l.pass()
	l.order()
	l.place()
	return l.draw(height, edges)
}

// layering is a layout in the making. Places beyond the first n are where
// lines pass a layer.
type layering struct {
	n      int
	widths []float64 // by place
	turned []bool    // by edge: drawn from head to tail
	arcs   [][2]int  // by edge, turned so that there is no cycle
	down   [][]int32 // by node, along arcs
	topo   []int32
	layer  []int     // by place
	layers [][]int32 // places from left to right
	above  [][]int32 // by place: what it is linked with one layer up
	below  [][]int32
	via    map[[2]int]int32 // node and layer: where its lines pass
	x      []float64        // by place: the centre
}

// turn makes the graph free of cycles: an edge to a node that is being visited
// is turned round. A self-loop is no arc.
func (l *layering) turn(edges [][2]int) {
	out := make([][]int32, l.n) // edge numbers
	for k, e := range edges {
		out[e[0]] = append(out[e[0]], int32(k))
	}
	l.turned, l.arcs = make([]bool, len(edges)), make([][2]int, len(edges))
	const unseen, open, done = 0, 1, 2
	state, next := make([]uint8, l.n), make([]int, l.n)
	var stack []int32
	for root := range int32(l.n) {
		if state[root] != unseen {
			continue
		}
		stack = append(stack[:0], root)
		state[root] = open
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if next[at] == len(out[at]) {
				state[at] = done
				l.topo = append(l.topo, at)
				stack = stack[:len(stack)-1]
				continue
			}
			k := out[at][next[at]]
			next[at]++
			switch to := edges[k][1]; state[to] {
			case open:
				l.turned[k] = true
			case unseen:
				state[to] = open
				stack = append(stack, int32(to))
			}
		}
	}
	slices.Reverse(l.topo)
	l.down = make([][]int32, l.n)
	for k, e := range edges {
		if l.turned[k] {
			e[0], e[1] = e[1], e[0]
		}
		l.arcs[k] = e
		if e[0] != e[1] {
			l.down[e[0]] = append(l.down[e[0]], int32(e[1]))
		}
	}
}

// rank puts each node one layer below the lowest of those above it, and a node
// with nothing above it right over the first that needs it.
func (l *layering) rank() {
	l.layer = make([]int, l.n)
	root := make([]bool, l.n)
	for i := range root {
		root[i] = true
	}
	for _, u := range l.topo {
		for _, d := range l.down[u] {
			l.layer[d] = max(l.layer[d], l.layer[u]+1)
			root[d] = false
		}
	}
	for u := range l.n {
		if root[u] && len(l.down[u]) > 0 {
			first := l.layer[l.down[u][0]]
			for _, d := range l.down[u] {
				first = min(first, l.layer[d])
			}
			l.layer[u] = first - 1
		}
	}
}

// split gives the nodes of a rank that is too wide to be looked at several
// layers. Relatives stay together: they are neighbours in l.topo.
func (l *layering) split() {
	most := max(16, int(math.Sqrt(3*float64(l.n))))
	ranks := 0
	for _, y := range l.layer {
		ranks = max(ranks, y+1)
	}
	size := make([]int, ranks)
	for _, y := range l.layer {
		size[y]++
	}
	first, rows := make([]int, ranks), 0
	for r, n := range size {
		first[r] = rows
		rows += (n + most - 1) / most
	}
	placed := make([]int, ranks)
	for _, u := range l.topo {
		r := l.layer[u]
		split := (size[r] + most - 1) / most
		l.layer[u] = first[r] + placed[r]*split/size[r]
		placed[r]++
	}
}

// pass makes places for lines that go further than one layer, and links
// between neighbouring layers.
func (l *layering) pass() {
	l.via = map[[2]int]int32{}
	l.above, l.below = make([][]int32, l.n), make([][]int32, l.n)
	linked := map[[2]int32]bool{}
	link := func(a, b int32) {
		if !linked[[2]int32{a, b}] {
			linked[[2]int32{a, b}] = true
			l.below[a] = append(l.below[a], b)
			l.above[b] = append(l.above[b], a)
		}
	}
	for _, e := range l.arcs {
		if e[0] == e[1] {
			continue
		}
		at := int32(e[0])
		for y := l.layer[e[0]] + 1; y < l.layer[e[1]]; y++ {
			p, ok := l.via[[2]int{e[0], y}]
			if !ok {
				p = int32(len(l.layer))
				l.via[[2]int{e[0], y}] = p
				l.layer, l.widths = append(l.layer, y), append(l.widths, 0)
				l.above, l.below = append(l.above, nil), append(l.below, nil)
			}
			link(at, p)
			at = p
		}
		link(at, int32(e[1]))
	}
}

// order sorts each layer by the mean position of what its places are linked
// with, down and up in turn, and keeps the order with the fewest crossings.
func (l *layering) order() {
	for p, y := range l.layer {
		for len(l.layers) <= y {
			l.layers = append(l.layers, nil)
		}
		l.layers[y] = append(l.layers[y], int32(p))
	}
	pos := make([]int, len(l.layer))
	number := func() {
		for _, ps := range l.layers {
			for k, p := range ps {
				pos[p] = k
			}
		}
	}
	mean := make([]float64, len(l.layer))
	sweep := func(y int, links [][]int32) {
		for k, p := range l.layers[y] {
			mean[p] = float64(k) // without links it stays where it is
			if n := len(links[p]); n > 0 {
				sum := 0
				for _, q := range links[p] {
					sum += pos[q]
				}
				mean[p] = float64(sum) / float64(n)
			}
		}
		slices.SortStableFunc(l.layers[y], func(a, b int32) int { return cmp.Compare(mean[a], mean[b]) })
		for k, p := range l.layers[y] {
			pos[p] = k
		}
	}
	number()
	best, least := copyLayers(l.layers), l.crossings(pos)
	for range 8 {
		for y := 1; y < len(l.layers); y++ {
			sweep(y, l.above)
		}
		for y := len(l.layers) - 2; y >= 0; y-- {
			sweep(y, l.below)
		}
		c := l.crossings(pos)
		if c >= least {
			break
		}
		best, least = copyLayers(l.layers), c
	}
	l.layers = best
}

func copyLayers(layers [][]int32) [][]int32 {
	out := make([][]int32, len(layers))
	for y := range layers {
		out[y] = slices.Clone(layers[y])
	}
	return out
}

// crossings counts crossing links: inversions, with a tree of counts per layer.
func (l *layering) crossings(pos []int) int {
	total := 0
	var ends []int
	for y := 0; y+1 < len(l.layers); y++ {
		size := len(l.layers[y+1])
		tree := make([]int, size+1)
		seen := 0
		for _, p := range l.layers[y] {
			ends = ends[:0]
			for _, q := range l.below[p] {
				ends = append(ends, pos[q])
			}
			for _, e := range ends { // those already there that lie to the right
				upTo := 0
				for k := e + 1; k > 0; k -= k & -k {
					upTo += tree[k]
				}
				total += seen - upTo
			}
			for _, e := range ends {
				for k := e + 1; k <= size; k += k & -k {
					tree[k]++
				}
			}
			seen += len(ends)
		}
	}
	return total
}

// place gives every place its x: near the mean of what it is linked with, in
// order and without overlap.
func (l *layering) place() {
	l.x = make([]float64, len(l.layer))
	for _, ps := range l.layers {
		l.settle(ps, func(int32) float64 { return 0 })
	}
	toward := func(links ...[][]int32) func(p int32) float64 {
		return func(p int32) float64 {
			sum, n := 0.0, 0
			for _, side := range links {
				for _, q := range side[p] {
					sum += l.x[q]
					n++
				}
			}
			if n == 0 {
				return l.x[p]
			}
			return sum / float64(n)
		}
	}
	for range 6 {
		for y := 1; y < len(l.layers); y++ {
			l.settle(l.layers[y], toward(l.above))
		}
		for y := len(l.layers) - 2; y >= 0; y-- {
			l.settle(l.layers[y], toward(l.below))
		}
	}
	for _, ps := range l.layers {
		l.settle(ps, toward(l.above, l.below))
	}
	left := 0.0
	for p, x := range l.x {
		left = min(left, x-l.widths[p]/2)
	}
	for p := range l.x {
		l.x[p] -= left
	}
}

// settle places one layer: the sum of squares of the distances to where the
// places want to be is least (isotonic regression by pooling neighbours). A
// place of a line pulls harder than a box, so that long lines are straight.
func (l *layering) settle(ps []int32, want func(p int32) float64) {
	type pool struct {
		sum, weight float64 // of wishes, less the offset in the layer
		n           int
	}
	offset, at := make([]float64, len(ps)), 0.0
	var pools []pool
	for k, p := range ps {
		if k > 0 {
			gap := float64(nodeGap)
			if int(p) >= l.n && int(ps[k-1]) >= l.n {
				gap = lineGap
			}
			at += (l.widths[ps[k-1]]+l.widths[p])/2 + gap
		}
		offset[k] = at
		weight := 1.0
		if int(p) >= l.n {
			weight = 4
		}
		pools = append(pools, pool{(want(p) - at) * weight, weight, 1})
		for len(pools) > 1 {
			a, b := &pools[len(pools)-2], pools[len(pools)-1]
			if a.sum/a.weight <= b.sum/b.weight {
				break
			}
			a.sum, a.weight, a.n = a.sum+b.sum, a.weight+b.weight, a.n+b.n
			pools = pools[:len(pools)-1]
		}
	}
	k := 0
	for _, g := range pools {
		for range g.n {
			l.x[ps[k]] = g.sum/g.weight + offset[k]
			k++
		}
	}
}

// draw gives layers their height and edges their points.
func (l *layering) draw(height float64, edges [][2]int) layout {
	out := layout{nodes: make([]point, l.n), edges: make([][]point, len(edges))}
	top := make([]float64, len(l.layers)+1)
	top[0] = layoutMargin
	for y, ps := range l.layers {
		far := 0.0
		for _, p := range ps {
			for _, q := range l.below[p] {
				far = max(far, l.x[q]-l.x[p], l.x[p]-l.x[q])
			}
		}
		top[y+1] = top[y] + height + layerGap + min(far/12, 240)
	}
	for p, x := range l.x {
		if p < l.n {
			out.nodes[p] = point{x + layoutMargin, top[l.layer[p]] + height/2}
		}
		out.width = max(out.width, x+l.widths[p]/2)
	}
	out.width += 2 * layoutMargin
	if len(l.layers) > 0 {
		out.height = top[len(l.layers)-1] + height + layoutMargin
	}
	for k, e := range l.arcs {
		u, v := e[0], e[1]
		if u == v { // beside the box, where the gap is
			c, right := out.nodes[u], out.nodes[u].x+l.widths[u]/2
			out.edges[k] = []point{{right - 8, c.y + height/2}, {right + nodeGap/3, c.y + height/2}, {right + nodeGap/3, c.y - height/2}, {right - 8, c.y - height/2}}
			continue
		}
		ps := []point{{out.nodes[u].x, out.nodes[u].y + height/2}}
		for y := l.layer[u] + 1; y < l.layer[v]; y++ {
			x := l.x[l.via[[2]int{u, y}]] + layoutMargin
			ps = append(ps, point{x, top[y]}, point{x, top[y] + height})
		}
		ps = append(ps, point{out.nodes[v].x, out.nodes[v].y - height/2})
		if l.turned[k] {
			slices.Reverse(ps)
		}
		out.edges[k] = ps
	}
	return out
}

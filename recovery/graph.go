package recovery

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// RefKind says what an unsuccessful upstream means for the step that names it.
type RefKind uint8

// The kinds of reference.
const (
	Hard     RefKind = iota // the step is skipped
	Optional                // the value is absent
	Soft                    // the facet has a value in any case
)

// Ref is one upstream facet that a step names.
type Ref struct {
	Step  int32
	Facet sdk.Facet
	Kind  RefKind
	Order bool // from depends_on: its value is not used, only its digest
	// Shared is how many of its keys, from the first, an instance has in common with
	// the one that it names, and Follows, if not 0, the number of the key that is its
	// last besides. With none of both it names the whole collection, else it waits
	// for no other instances than those with these keys.
	Shared, Follows int32
}

// Paired reports whether an instance of the step names an instance of the other one.
func (r *Ref) Paired() bool { return r.Shared > 0 || r.Follows > 0 }

// Node is a step as the graph needs it.
type Node struct {
	Address string
	Refs    []Ref // in the order of the local key's holes: `when`, `for_each`, the rest
	When    int   // how many of Refs belong to `when`
	Each    int   // how many after those belong to `for_each`
	Extra   []Ref // waited for like the others, but in no key: what conditions and fallbacks name
}

// Graph is the validated shape of a workflow: nodes by number, edges both
// ways, a topological order. It is immutable and safe for concurrent use.
type Graph struct {
	addresses []string
	refStart  []int32
	refs      []Ref // of node i: those in its key, then the extra ones
	extra     []int32
	when      []int32
	each      []int32
	up, down  adjacency
	order     []int32

	once  sync.Once
	named map[string]struct{} // the addresses, made when first asked for
}

// adjacency holds the neighbours of node i in list[start[i]:start[i+1]],
// without repetition, ascending.
type adjacency struct{ start, list []int32 }

func (a adjacency) of(i int32) []int32 { return a.list[a.start[i]:a.start[i+1]] }

// CycleError is what NewGraph returns for a graph with a cycle.
type CycleError struct {
	Path []int32 // node numbers; each needs the next, the last needs the first
	text string
}

func (e *CycleError) Error() string { return "dependency cycle: " + e.text }

// NewGraph builds a graph. A reference to a node that does not exist is a bug
// of the caller and panics; a cycle is a *CycleError.
func NewGraph(nodes []Node) (*Graph, error) {
	n := len(nodes)
	total := 0
	for i := range nodes {
		total += len(nodes[i].Refs) + len(nodes[i].Extra)
	}
	g := &Graph{
		addresses: make([]string, n),
		refStart:  make([]int32, n+1),
		refs:      make([]Ref, 0, total),
		extra:     make([]int32, n),
		when:      make([]int32, n),
		each:      make([]int32, n),
	}
	up := adjacency{start: make([]int32, n+1), list: make([]int32, 0, total)}
	for i := range nodes {
		g.addresses[i], g.when[i] = nodes[i].Address, int32(nodes[i].When)
		g.each[i], g.extra[i] = int32(nodes[i].Each), int32(len(nodes[i].Extra))
		g.refs = append(append(g.refs, nodes[i].Refs...), nodes[i].Extra...)
		g.refStart[i+1] = int32(len(g.refs))
		from := len(up.list)
		for _, r := range g.AllRefs(int32(i)) {
			if r.Step < 0 || int(r.Step) >= n {
				panic(fmt.Sprintf("recovery: node %d of %d names node %d", i, n, r.Step))
			}
			up.list = append(up.list, r.Step)
		}
		own := up.list[from:]
		slices.Sort(own)
		up.list = up.list[:from+len(slices.Compact(own))]
		up.start[i+1] = int32(len(up.list))
	}
	g.up, g.down = up, invert(up, n)
	return g, g.sort()
}

// invert turns every edge round.
func invert(a adjacency, n int) adjacency {
	b := adjacency{start: make([]int32, n+1), list: make([]int32, len(a.list))}
	for _, j := range a.list {
		b.start[j+1]++
	}
	for i := range n {
		b.start[i+1] += b.start[i]
	}
	next := slices.Clone(b.start[:n])
	for i := range int32(n) {
		for _, j := range a.of(i) {
			b.list[next[j]] = i
			next[j]++
		}
	}
	return b
}

// sort fills g.order or finds a cycle. Nodes that are numbered in order already
// keep it, so that a plan goes through memory from front to back; else it is
// Kahn's algorithm.
func (g *Graph) sort() error {
	n := int32(g.Len())
	if g.ordered() {
		g.order = make([]int32, n)
		for i := range g.order {
			g.order[i] = int32(i)
		}
		return nil
	}
	unmet := make([]int32, n)
	g.order = make([]int32, 0, n)
	for i := range n {
		if unmet[i] = int32(len(g.up.of(i))); unmet[i] == 0 {
			g.order = append(g.order, i)
		}
	}
	for head := 0; head < len(g.order); head++ {
		for _, d := range g.down.of(g.order[head]) {
			if unmet[d]--; unmet[d] == 0 {
				g.order = append(g.order, d)
			}
		}
	}
	if len(g.order) == int(n) {
		return nil
	}
	return g.cycle(unmet)
}

// ordered reports whether every node comes after its upstreams.
func (g *Graph) ordered() bool {
	for i := range int32(g.Len()) {
		if us := g.up.of(i); len(us) > 0 && us[len(us)-1] >= i {
			return false
		}
	}
	return true
}

// cycle walks upstream from any node that is left until it meets itself.
func (g *Graph) cycle(unmet []int32) error {
	at := int32(slices.IndexFunc(unmet, func(u int32) bool { return u > 0 }))
	seen := make([]int32, g.Len()) // position in path + 1
	var path []int32
	for seen[at] == 0 {
		path = append(path, at)
		seen[at] = int32(len(path))
		for _, u := range g.up.of(at) {
			if unmet[u] > 0 {
				at = u
				break
			}
		}
	}
	path = path[seen[at]-1:]
	names := make([]string, 0, len(path)+1)
	for _, i := range path {
		names = append(names, g.addresses[i])
	}
	return &CycleError{Path: path, text: strings.Join(append(names, names[0]), " needs ")}
}

// Len is the number of nodes.
func (g *Graph) Len() int { return len(g.addresses) }

// Address is the step's name in messages and records.
func (g *Graph) Address(i int32) string { return g.addresses[i] }

// Has reports whether a node has this address.
func (g *Graph) Has(address string) bool {
	g.once.Do(func() {
		g.named = make(map[string]struct{}, len(g.addresses))
		for _, a := range g.addresses {
			g.named[a] = struct{}{}
		}
	})
	_, ok := g.named[address]
	return ok
}

// Upstream lists the nodes that i needs, ascending. The slice is the graph's.
func (g *Graph) Upstream(i int32) []int32 { return g.up.of(i) }

// Downstream lists the nodes that need i, ascending. The slice is the graph's.
func (g *Graph) Downstream(i int32) []int32 { return g.down.of(i) }

// Refs lists the facets in the key of i: those of `when`, then those of
// `for_each`, then the rest. The slice is the graph's.
func (g *Graph) Refs(i int32) []Ref { return g.refs[g.refStart[i] : g.refStart[i+1]-g.extra[i]] }

// AllRefs is Refs and behind it the extra ones, which i waits for as well.
func (g *Graph) AllRefs(i int32) []Ref { return g.refs[g.refStart[i]:g.refStart[i+1]] }

// WhenRefs is the part of Refs that belongs to `when`.
func (g *Graph) WhenRefs(i int32) []Ref { return g.Refs(i)[:g.when[i]] }

// EachRefs is the part of Refs that belongs to `for_each`.
func (g *Graph) EachRefs(i int32) []Ref { return g.Refs(i)[g.when[i] : g.when[i]+g.each[i]] }

// Order lists the nodes so that every node comes after its upstreams. The slice
// is the graph's.
func (g *Graph) Order() []int32 { return g.order }

// Occurrences numbers equal twins: steps whose local keys and upstream
// structures (with their numbers) are equal get 0, 1, 2, … in the order of
// their addresses; a step without a twin gets 0.
func (g *Graph) Occurrences(locals []checkpoint.Fingerprint) []int {
	numbers := make([]int, g.Len())
	// Only nodes that share a local key can be twins, and only their
	// structures and those above them need a hash.
	count := make(map[checkpoint.Fingerprint]int, g.Len())
	for _, l := range locals {
		count[l]++
	}
	if len(count) == g.Len() {
		return numbers
	}
	relevant := make([]bool, g.Len())
	for k := len(g.order) - 1; k >= 0; k-- {
		i := g.order[k]
		if relevant[i] = relevant[i] || count[locals[i]] > 1; relevant[i] {
			for _, u := range g.up.of(i) {
				relevant[u] = true
			}
		}
	}
	// Twins have equal upstream structures, so they lie on one level: number
	// the graph level by level.
	structure := make([]checkpoint.Fingerprint, g.Len())
	level := g.levels()
	byLevel := slices.Clone(g.order)
	slices.SortStableFunc(byLevel, func(a, b int32) int { return int(level[a] - level[b]) })
	for from := 0; from < len(byLevel); {
		to := from
		for to < len(byLevel) && level[byLevel[to]] == level[byLevel[from]] {
			to++
		}
		twins := map[checkpoint.Fingerprint][]int32{}
		for _, i := range byLevel[from:to] {
			if !relevant[i] {
				continue
			}
			h := checkpoint.NewHasher("engine/structure/1")
			h.Fingerprint(locals[i])
			for _, r := range g.Refs(i) {
				h.Int(int(r.Facet))
				h.Fingerprint(structure[r.Step])
				h.Int(numbers[r.Step])
			}
			structure[i] = h.Sum()
			twins[structure[i]] = append(twins[structure[i]], i)
		}
		for _, is := range twins { // each group by itself: the order of groups is not seen
			slices.SortFunc(is, func(a, b int32) int { return strings.Compare(g.addresses[a], g.addresses[b]) })
			for k, i := range is {
				numbers[i] = k
			}
		}
		from = to
	}
	return numbers
}

// levels gives each node the length of the longest path above it.
func (g *Graph) levels() []int32 {
	level := make([]int32, g.Len())
	for _, i := range g.order {
		for _, u := range g.up.of(i) {
			level[i] = max(level[i], level[u]+1)
		}
	}
	return level
}

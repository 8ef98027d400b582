package recovery_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// stored builds a graph of n steps with up to three upstreams each, and an
// index in which every step has a current record except those that stale
// names.
func stored(tb testing.TB, n int, refs func(i int) []recovery.Ref, stale func(i int) bool) (*recovery.Graph, []recovery.Definition, *checkpoint.Index) {
	nodes := make([]recovery.Node, n)
	defs := make([]recovery.Definition, n)
	heads := make([]checkpoint.Head, n)
	ix := checkpoint.NewIndex()
	for i := range nodes {
		nodes[i] = recovery.Node{Address: fmt.Sprintf("step.s%07d", i), Refs: refs(i)}
		defs[i].Local = fingerprint(nodes[i].Address)
		h := &heads[i]
		*h = checkpoint.Head{Step: nodes[i].Address, Seq: checkpoint.Seq(i + 1), Run: "r_1", Chain: "r_1", Local: defs[i].Local, Output: sdk.Sum(defs[i].Local[:])}
		h.Data.Seq = h.Seq
		for _, r := range nodes[i].Refs {
			h.Lineage = append(h.Lineage, heads[r.Step].Output)
		}
		h.Plan = checkpoint.PlanKey(h.Local, sdk.Digest{}, h.Lineage)
		if stale(i) {
			defs[i].Local[0] ^= 1
		}
		ix.Add(h)
	}
	g, err := recovery.NewGraph(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return g, defs, ix
}

func layered(i int) (rs []recovery.Ref) {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	for range min(i, 1+r.IntN(3)) {
		rs = append(rs, recovery.Ref{Step: int32(max(0, i-1-r.IntN(40)))})
	}
	return rs
}

func chain(i int) []recovery.Ref {
	if i == 0 {
		return nil
	}
	return []recovery.Ref{{Step: int32(i - 1)}}
}

// BenchmarkPlan measures the graph work of a plan: one forward pass and the
// backward walk, heads bound. failed: one step in the middle is missing and all
// others are current; first: there are no records; bind: finding the heads. A
// process plans once: once leaves out what collecting the garbage of the plans
// before takes.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1200, 1_000_000} {
		failed := func(i int) bool { return i == n/2 }
		plan := func(b *testing.B, ix *checkpoint.Index, g *recovery.Graph, defs []recovery.Definition, between func()) {
			heads, targets := recovery.Bind(g, ix), recovery.Targets(g, nil)
			b.ReportAllocs()
			for b.Loop() {
				between()
				recovery.NewPlan(g, defs, heads, ix, recovery.Options{Run: "r_1", Chain: "r_1", Targets: targets})
			}
		}
		b.Run(fmt.Sprintf("failed-%d", n), func(b *testing.B) {
			g, defs, ix := stored(b, n, layered, failed)
			plan(b, ix, g, defs, func() {})
		})
		if n == 1_000_000 {
			b.Run(fmt.Sprintf("once-%d", n), func(b *testing.B) {
				g, defs, ix := stored(b, n, layered, failed)
				defer debug.SetGCPercent(debug.SetGCPercent(-1))
				plan(b, ix, g, defs, func() {
					b.StopTimer()
					runtime.GC()
					b.StartTimer()
				})
			})
		}
		b.Run(fmt.Sprintf("first-%d", n), func(b *testing.B) {
			g, defs, _ := stored(b, n, layered, failed)
			plan(b, checkpoint.NewIndex(), g, defs, func() {})
		})
		b.Run(fmt.Sprintf("bind-%d", n), func(b *testing.B) {
			g, _, ix := stored(b, n, layered, failed)
			for b.Loop() {
				recovery.Bind(g, ix)
			}
		})
	}
}

// TestLargeGraphs: chains and fans plan without recursion, and a chain of
// husks, where one step falls after the other, in linear time.
func TestLargeGraphs(t *testing.T) {
	t.Parallel()
	const n = 50_000
	shapes := map[string]func(i int) []recovery.Ref{
		"chain": chain,
		"fan": func(i int) []recovery.Ref {
			if i == 0 {
				return nil
			}
			return []recovery.Ref{{Step: 0}}
		},
		"fan in": func(i int) (rs []recovery.Ref) {
			if i == n-1 {
				for u := range int32(n - 1) {
					rs = append(rs, recovery.Ref{Step: u})
				}
			}
			return rs
		},
	}
	for name, refs := range shapes {
		g, defs, ix := stored(t, n, refs, func(int) bool { return false })
		o := recovery.Options{Run: "r_1", Chain: "r_1", Targets: recovery.Targets(g, nil)}
		p := recovery.NewPlan(g, defs, recovery.Bind(g, ix), ix, o)
		for i := range p.Len() {
			s := p.Step(int32(i))
			if s.Verdict != recovery.Current {
				t.Fatalf("%s: step %d is %v after a success", name, i, s)
			}
		}
		// Everything but the targets was lost: all of it runs.
		o.Lost = map[checkpoint.Seq]bool{}
		for i := range n - 1 {
			o.Lost[checkpoint.Seq(i+1)] = true
		}
		defs[n-1].Local[0] ^= 1
		p = recovery.NewPlan(g, defs, recovery.Bind(g, ix), ix, o)
		for i := range p.Len() {
			s := p.Step(int32(i))
			if (s.Action == recovery.Take || s.Action == recovery.Untouched) && (name != "fan" || i == 0) {
				t.Fatalf("%s: step %d is %v though its output is lost", name, i, s)
			}
		}
	}
}

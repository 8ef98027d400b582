package hcl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestShortestCycle compares with a search over all pairs on small graphs.
func TestShortestCycle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "nodes")
		g := &graph{edges: make([][]edge, n)}
		dist := make([][]int, n)
		const far = 1 << 20
		for i := range n {
			dist[i] = slices.Repeat([]int{far}, n)
			for _, to := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(rt, "edges") {
				g.edges[i] = append(g.edges[i], edge{to: to})
				dist[i][to] = 1
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					dist[i][j] = min(dist[i][j], dist[i][k]+dist[k][j])
				}
			}
		}
		place := make([]int, n)
		count := 0
		for _, knot := range g.knots() {
			want := far
			for _, i := range knot {
				want = min(want, dist[i][i])
				for _, j := range knot {
					if i != j && dist[i][j] >= far {
						rt.Fatalf("%d does not reach %d of its knot", i, j)
					}
				}
			}
			cycle := g.shortest(knot)
			if (cycle == nil) != (want >= far) || cycle != nil && len(cycle) != want {
				rt.Fatalf("cycle %v, the shortest has %d", cycle, want)
			}
			for i, a := range cycle {
				b := cycle[(i+1)%len(cycle)]
				if !slices.ContainsFunc(g.edges[a], func(e edge) bool { return e.to == b }) {
					rt.Fatalf("%v is no cycle: %d does not name %d", cycle, a, b)
				}
			}
			count++
			for _, i := range knot {
				place[i] = count
			}
		}
		for i := range n {
			for _, e := range g.edges[i] {
				if place[e.to] > place[i] {
					rt.Fatalf("%d comes before %d, which it names", i, e.to)
				}
			}
		}
	})
}

// chain, fan and ring are large flows, as source.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(header + "step \"s0\" { uses = plugin.p.run }\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "step \"s%d\" {\n  uses  = plugin.p.run\n  input = { text = step.s%d.output.text, n = %d }\n}\n", i, i-1, i)
	}
	return b.String()
}

func fan(n int) string {
	var b, all strings.Builder
	b.WriteString(header + "step \"s0\" { uses = plugin.p.run }\n")
	for i := 1; i < n-1; i++ {
		fmt.Fprintf(&b, "step \"s%d\" {\n  uses  = plugin.p.run\n  input = { text = step.s0.output.text }\n}\n", i)
		fmt.Fprintf(&all, "    step.s%d.output.text,\n", i)
	}
	fmt.Fprintf(&b, "step \"join\" {\n  uses  = plugin.p.run\n  input = { all = [\n%s  ] }\n}\n", all.String())
	return b.String()
}

func localChain(n int) string {
	var b strings.Builder
	b.WriteString(header + "locals {\n  l0 = 1\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  l%d = local.l%d + 1\n", i, i-1)
	}
	fmt.Fprintf(&b, "}\nstep \"s\" {\n  uses  = plugin.p.run\n  input = { n = local.l%d }\n}\n", n-1)
	return b.String()
}

// TestLargeFlows: depth costs no stack, and the answers are right at the end of
// the chain.
func TestLargeFlows(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, c := range map[string]struct {
		src    string
		facets int
		input  string
	}{
		"chain":  {chain(n), 1, `{"n":19999,"text":"x"}`},
		"fan":    {fan(5_000), 4_998, `{"all":["x"` + strings.Repeat(`,"x"`, 4_997) + `]}`},
		"locals": {localChain(n), 0, `{"n":20000}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(c.src)}})
			if ds.HasErrors() {
				t.Fatal(ds)
			}
			e := w.Evaluator(mustBind(t, w), testRun)
			last := len(w.Steps) - 1
			b, ds := e.Input(last, Scope{Up: answers(`{"text":"x"}`)})
			if len(w.Steps[last].Facets) != c.facets || string(b) != c.input || ds.HasErrors() {
				t.Errorf("%d facets, input %.80s %s", len(w.Steps[last].Facets), b, explain(ds))
			}
			if _, ds := e.Identity(last); ds.HasErrors() {
				t.Error(ds)
			}
		})
	}
	t.Run("ring", func(t *testing.T) {
		t.Parallel()
		src := strings.Replace(chain(5_000), "step \"s0\" { uses", "step \"s0\" {\n  depends_on = [step.s4999]\n  uses", 1)
		src = strings.Replace(src, "plugin.p.run }\n", "plugin.p.run\n}\n", 1)
		if _, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(src)}}); len(ds) != 1 || ds[0].Summary != "Cycle of 5000 references" {
			t.Errorf("got %d diagnostics, the first %.200s", len(ds), ds)
		}
	})
}

// TestDoublingLocals: a chain of locals that each name the one before twice is
// as cheap as it is short.
func TestDoublingLocals(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("variable \"v\" { default = 0 }\nlocals {\n l0 = var.v\n")
	for i := 1; i <= 64; i++ {
		fmt.Fprintf(&b, " l%d = local.l%d + local.l%[2]d\n", i, i-1)
	}
	b.WriteString("}\nstep \"z\" {\n uses = plugin.p.run\n input = { a = local.l64 }\n}\n")
	w, e := mustEvaluator(t, b.String())
	if got, ds := e.Input(0, Scope{}); string(got) != `{"a":0}` || ds.HasErrors() {
		t.Errorf("got %s %s", got, explain(ds))
	}
	id, ds := e.Identity(0)
	if ds.HasErrors() || len(id.Values) != 1 || len(w.Steps[0].Facets) != 0 {
		t.Errorf("%+v %s", id, explain(ds))
	}
}

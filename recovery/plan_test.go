package recovery_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

var update = flag.Bool("update", false, "rewrite the golden plans")

// TestPlans reads testdata/plan/*.txtar: a graph, the checkpoints that exist,
// options, and the plan that follows. The words are explained in
// testdata/plan/README.md; adding a case needs no Go.
func TestPlans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/plan/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plan cases: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			c := planCase{index: map[string]int32{}, heads: map[string]*checkpoint.Head{}, ix: checkpoint.NewIndex()}
			var want string
			for _, s := range ar.Files {
				switch s.Name {
				case "graph":
					c.graph(t, string(s.Data))
				case "store":
					c.store(t, string(s.Data))
				case "options":
					c.options(t, string(s.Data))
				case "plan":
					want = string(s.Data)
				}
			}
			got := c.plan(t)
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("plan differs (-want +got):\n%s", cmp.Diff(want, got))
			}
			for i := range ar.Files {
				if ar.Files[i].Name == "plan" {
					ar.Files[i].Data = []byte(got)
				}
			}
			if err := os.WriteFile(f, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type planCase struct {
	nodes []recovery.Node
	defs  []recovery.Definition
	index map[string]int32
	heads map[string]*checkpoint.Head
	ix    *checkpoint.Index
	seq   checkpoint.Seq
	o     recovery.Options
	named bool
}

func fingerprint(s string) checkpoint.Fingerprint {
	return checkpoint.Fingerprint(sdk.Sum([]byte(s)))
}

func lines(s string) (ls [][]string) {
	for l := range strings.Lines(s) {
		l, _, _ = strings.Cut(l, "#")
		if f := strings.Fields(l); len(f) > 0 {
			ls = append(ls, f)
		}
	}
	return ls
}

func (c *planCase) ref(t *testing.T, s string) recovery.Ref {
	r := recovery.Ref{}
	name, facet, ok := strings.Cut(s, ".")
	if ok {
		r.Kind = recovery.Soft
		if err := r.Facet.UnmarshalText([]byte(facet)); err != nil {
			t.Fatal(err)
		}
	}
	if n, ok := strings.CutSuffix(name, "?"); ok {
		name, r.Kind = n, recovery.Optional
	}
	i, ok := c.index[name]
	if !ok {
		t.Fatalf("graph: %s names the step %s, which is not above it", s, name)
	}
	r.Step = i
	return r
}

func (c *planCase) graph(t *testing.T, text string) {
	for _, f := range lines(text) {
		n := recovery.Node{Address: "step." + f[0]}
		d := recovery.Definition{Local: fingerprint(f[0])}
		var inputs []recovery.Ref
		for _, w := range f[1:] {
			k, v, _ := strings.Cut(w, "=")
			switch k {
			case "def":
				d.Local = fingerprint(v)
			case "reuse":
				d.Reuse = map[string]recovery.Reuse{"always": recovery.ReuseAlways, "run": recovery.ReuseRun, "never": recovery.ReuseNever}[v]
			case "when":
				d.When = fingerprint("when " + f[0])
				n.Refs, n.When = append(n.Refs, c.ref(t, v)), n.When+1
			default:
				inputs = append(inputs, c.ref(t, w))
			}
		}
		n.Refs = append(n.Refs, inputs...)
		c.index[f[0]] = int32(len(c.nodes))
		c.nodes, c.defs = append(c.nodes, n), append(c.defs, d)
	}
}

func (c *planCase) store(t *testing.T, text string) {
	for _, f := range lines(text) {
		h := &checkpoint.Head{Step: "step." + f[0], Run: "r_1", Chain: "r_1", Local: fingerprint(f[0]), Output: sdk.Sum([]byte("output of " + f[0]))}
		like := f[0]
		husk := false
		for _, w := range f[1:] {
			k, v, _ := strings.Cut(w, "=")
			switch k {
			case "def":
				h.Local = fingerprint(v)
			case "out":
				h.Output = sdk.Sum([]byte(v))
			case "husk":
				husk = true
			case "expired":
				h.Expires = time.Unix(1, 0)
			case "run":
				h.Run, h.Chain = checkpoint.RunID(v), checkpoint.RunID(v)
			case "degraded":
				h.Degraded = true
			case "operator":
				h.Operator = true
			case "chain":
				h.Chain = checkpoint.RunID(v)
			case "skipped":
				h.Outcome, h.Local = checkpoint.SkippedCondition, fingerprint("when "+f[0])
			case "as": // lineage of another step of the graph
				like = v
			default:
				t.Fatalf("store: unknown word %q", w)
			}
		}
		if i, ok := c.index[like]; ok {
			refs := c.nodes[i].Refs
			if h.Outcome == checkpoint.SkippedCondition {
				refs = refs[:c.nodes[i].When]
			}
			for _, r := range refs {
				up := c.heads[c.nodes[r.Step].Address]
				if up == nil {
					t.Fatalf("store: %s comes before its upstream %s", f[0], c.nodes[r.Step].Address)
				}
				h.Lineage = append(h.Lineage, up.Facet(r.Facet))
			}
		}
		h.Plan = checkpoint.PlanKey(h.Local, sdk.Digest{}, h.Lineage)
		c.seq++
		h.Seq = c.seq
		if !husk && h.Outcome == checkpoint.Succeeded {
			h.Data.Seq = c.seq
		}
		c.heads[h.Step] = h
		c.ix.Add(h)
	}
}

func (c *planCase) options(t *testing.T, text string) {
	for _, f := range lines(text) {
		for _, v := range f[1:] {
			switch f[0] {
			case "run":
				c.o.Run, c.o.Chain = checkpoint.RunID(v), checkpoint.RunID(v)
			case "rerun":
				c.o.Rerun = append(c.o.Rerun, c.index[v])
			case "set":
				c.o.Set = append(c.o.Set, c.index[v])
			case "target":
				c.named = true
				c.o.Targets = append(c.o.Targets, c.index[v])
			case "lost":
				c.o.Lost = map[checkpoint.Seq]bool{c.heads["step."+v].Data.Seq: true}
			default:
				t.Fatalf("options: unknown word %q", f[0])
			}
		}
	}
}

func (c *planCase) plan(t *testing.T) string {
	g, err := recovery.NewGraph(c.nodes)
	if err != nil {
		t.Fatal(err)
	}
	c.o.Now = time.Unix(1000, 0)
	if c.o.Run == "" {
		c.o.Run, c.o.Chain = "r_1", "r_1"
	}
	if !c.named {
		c.o.Targets = recovery.Targets(g, nil)
	}
	p := recovery.NewPlan(g, c.defs, recovery.Bind(g, c.ix), c.ix, c.o)
	var b strings.Builder
	for i := range int32(p.Len()) {
		s := p.Step(i)
		why := whyNames[s.Reason.Why]
		switch {
		case s.Reason.Upstream >= 0:
			why += " " + strings.TrimPrefix(g.Address(s.Reason.Upstream), "step.")
		case s.Reason.Why == recovery.WhyRenamed:
			why += " from " + strings.TrimPrefix(s.Reason.Head.Step, "step.")
		}
		fmt.Fprintf(&b, "%-4s %-7s %-7s %s\n", strings.TrimPrefix(g.Address(i), "step."), actionNames[s.Action], verdictNames[s.Verdict], why)
	}
	return b.String()
}

var (
	actionNames  = map[recovery.Action]string{recovery.Untouched: "-", recovery.Take: "take", recovery.Skip: "skip", recovery.Decide: "decide", recovery.Run: "run"}
	verdictNames = map[recovery.Verdict]string{recovery.Unknown: "unknown", recovery.Missing: "missing", recovery.Due: "due", recovery.Current: "current"}
	whyNames     = map[recovery.Why]string{recovery.WhyCurrent: "current", recovery.WhyRenamed: "renamed", recovery.WhyNeverRan: "never ran", recovery.WhyChanged: "changed", recovery.WhyUpstream: "upstream", recovery.WhyExpired: "expired", recovery.WhyNever: "reuse = never", recovery.WhyOtherRun: "other run", recovery.WhyDegraded: "degraded", recovery.WhyHusk: "output not kept", recovery.WhyLost: "output lost", recovery.WhyRerun: "asked for", recovery.WhySet: "given", recovery.WhyOperator: "given in another run", recovery.WhySkipped: "skipped"}
)

func TestCycleIsRefused(t *testing.T) {
	t.Parallel()
	ref := func(i int32) []recovery.Ref { return []recovery.Ref{{Step: i}} }
	_, err := recovery.NewGraph([]recovery.Node{{Address: "a", Refs: ref(2)}, {Address: "b", Refs: ref(0)}, {Address: "c", Refs: ref(1)}, {Address: "d", Refs: ref(0)}})
	var c *recovery.CycleError
	if !errors.As(err, &c) || len(c.Path) != 3 || !strings.Contains(err.Error(), "needs") {
		t.Fatalf("got %v", err)
	}
}

func TestOccurrences(t *testing.T) {
	t.Parallel()
	// Five samples of one prompt, each with a judge of its own, and a step
	// without a twin.
	var nodes []recovery.Node
	var locals []checkpoint.Fingerprint
	for i := range int32(5) {
		nodes = append(nodes, recovery.Node{Address: fmt.Sprintf("sample%d", i)}, recovery.Node{Address: fmt.Sprintf("judge%d", i), Refs: []recovery.Ref{{Step: 2 * i}}})
		locals = append(locals, fingerprint("sample"), fingerprint("judge"))
	}
	nodes, locals = append(nodes, recovery.Node{Address: "lone"}), append(locals, fingerprint("lone"))
	g, err := recovery.NewGraph(nodes)
	if err != nil {
		t.Fatal(err)
	}
	got := g.Occurrences(locals)
	// The judges differ by their upstreams' numbers, so none needs its own.
	if want := []int{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	nd := func(kv ...string) (ns []checkpoint.NamedDigest) {
		for i := 0; i < len(kv); i += 2 {
			ns = append(ns, checkpoint.NamedDigest{Name: kv[i], Digest: kv[i+1]})
		}
		return ns
	}
	old := &checkpoint.Context{Identity: nd("input.prompt", "1", "var.gone", "2", "plugin ai", "3"), Upstream: []checkpoint.UpstreamDigest{{Step: "step.a", Digest: sdk.Digest{1}}, {Step: "step.b", Digest: sdk.Digest{1}}}}
	got := recovery.Changes(old, nd("input.prompt", "9", "plugin ai", "3", "when", "4"), []checkpoint.UpstreamDigest{{Step: "step.a", Digest: sdk.Digest{2}}, {Step: "step.b", Digest: sdk.Digest{1}}})
	want := []recovery.Change{{Part: "input.prompt", Old: "1", New: "9"}, {Part: "when", New: "4"}, {Part: "var.gone", Old: "2"},
		{Part: "output of step.a", Old: sdk.Digest{1}.String(), New: sdk.Digest{2}.String()}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

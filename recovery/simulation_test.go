package recovery_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// The simulation runs random small workflows through the planning rules, with
// crashes, edits, volatile steps, expiry, conditions, steps of equal definition
// and answers that differ from call to call, against one index for all steps.
// After every finished run three laws are checked:
//
//	mixed: one assignment of answers to all steps above the targets explains
//	       every answer the run used;
//	stale: no expired result is left below which a target lies;
//	stable: applying again runs nothing.
//
// During a run: nothing that was stored in it runs again unless it is due.

var simNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one simulated workflow with its store.
type world struct {
	t    *testing.T
	r    *rand.Rand
	seed uint64

	refs    [][]recovery.Ref
	when    []int  // how many refs belong to `when`; 0 = no `when`
	family  []int  // steps of one family have equal definitions
	version []int  // of the definition
	pure    []bool // by family: equal input, equal answer
	vol     []bool
	targets []int32
	reuse   []recovery.Reuse

	heads []*checkpoint.Head // the store, in commit order
	seq   checkpoint.Seq
	run   checkpoint.RunID
	nRun  int
	open  bool // the newest run has not succeeded
	// produced[definition and inputs] = answers that were given for them, by
	// any step: equal computations may share answers
	produced map[string]map[int]bool
	calls    int
}

func answer(n int) sdk.Digest { return sdk.Sum([]byte(fmt.Sprint("answer ", n))) }

func newWorld(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(11, seed))
	n := 2 + r.IntN(5)
	w := &world{t: t, r: r, seed: seed, produced: map[string]map[int]bool{}}
	hasDown := make([]bool, n)
	for i := range n {
		var refs []recovery.Ref
		for u := range i {
			if r.IntN(2) == 0 {
				continue
			}
			hasDown[u] = true
			ref := recovery.Ref{Step: int32(u)}
			switch r.IntN(6) {
			case 0:
				ref.Kind, ref.Facet = recovery.Soft, sdk.FacetStatus
			case 1:
				ref.Kind = recovery.Optional
			}
			refs = append(refs, ref)
		}
		when := 0
		if len(refs) > 0 && r.IntN(3) == 0 {
			when = 1 + r.IntN(len(refs))
		}
		w.refs = append(w.refs, refs)
		w.when = append(w.when, when)
		f := i
		if i > 0 && r.IntN(3) == 0 {
			f = r.IntN(i) // perhaps a twin
			if len(w.refs[f]) != len(refs) || w.when[f] != when {
				f = i
			}
		}
		w.family = append(w.family, f)
		w.version = append(w.version, 0)
		w.pure = append(w.pure, r.IntN(3) == 0)
		w.vol = append(w.vol, r.IntN(3) == 0)
		w.reuse = append(w.reuse, recovery.ReuseAlways)
	}
	for i := range n {
		if !hasDown[i] {
			w.targets = append(w.targets, int32(i))
			w.vol[i] = false // a target is persistent whatever its mode says
		}
		if r.IntN(8) == 0 {
			w.reuse[i], w.vol[i] = recovery.ReuseRun, false
		}
	}
	return w
}

func (w *world) graph() (*recovery.Graph, []recovery.Definition) {
	nodes := make([]recovery.Node, len(w.refs))
	for i := range nodes {
		nodes[i] = recovery.Node{Address: fmt.Sprintf("step.s%d", i), Refs: w.refs[i], When: w.when[i]}
	}
	g, err := recovery.NewGraph(nodes)
	if err != nil {
		w.t.Fatal(err)
	}
	locals := make([]checkpoint.Fingerprint, len(nodes))
	for i := range locals {
		h := checkpoint.NewHasher("test/local")
		h.Int(w.family[i])
		h.Int(w.version[w.family[i]])
		for _, r := range w.refs[i] { // the canonical form holds the facets' kinds
			h.Int(int(r.Facet))
		}
		locals[i] = h.Sum()
	}
	defs := make([]recovery.Definition, len(nodes))
	for i, o := range g.Occurrences(locals) {
		defs[i] = recovery.Definition{Local: checkpoint.Numbered(locals[i], o), Reuse: w.reuse[i]}
		if w.when[i] > 0 {
			h := checkpoint.NewHasher("test/when")
			h.Int(w.family[i])
			defs[i].When = h.Sum()
		}
	}
	return g, defs
}

func inputKey(def recovery.Definition, lineage []sdk.Digest) string {
	k := def.Local.String()
	for _, d := range lineage {
		k += d.Short()
	}
	return k
}

func condition(def recovery.Definition, lineage []sdk.Digest) bool {
	h := checkpoint.PlanKey(def.When, sdk.Digest{}, lineage)
	return h[0]%4 != 0
}

// call is one paid call of a step.
func (w *world) call(i int32, def recovery.Definition, lineage []sdk.Digest) int {
	a := w.r.IntN(3)
	if w.pure[w.family[i]] {
		k := checkpoint.PlanKey(def.Local, sdk.Digest{}, lineage)
		a = int(k[1]) % 3
	}
	w.calls++
	return a
}

func (w *world) record(key string, a int) {
	if w.produced[key] == nil {
		w.produced[key] = map[int]bool{}
	}
	w.produced[key][a] = true
}

func (w *world) commit(h *checkpoint.Head) {
	w.seq++
	h.Seq = w.seq
	if h.Data.Size > 0 && h.Data.Seq == 0 {
		h.Data.Seq = w.seq
	}
	w.heads = append(w.heads, h)
}

func (w *world) index() *checkpoint.Index {
	ix := checkpoint.NewIndex()
	for _, h := range w.heads {
		ix.Add(h)
	}
	return ix
}

// used is what one apply took for each step it needed.
type used map[int32]*checkpoint.Head

// apply plans and runs; it crashes before the call number crash. It reports
// what it used, and whether it finished.
func (w *world) apply(crash int) (used, bool) {
	g, defs := w.graph()
	ix := w.index()
	if !w.open {
		w.nRun++
		w.run = checkpoint.RunID(fmt.Sprintf("r_%d", w.nRun))
	}
	p := recovery.NewPlan(g, defs, recovery.Bind(g, ix), ix, recovery.Options{Run: w.run, Chain: "r_1", Now: simNow, Targets: w.targets})
	w.open = true
	final := used{}
	live := map[int32]bool{}                // ran in this apply: its output is in memory
	pending := map[int32]*checkpoint.Head{} // volatile results without a stored husk
	flush := func(i int32) {
		stack := []int32{i}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, u := range g.Upstream(at) {
				if h := pending[u]; h != nil {
					delete(pending, u)
					w.commit(h)
				}
				if final[u] != nil {
					stack = append(stack, u)
				}
			}
		}
	}
	for _, i := range randomOrder(w.r, g) {
		s := p.Step(i)
		switch s.Action {
		case recovery.Untouched:
			continue
		case recovery.Take, recovery.Skip:
			final[i] = s.Head
			continue
		}
		lineage := func(refs []recovery.Ref) (ds []sdk.Digest, skip bool) {
			for _, r := range refs {
				h := final[r.Step]
				if h == nil {
					w.t.Fatalf("seed %d: step %d runs without its upstream %d", w.seed, i, r.Step)
				}
				if r.Kind == recovery.Hard && h.Outcome != checkpoint.Succeeded {
					skip = true
				}
				ds = append(ds, h.Facet(r.Facet))
			}
			return ds, skip
		}
		wl, skip := lineage(g.WhenRefs(i))
		if w.when[i] > 0 && !skip && !condition(defs[i], wl) {
			h := &checkpoint.Head{Step: g.Address(i), Run: w.run, Chain: "r_1", Outcome: checkpoint.SkippedCondition, Local: defs[i].When, Plan: p.WhenKey(i, sdk.Digest{}, wl), Lineage: wl}
			flush(i)
			w.commit(h)
			final[i] = h
			continue
		}
		ds, skip := lineage(g.Refs(i))
		if skip {
			final[i] = &checkpoint.Head{Outcome: checkpoint.SkippedUpstream}
			continue
		}
		res := p.Resolve(i, ds)
		if res.Head != nil {
			final[i] = res.Head
			flush(i)
			continue
		}
		h := &checkpoint.Head{Step: g.Address(i), Run: w.run, Chain: "r_1", Local: defs[i].Local, Plan: res.Key, Lineage: ds, Content: checkpoint.PlanKey(defs[i].Local, sdk.Digest{1}, ds)}
		if !res.Run {
			if from := p.ResolveContent(i, "", h.Content); from != nil {
				h.Output, h.Data, h.Expires, h.Chain = from.Output, from.Data, from.Expires, from.Chain
				flush(i)
				w.commit(h)
				final[i] = h
				continue
			}
		}
		if crash--; crash < 0 {
			return nil, false
		}
		for _, old := range w.heads { // nothing stored in this run runs again
			if old.Run == w.run && old.Step == h.Step && old.Plan == h.Plan && old.Data.Seq > 0 && old.Expires.IsZero() && s.Reason.Why != recovery.WhyRerun {
				w.t.Fatalf("seed %d: step %d was stored in run %s and runs again in it (%+v)", w.seed, i, w.run, s)
			}
		}
		for _, r := range g.Refs(i) { // an input can only be made of what can be read
			if u := final[r.Step]; r.Facet == sdk.FacetOutput && u.Outcome == checkpoint.Succeeded && u.Data.Seq == 0 && !live[r.Step] {
				w.t.Fatalf("seed %d: step %d needs the output of step %d, which was not kept", w.seed, i, r.Step)
			}
		}
		live[i] = true
		a := w.call(i, defs[i], ds)
		w.record(inputKey(defs[i], ds), a)
		h.Output = answer(a)
		final[i] = h
		if w.vol[i] {
			pending[i] = h
			continue
		}
		h.Data.Size = 1
		flush(i)
		w.commit(h)
	}
	w.open = false
	return final, true
}

// randomOrder is a random topological order: steps end in any order.
func randomOrder(r *rand.Rand, g *recovery.Graph) []int32 {
	unmet := make([]int, g.Len())
	var ready, order []int32
	for i := range int32(g.Len()) {
		if unmet[i] = len(g.Upstream(i)); unmet[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		k := r.IntN(len(ready))
		i := ready[k]
		ready = slices.Delete(ready, k, k+1)
		order = append(order, i)
		for _, d := range g.Downstream(i) {
			if unmet[d]--; unmet[d] == 0 {
				ready = append(ready, d)
			}
		}
	}
	return order
}

// mixed reports whether no single assignment of answers explains what the run
// used.
func (w *world) mixed(final used) bool {
	g, defs := w.graph()
	n := int32(g.Len())
	above := make([]bool, n)
	for _, t := range w.targets {
		above[t] = true
	}
	for i := n - 1; i >= 0; i-- {
		if above[i] {
			for _, u := range g.Upstream(i) {
				above[u] = true
			}
		}
	}
	assigned := make([]*checkpoint.Head, n)
	var try func(i int32) bool
	try = func(i int32) bool {
		if i == n {
			return true
		}
		if !above[i] {
			return try(i + 1)
		}
		fits := func(h *checkpoint.Head) bool {
			if f := final[i]; f != nil && (f.Outcome.State() != h.Outcome.State() || f.Output != h.Output) {
				return false
			}
			assigned[i] = h
			return try(i + 1)
		}
		var ds []sdk.Digest
		hardSkip, whenHardSkip := false, false
		for k, r := range g.Refs(i) {
			h := assigned[r.Step]
			ds = append(ds, h.Facet(r.Facet))
			if r.Kind == recovery.Hard && h.Outcome != checkpoint.Succeeded {
				hardSkip = true
				whenHardSkip = whenHardSkip || k < w.when[i]
			}
		}
		if w.when[i] > 0 && !whenHardSkip && !condition(defs[i], ds[:w.when[i]]) || hardSkip {
			return fits(&checkpoint.Head{Outcome: checkpoint.SkippedCondition})
		}
		for a := range 3 {
			if w.produced[inputKey(defs[i], ds)][a] && fits(&checkpoint.Head{Output: answer(a)}) {
				return true
			}
		}
		// A step that nothing needed may never have been called with these
		// inputs; then its answer is free only if nothing used is below it.
		if final[i] == nil && len(w.produced[inputKey(defs[i], ds)]) == 0 {
			assigned[i] = &checkpoint.Head{Output: sdk.Sum([]byte("never asked"))}
			return try(i + 1)
		}
		return false
	}
	return !try(0)
}

// stale reports a step that feeds a used result and whose newest record had
// expired before the run ended. Steps with a twin are left out: they may be fed
// by the twin's record.
func (w *world) stale(final used) int32 {
	g, _ := w.graph()
	newest := map[string]*checkpoint.Head{}
	for _, h := range w.heads {
		newest[h.Step] = h
	}
	feeds := make([]bool, g.Len())
	for i := int32(g.Len()) - 1; i >= 0; i-- {
		if slices.Contains(w.targets, i) {
			feeds[i] = true
		}
		h := newest[g.Address(i)]
		if !feeds[i] || final[i] != nil && final[i].Outcome != checkpoint.Succeeded || h != nil && h.Outcome != checkpoint.Succeeded {
			continue // what is above a skipped step feeds nothing
		}
		if h != nil && !h.Expires.IsZero() && !w.twin(int(i)) {
			return i
		}
		for _, u := range g.Upstream(i) {
			feeds[u] = true
		}
	}
	return -1
}

func (w *world) twin(i int) bool {
	n := 0
	for _, f := range w.family {
		if f == w.family[i] {
			n++
		}
	}
	return n > 1
}

func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", w.seed)
	for i := range w.refs {
		fmt.Fprintf(&b, "  s%d refs=%v when=%d family=%d version=%d pure=%v volatile=%v reuse=%d\n", i, w.refs[i], w.when[i], w.family[i], w.version[i], w.pure[w.family[i]], w.vol[i], w.reuse[i])
	}
	return b.String()
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	rounds := uint64(20000)
	if testing.Short() {
		rounds = 2000
	}
	finished, calls, reused := 0, 0, 0
	for seed := range rounds {
		w := newWorld(t, seed)
		edits, expiry := seed%2 == 0, seed%3 == 0
		for a := range 6 {
			if a > 0 && edits && w.r.IntN(2) == 0 {
				w.version[w.r.IntN(len(w.version))]++
			}
			if a > 0 && expiry && w.r.IntN(2) == 0 {
				i := w.r.IntN(len(w.refs))
				for k, h := range w.heads {
					if h.Step == fmt.Sprintf("step.s%d", i) && h.HasData() && h.Outcome == checkpoint.Succeeded {
						e := *h
						e.Expires = simNow.Add(-time.Second)
						w.heads[k] = &e
					}
				}
			}
			crash := w.r.IntN(len(w.refs) + 1)
			if a == 5 {
				crash = 1 << 30
			}
			before := w.calls
			final, done := w.apply(crash)
			calls += w.calls - before
			if !done {
				continue
			}
			finished++
			reused += len(final) - (w.calls - before)
			if w.mixed(final) {
				t.Fatalf("two answers of one step in one run\n%s", w.describe())
			}
			if i := w.stale(final); i >= 0 {
				t.Fatalf("expired step %d still feeds a target\n%s", i, w.describe())
			}
			before = w.calls
			if _, done := w.apply(1 << 30); !done || w.calls != before {
				t.Fatalf("apply after success called %d steps\n%s", w.calls-before, w.describe())
			}
		}
	}
	t.Logf("%d finished runs, %d calls, %d results reused", finished, calls, reused)
	if reused == 0 || calls == 0 {
		t.Error("the simulation exercised nothing")
	}
}

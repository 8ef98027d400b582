package host

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

func mustGraph(tb testing.TB, nodes []recovery.Node) *recovery.Graph {
	tb.Helper()
	g, err := recovery.NewGraph(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func firstPlan(g *recovery.Graph) *recovery.Plan {
	ix := checkpoint.NewIndex()
	return recovery.NewPlan(g, make([]recovery.Definition, g.Len()), recovery.Bind(g, ix), ix,
		recovery.Options{Run: "r_1", Chain: "r_1", Targets: recovery.Targets(g, nil)})
}

// puppet drives a machine: it carries commands out in a random order and
// checks what must hold at every moment.
type puppet struct {
	t        *testing.T
	r        *rand.Rand
	m        *machine
	pending  []signal // what will happen, in any order
	puts     []int32  // results not yet durable, in commit order
	seq      checkpoint.Seq
	synced   checkpoint.Seq
	busy     map[int32]bool
	attempts map[int32]int
	notes    []string
	finish   *command
	fails    func(step int32, keys string, attempt int32) *sdk.Error
	when     func(step int32, keys string) bool
	fan      func(step int32, keys string) int
}

func (p *puppet) do(s signal) {
	if s.kind == sigEnded && (s.end == endCondition || s.end == endExpanded || s.end == endWaits) {
		delete(p.busy, s.node) // evaluated: the slot is free again
	}
	if s.kind == sigEnded && s.end == endWaits {
		for range 1 + p.r.IntN(2) { // one too many does no harm
			p.pending = append(p.pending, signal{kind: sigTurn, node: s.node})
		}
	}
	for _, c := range slices.Clone(p.m.Apply(s)) {
		switch c.kind {
		case cmdWork:
			if len(p.busy) >= p.m.concurrency {
				p.t.Fatalf("more than %d slots are taken", p.m.concurrency)
			}
			p.busy[c.node] = true
			next := signal{kind: sigEnded, node: c.node}
			step, policy := p.m.step(c.node), p.m.policy(c.node)
			if !p.m.isStep(c.node) && !p.m.collects(c.node) {
				if f := p.m.fan(p.m.parent(c.node)); policy.Concurrency > 0 && f.inside > policy.Concurrency {
					p.t.Fatalf("%d instances of step %d are inside, %d may be", f.inside, step, policy.Concurrency)
				}
				for l := range p.m.depth(c.node) {
					if q := p.m.pool(c.node, l); q != nil && (!q.held[p.m.key(c.node, l)] || q.under > q.limit) {
						p.t.Fatalf("%d instances are under way, %d may be; this one is: %v", q.under, q.limit, q.held[p.m.key(c.node, l)])
					}
				}
			}
			switch {
			case c.turn == turnExpand:
				next.end, next.fan = endExpanded, make([]int32, p.fan(step, p.keys(c.node)))
			case c.turn == turnGather:
				next.end = endResult
			case policy.HasWhen && p.m.asksWhen(c.node) && !p.when(step, p.keys(c.node)):
				next.end = endSkipped
			case c.turn == turnWhen:
				next.end = endCondition
			case p.r.IntN(5) == 0: // its limiter holds it back
				next.end = endWaits
			case c.hold:
				next.kind = sigPrepared
			default:
				next = p.attempt(c)
			}
			p.pending = append(p.pending, next)
		case cmdIntent:
			p.seq++
			p.pending = append(p.pending, signal{kind: sigIntent, node: c.node, seq: p.seq})
		case cmdRun:
			for _, u := range p.m.g.Upstream(p.m.step(c.node)) {
				if p.m.effects[u] > p.synced {
					p.t.Fatalf("step %d starts before the effect of %d is durable", c.node, u)
				}
			}
			if p.m.policy(c.node).Effects.Changes() && p.synced == 0 {
				p.t.Fatalf("step %d starts before its intent is durable", c.node)
			}
			p.pending = append(p.pending, p.attempt(c))
		case cmdPut:
			p.seq++
			p.puts = append(p.puts, c.node)
			p.pending = append(p.pending, signal{kind: sigPut, node: c.node, seq: p.seq})
		case cmdTimer:
			p.pending = append(p.pending, signal{kind: sigTimer, node: c.node})
		case cmdNote:
			p.notes = append(p.notes, fmt.Sprintf("%d %v", c.node, c.state))
			delete(p.busy, c.node)
		case cmdFinish:
			if p.finish != nil {
				p.t.Fatal("finished twice")
			}
			p.finish = &c
		}
	}
}

func (p *puppet) attempt(c command) signal {
	p.attempts[c.node]++
	if err := p.fails(p.m.step(c.node), p.keys(c.node), c.attempt); err != nil && p.m.fallback[c.node] == 0 {
		return signal{kind: sigEnded, node: c.node, end: endFailed, err: err}
	}
	return signal{kind: sigEnded, node: c.node, end: endResult}
}

// keys are the places of a node in its loops, the outermost first.
func (p *puppet) keys(i int32) string {
	keys := ""
	for l := range p.m.depth(i) {
		keys += fmt.Sprint("/", p.m.key(i, l))
	}
	return keys
}

// states are those of all nodes, by step and keys.
func (p *puppet) states() map[string]sdk.State {
	all := map[string]sdk.State{}
	for i, s := range p.m.state {
		all[fmt.Sprint(p.m.step(int32(i)), p.keys(int32(i)))] = s
	}
	return all
}

func (p *puppet) run(stopAt int) {
	p.do(signal{kind: sigStart})
	for n := 0; p.finish == nil; n++ {
		if n == stopAt {
			p.do(signal{kind: sigStop, err: &sdk.Error{Class: sdk.ClassCancelled}})
			continue
		}
		if len(p.pending) == 0 || p.r.IntN(4) == 0 {
			if p.synced == p.seq && len(p.pending) == 0 {
				var open []string
				for i := range int32(len(p.m.state)) {
					if p.m.needed[i] && p.m.stage[i] != stageEnded {
						open = append(open, fmt.Sprint(p.m.step(i), p.keys(i), " ", p.m.stage[i]))
					}
				}
				p.t.Fatalf("nothing is under way, and these are open: %s", strings.Join(open, ", "))
			}
			p.synced = p.seq
			p.do(signal{kind: sigPersisted, seq: p.seq})
			continue
		}
		// Commits are answered in their order; everything else in any order.
		k := p.r.IntN(len(p.pending))
		if p.pending[k].kind == sigPut || p.pending[k].kind == sigIntent {
			k = slices.IndexFunc(p.pending, func(s signal) bool { return s.kind == sigPut || s.kind == sigIntent })
		}
		s := p.pending[k]
		p.pending = slices.Delete(p.pending, k, k+1)
		p.do(s)
	}
}

// nest is the loops that the steps of a random graph stand in. A scope is a
// sub-workflow with for_each, in others: "ab" is b in a.
type nest struct {
	scopes []string // of the steps
	steps  []stepPolicy
	nodes  []recovery.Node
	seed   uint64
}

// size is how many instances a collection has that is in those with keys. Steps in one
// scope have the same, and so has one that follows another.
func (n *nest) size(step int32, keys string) int {
	depth := strings.Count(keys, "/")
	loop := fmt.Sprint("own", step)
	if depth < len(n.scopes[step]) {
		loop = n.scopes[step][:depth+1]
	} else if refs := n.nodes[step].Refs[n.nodes[step].When:]; n.nodes[step].Each == 1 && refs[0].Follows > 0 {
		shared := strings.Split(keys, "/")[:refs[0].Shared+1]
		return n.size(refs[0].Step, strings.Join(shared, "/"))
	}
	h := sdk.Sum(fmt.Appendf(nil, "%d %s %s", n.seed, loop, keys))
	return int(h[0]) % 4
}

func randomNodes(r *rand.Rand, seed uint64) *nest {
	n := 1 + r.IntN(12)
	limit := int32(1 + r.IntN(3))
	bounded := map[string]int32{} // by scope: the number of the sub-workflow whose instances are bounded
	for k, scope := range []string{"a", "ab", "abc", "d"} {
		if r.IntN(3) == 0 {
			bounded[scope] = int32(k + 1)
		}
	}
	nodes, steps, scopes := make([]recovery.Node, n), make([]stepPolicy, n), make([]string, n)
	for i := range nodes {
		nodes[i].Address = fmt.Sprintf("step.s%d", i)
		if r.IntN(2) == 0 {
			scopes[i] = []string{"", "a", "a", "ab", "ab", "abc", "d"}[r.IntN(7)]
		}
		for u := range i {
			if r.IntN(3) == 0 {
				shared := 0
				for shared < min(len(scopes[u]), len(scopes[i])) && scopes[u][shared] == scopes[i][shared] {
					shared++
				}
				nodes[i].Refs = append(nodes[i].Refs, recovery.Ref{Step: int32(u), Kind: recovery.RefKind(r.IntN(3)), Shared: int32(shared)})
			}
		}
		p := &steps[i]
		if len(nodes[i].Refs) > 0 && r.IntN(3) == 0 {
			nodes[i].When = 1 + r.IntN(len(nodes[i].Refs))
			p.HasWhen = true
		}
		if r.IntN(4) == 0 {
			p.Effects = sdk.EffectsWrite
		}
		p.SkipOnFailure = r.IntN(5) == 0
		if r.IntN(5) == 0 {
			p.Fallbacks = [][]sdk.Class{{sdk.ClassInternal}}
		}
		p.Loops, p.Each = int32(len(scopes[i])), make([]int32, len(scopes[i]))
		for l := range scopes[i] {
			if sub := bounded[scopes[i][:l+1]]; sub > 0 {
				p.Pools = append(p.Pools, poolPolicy{sub, limit})
			} else {
				p.Pools = append(p.Pools, poolPolicy{})
			}
		}
		if r.IntN(3) == 0 {
			p.Loops++
			p.Concurrency = int32(r.IntN(3))
			nodes[i].Each = r.IntN(1 + len(nodes[i].Refs) - nodes[i].When)
			p.Each = append(p.Each, int32(nodes[i].Each))
			if refs := nodes[i].Refs[nodes[i].When:][:nodes[i].Each]; len(refs) == 1 && steps[refs[0].Step].Loops == refs[0].Shared+1 && len(scopes[refs[0].Step]) == int(refs[0].Shared) {
				refs[0].Follows, refs[0].Kind = p.Loops, recovery.Hard
			}
		}
		for _, ref := range nodes[i].Refs[:nodes[i].When] {
			p.WhenDepth = max(p.WhenDepth, ref.Shared)
		}
		if p.HasWhen && r.IntN(2) == 0 { // it names each
			p.WhenDepth = max(p.WhenDepth, r.Int32N(p.Loops+1))
		}
		for _, ref := range nodes[i].Refs {
			p.Deep = p.Deep || ref.Shared > 0
		}
		p.Deep = p.Deep || p.Loops > 1
		p.Retry = []RetryPolicy{{On: []sdk.Class{sdk.ClassUnavailable}, MaxAttempts: 1 + r.IntN(3), Delay: time.Second}}
	}
	return &nest{scopes: scopes, steps: steps, nodes: nodes, seed: seed}
}

// TestMachine: whatever the order of events and the number of slots, the steps
// end in the same states; cancelled runs end, too, and nothing is left open.
func TestMachine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		testMachine(t, seed)
	}
}

func testMachine(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, seed))
	in := randomNodes(r, seed)
	g, steps := mustGraph(t, in.nodes), in.steps
	failing := func(step int32, keys string) int { // attempts that fail; 9 = all, with a class that is not retried
		h := sdk.Sum(fmt.Appendf(nil, "%d %d %s fails", seed, step, keys))
		return []int{0, 0, 0, 1, 2, 9}[h[0]%6]
	}
	drive := func(concurrency int, order uint64, stopAt int, failFast bool) *puppet {
		p := &puppet{t: t, r: rand.New(rand.NewPCG(order, seed)), busy: map[int32]bool{}, attempts: map[int32]int{},
			m:   newMachine(g, firstPlan(g), steps, concurrency, failFast, "seed"),
			fan: in.size,
			fails: func(step int32, keys string, attempt int32) *sdk.Error {
				switch f := failing(step, keys); {
				case f == 9:
					return &sdk.Error{Class: sdk.ClassInternal}
				case int(attempt) <= f:
					return &sdk.Error{Class: sdk.ClassUnavailable}
				}
				return nil
			},
			when: func(step int32, keys string) bool {
				return sdk.Sum(fmt.Appendf(nil, "%d %d %s when", seed, step, keys))[0]%3 != 0
			},
		}
		p.run(stopAt)
		for i := range int32(len(p.m.state)) {
			if !p.m.state[i].Ended() {
				t.Fatalf("seed %d: node %d is %v at the end", seed, i, p.m.state[i])
			}
			step := p.m.step(i)
			if p.m.collects(i) && p.attempts[i] > 0 {
				t.Fatalf("seed %d: the collection %d had an attempt", seed, i)
			}
			if want := steps[step].Retry[0].MaxAttempts + len(steps[step].Fallbacks); p.attempts[i] > want {
				t.Fatalf("seed %d: node %d had %d attempts of %d", seed, i, p.attempts[i], want)
			}
		}
		return p
	}
	one, many := drive(1, 1, -1, false), drive(5, 2, -1, false)
	if a, b := one.states(), many.states(); !maps.Equal(a, b) || one.finish.status != many.finish.status {
		t.Fatalf("seed %d: one slot ends as %v, five as %v", seed, a, b)
	}
	if slices.Contains(one.m.state, sdk.Failed) != (one.finish.status == checkpoint.RunFailed) {
		t.Fatalf("seed %d: %v gives %s", seed, one.m.state, one.finish.status)
	}
	stopped := drive(3, 3, r.IntN(20), false)
	if !slices.Contains(stopped.m.state, sdk.Cancelled) && stopped.m.stop != nil && !maps.Equal(stopped.states(), one.states()) {
		t.Fatalf("seed %d: cancelled too late to matter, but %v is not %v", seed, stopped.m.state, one.m.state)
	}
	fast := drive(2, 4, -1, true)
	ones := one.states()
	for i, s := range fast.states() { // each uses its own retries before any fail-fast decision
		if s == sdk.Failed && ones[i] != sdk.Failed && ones[i] != sdk.Skipped {
			t.Fatalf("seed %d: node %v failed only with fail_fast", seed, i)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	ps := []RetryPolicy{
		{On: []sdk.Class{sdk.ClassTimeout}, MaxAttempts: 3, Delay: time.Second, Exponential: true, MaxDelay: 3 * time.Second},
		{On: []sdk.Class{sdk.ClassRateLimited, sdk.ClassTimeout}, MaxAttempts: 2, Delay: time.Second, Jitter: 0.5, MaxDuration: time.Minute},
	}
	type step struct {
		class   sdk.Class
		after   int64
		elapsed time.Duration
		min     time.Duration
		max     time.Duration
		again   bool
	}
	for name, steps := range map[string][]step{
		"exponential, then exhausted": {{class: sdk.ClassTimeout, min: time.Second, max: time.Second, again: true}, {class: sdk.ClassTimeout, min: 2 * time.Second, max: 2 * time.Second, again: true}, {class: sdk.ClassTimeout}},
		"each block counts alone":     {{class: sdk.ClassTimeout, min: time.Second, max: time.Second, again: true}, {class: sdk.ClassRateLimited, min: time.Second / 2, max: 3 * time.Second / 2, again: true}, {class: sdk.ClassRateLimited}},
		"retry-after is a floor":      {{class: sdk.ClassRateLimited, after: 9000, min: 9 * time.Second, max: 9 * time.Second, again: true}},
		"max_duration":                {{class: sdk.ClassRateLimited, elapsed: time.Minute}},
		"class without a block":       {{class: sdk.ClassQuota}},
	} {
		tries := make([]int, len(ps))
		for i, s := range steps {
			d, k := backoff(ps, tries, &sdk.Error{Class: s.class, RetryAfterMS: s.after}, s.elapsed, checkpoint.Fingerprint(sdk.Sum([]byte(name))))
			if (k >= 0) != s.again || d < s.min || d > s.max {
				t.Errorf("%s, failure %d: %v, %v", name, i+1, d, k)
			}
		}
	}
	once := []RetryPolicy{{On: []sdk.Class{sdk.ClassTimeout}, MaxAttempts: 1}}
	if _, k := backoff(once, make([]int, 1), &sdk.Error{Class: sdk.ClassTimeout}, 0, checkpoint.Fingerprint{}); k >= 0 {
		t.Error("max_attempts = 1 is exactly one call")
	}
}

// BenchmarkMachine is the scheduler's own cost per step that does nothing.
func BenchmarkMachine(b *testing.B) {
	const n = 20_000
	shapes := map[string]func(i int) []recovery.Ref{
		"chain": func(i int) []recovery.Ref {
			if i == 0 {
				return nil
			}
			return []recovery.Ref{{Step: int32(i - 1)}}
		},
		"fan": func(i int) []recovery.Ref {
			if i == 0 {
				return nil
			}
			return []recovery.Ref{{Step: 0}}
		},
	}
	for _, name := range []string{"chain", "fan"} {
		b.Run(name, func(b *testing.B) {
			nodes := make([]recovery.Node, n)
			for i := range nodes {
				nodes[i] = recovery.Node{Address: fmt.Sprint("step.s", i), Refs: shapes[name](i)}
			}
			g := mustGraph(b, nodes)
			plan, steps := firstPlan(g), make([]stepPolicy, n)
			var signals []signal
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				m := newMachine(g, plan, steps, 10, false, "")
				signals = append(signals[:0], signal{kind: sigStart})
				seq := checkpoint.Seq(0)
				for len(signals) > 0 {
					s := signals[len(signals)-1]
					signals = signals[:len(signals)-1]
					for _, c := range m.Apply(s) {
						switch c.kind {
						case cmdWork:
							signals = append(signals, signal{kind: sigEnded, node: c.node})
						case cmdPut:
							seq++
							signals = append(signals, signal{kind: sigPut, node: c.node, seq: seq})
						}
					}
				}
				if !m.ended {
					b.Fatal("the run did not end")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/step")
		})
	}
}

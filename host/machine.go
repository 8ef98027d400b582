package host

import (
	"container/heap"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// machine is the state of one run. Its nodes are the steps of the graph, under
// their numbers there, and behind them the instances of steps with for_each,
// numbered as they become known (fan.go). Apply is a pure function from a signal to the
// commands that follow from it. It has no clock, no goroutine and no I/O, and
// iterates over no map, so one sequence of signals always gives one sequence of
// commands; whoever drives it (the loop in this package, a distributed engine)
// carries them out. Not safe for concurrent use.
type machine struct {
	g           *recovery.Graph
	steps       []stepPolicy
	concurrency int
	failFast    bool
	seed        string     // of the jitter
	instances   []instance // what the nodes behind the steps are
	fans        []*fan     // by node: its instances, once they are known; nil without any for_each
	pools       []*pool    // sub-workflows that bound their instances under way
	poolOf      map[poolKey]*pool

	state     []sdk.State
	needed    []bool
	stage     []stage
	unmet     []int32 // of steps: upstreams that have not ended
	unmetWhen []int32 // those that `when` names; whenMet once it was evaluated
	attempt   []int32 // of the current or last attempt
	tries     [][]int // failures per retry policy; nil before the first
	now       time.Duration
	first     []time.Duration      // when the first attempt began
	errs      map[int32]*sdk.Error // of failed and cancelled steps
	fallback  map[int32]int32      // the fallback that is tried, from 1
	before    map[int32]int32      // the action to run before the next attempt, from 1

	ready  queue // steps that wait for a slot
	busy   int   // slots taken
	timers int   // retries that wait
	open   int   // needed steps that have not ended
	failed int
	stop   *sdk.Error // why no step starts any more
	drain  bool       // fail_fast: what has begun may end, retries included
	ended  bool

	persisted checkpoint.Seq
	holds     holdHeap         // attempts that wait for a sync
	queued    []queuedSeq      // committed, not yet persisted, in commit order
	effects   []checkpoint.Seq // of the results of steps with effects, by step

	out []command
	hit []int32 // ended steps whose downstream does not know yet
}

// stepPolicy is what the machine must know of a step.
type stepPolicy struct {
	Effects sdk.Effects
	Retry   []RetryPolicy
	HasWhen bool
	Attempt int32 // attempts the run has already made of it, before this continuation

	Loops         int32         // it stands in; its instances have so many keys
	Each          []int32       // how many facets belong to the for_each of each loop
	WhenDepth     int32         // of how many loops `when` needs the key
	Deep          bool          // instances name those of other steps, besides following them, or have instances
	Concurrency   int32         // instances of one collection at once; 0 = no bound of their own
	Pools         []poolPolicy  // by loop: what bounds its instances under way
	SkipOnFailure bool          // a failure counts as skipped
	Fallbacks     [][]sdk.Class // the classes that each catches, in their order
}

// loops takes over what bounds the instances of a step's loops.
func (p *stepPolicy) loops(ls []hcl.Loop) {
	bounded := false
	for _, l := range ls {
		p.Each = append(p.Each, int32(l.Facets))
		p.Pools = append(p.Pools, poolPolicy{Sub: int32(l.Sub), Limit: int32(l.Limit)})
		bounded = bounded || l.Sub > 0
	}
	if !bounded {
		p.Pools = nil
	}
}

// whenMet stands in unmetWhen for a `when` that was evaluated and true.
const whenMet = -1

type stage uint8

const (
	stageWaiting stage = iota // for upstreams
	stageQueued               // for one of the slots that its step's instances share, or until its place may be under way
	stageReady                // for a slot
	stageWorking              // a worker has it
	stageHeld                 // prepared, waits for a sync
	stageRunning              // an attempt with effects runs
	stagePutting              // its result is being committed
	stageRetry                // waits for its timer
	stageLimited              // waits for its turn at its plugin's limiter
	stageFanned               // its instances are known and run
	stageEnded
)

func newMachine(g *recovery.Graph, plan *recovery.Plan, steps []stepPolicy, concurrency int, failFast bool, seed string) *machine {
	n := g.Len()
	m := &machine{
		g: g, steps: steps, concurrency: concurrency, failFast: failFast, seed: seed,
		state: make([]sdk.State, n), needed: make([]bool, n), stage: make([]stage, n),
		unmet: make([]int32, n), unmetWhen: make([]int32, n), attempt: make([]int32, n),
		tries: make([][]int, n), first: make([]time.Duration, n), errs: map[int32]*sdk.Error{},
		effects: make([]checkpoint.Seq, n), fallback: map[int32]int32{}, before: map[int32]int32{},
	}
	for i := range int32(n) {
		m.attempt[i] = steps[i].Attempt
		switch plan.Step(i).Action {
		case recovery.Take:
			m.state[i], m.stage[i] = sdk.Succeeded, stageEnded
		case recovery.Skip:
			m.state[i], m.stage[i] = sdk.Skipped, stageEnded
		case recovery.Decide, recovery.Run:
			m.needed[i] = true
			m.open++
		}
	}
	for i := range int32(n) {
		if !m.needed[i] {
			continue
		}
		for _, u := range g.Upstream(i) {
			if m.needed[u] {
				m.unmet[i]++
			}
		}
		if steps[i].HasWhen {
			m.unmetWhen[i] = m.countWhen(i)
		}
		if steps[i].Loops > 0 && m.fans == nil {
			m.fans = make([]*fan, n)
		}
	}
	return m
}

// step is the step that node i is, or is an instance of.
func (m *machine) step(i int32) int32 {
	if n := int32(m.g.Len()); i >= n {
		return m.instances[i-n].step
	}
	return i
}

func (m *machine) policy(i int32) *stepPolicy { return &m.steps[m.step(i)] }

// isStep: i is a step, not an instance of one.
func (m *machine) isStep(i int32) bool { return i < int32(m.g.Len()) }

// countWhen counts the upstreams of `when` that have not ended, each once.
func (m *machine) countWhen(i int32) (n int32) {
	refs := m.g.WhenRefs(i)
	for k, r := range refs {
		if m.needed[r.Step] && !m.state[r.Step].Ended() && !names(refs[:k], r.Step) {
			n++
		}
	}
	return n
}

func names(refs []recovery.Ref, step int32) bool {
	for k := range refs {
		if refs[k].Step == step {
			return true
		}
	}
	return false
}

// Apply takes one signal. The commands are valid until the next call.
func (m *machine) Apply(s signal) []command {
	m.out, m.now = m.out[:0], s.now
	switch s.kind {
	case sigStart:
		for i := range int32(m.g.Len()) {
			if m.needed[i] {
				m.consider(i)
			}
		}
		m.settle()
	case sigPrepared:
		m.prepared(s.node)
	case sigIntent:
		m.hold(s.node, s.seq)
	case sigEnded:
		m.workEnded(s)
	case sigPut:
		m.put(s.node, s.seq)
	case sigPersisted:
		m.sync(s.seq)
	case sigTimer:
		m.timers--
		if m.stage[s.node] == stageRetry { // else it was cancelled
			m.makeReady(s.node)
		}
	case sigTurn:
		if m.stage[s.node] == stageLimited { // else it was cancelled, or told twice
			m.makeReady(s.node)
		}
	case sigStop:
		m.halt(s.err)
	case sigDrain:
		if m.stop == nil && !m.ended {
			m.stop, m.drain = s.err, true
			m.cancelWaiting()
		}
	}
	m.regulate()
	m.dispatch()
	return m.out
}

func (m *machine) emit(c command) { m.out = append(m.out, c) }

// consider looks at a waiting node some of whose upstreams have ended: it
// joins the ready ones, or ends and joins m.hit.
func (m *machine) consider(i int32) {
	refs := m.g.AllRefs(m.step(i))
	switch {
	case m.stage[i] == stageFanned:
		m.considerFan(i)
		return
	case m.stage[i] != stageWaiting:
		return // it is at work on its `when`
	case m.asksWhen(i):
		refs = m.asked(i) // first, whatever became of the others
		if m.unmetWhen[i] > 0 || !m.isStep(i) && !m.allOver(refs, i) {
			return
		}
	case m.collects(i) && m.early(i):
		if refs = m.decisive(i); !m.allOver(refs, i) {
			return
		}
	case !m.met(i):
		return
	}
	m.startOr(i, refs)
}

// startOr makes node i ready, or ends it with what has become of refs.
func (m *machine) startOr(i int32, refs []recovery.Ref) {
	s, why := m.verdict(refs, i)
	if m.stop != nil && s == sdk.Succeeded {
		s, why = sdk.Cancelled, m.stop
	}
	if s == sdk.Succeeded {
		m.makeReady(i)
		return
	}
	m.finish(i, s, why)
	m.hit = append(m.hit, i)
}

func (m *machine) makeReady(i int32) {
	if !m.isStep(i) && !m.collects(i) && (!m.hasPlace(i) || !m.enter(i)) {
		return
	}
	m.stage[i] = stageReady
	m.ready.push(i)
}

// asksWhen: node i has a `when` that was not evaluated yet.
func (m *machine) asksWhen(i int32) bool {
	p := m.policy(i)
	return p.HasWhen && m.unmetWhen[i] >= 0 && p.WhenDepth == m.depth(i)
}

// settle tells the steps below those in m.hit that an upstream has ended; a
// skip or cancel may end many of them, so it works through a list.
func (m *machine) settle() {
	for len(m.hit) > 0 {
		u := m.hit[len(m.hit)-1]
		m.hit = m.hit[:len(m.hit)-1]
		if !m.isStep(u) {
			m.instanceEnded(u)
			continue
		}
		for _, d := range m.g.Downstream(u) {
			if !m.needed[d] || m.stage[d] == stageEnded {
				continue
			}
			m.unmet[d]--
			if m.steps[d].HasWhen && m.unmetWhen[d] > 0 && names(m.g.WhenRefs(d), u) {
				m.unmetWhen[d]--
			}
			m.consider(d)
		}
	}
}

// verdict is what the ended upstreams named by refs mean for node i: Succeeded (it
// may go on), Skipped or Cancelled.
func (m *machine) verdict(refs []recovery.Ref, i int32) (sdk.State, *sdk.Error) {
	for k := range refs {
		switch u := m.state[m.named(&refs[k], i)]; {
		case u == sdk.Cancelled:
			return sdk.Cancelled, m.stop
		case u != sdk.Succeeded && refs[k].Kind == recovery.Hard:
			return sdk.Skipped, nil
		}
	}
	return sdk.Succeeded, nil
}

// halted: nothing goes on, not even what has begun.
func (m *machine) halted() bool { return m.stop != nil && !m.drain }

// begun: a retry of i is under way; fail_fast lets it go on.
func (m *machine) begun(i int32) bool { return m.tries[i] != nil }

// dispatch gives free slots to ready nodes, oldest first.
func (m *machine) dispatch() {
	for m.busy < m.concurrency && m.ready.len() > 0 {
		i := m.ready.pop()
		if m.stage[i] != stageReady {
			continue // it has ended while it waited
		}
		c := command{kind: cmdWork, node: i, turn: m.turn(i)}
		c.early = c.turn == turnExpand && (!m.isStep(i) || m.unmet[i] > 0)
		m.busy++
		m.stage[i] = stageWorking
		m.state[i] = sdk.Running
		if c.turn == turnStep {
			m.attempt[i]++
			if !m.begun(i) {
				m.first[i] = m.now
			}
			c.hold, c.which, c.before = m.mustHold(i), m.fallback[i], m.before[i]
			delete(m.before, i)
		}
		c.attempt = m.attempt[i]
		m.emit(c)
	}
	if m.open == 0 && m.busy == 0 && !m.ended {
		m.ended = true
		c := command{kind: cmdFinish, status: checkpoint.RunSucceeded}
		switch {
		case m.halted() && m.stop.Class == sdk.ClassCancelled:
			c.status, c.err = checkpoint.RunCancelled, m.stop
		case m.stop != nil || m.failed > 0:
			c.status, c.err = checkpoint.RunFailed, m.stop
		}
		m.emit(c)
	}
}

// turn is what is to be done with a ready node. `when` is asked in one go with
// the rest, if nothing stands against that.
func (m *machine) turn(i int32) turn {
	switch {
	case m.asksWhen(i):
		if m.collects(i) || !m.met(i) {
			return turnWhen
		}
		if all, _ := m.verdict(m.g.AllRefs(m.step(i)), i); all != sdk.Succeeded {
			return turnWhen
		}
	case m.collects(i):
		if m.fans[i] != nil {
			return turnGather
		}
		return turnExpand
	}
	return turnStep
}

func (m *machine) fail(i int32, err *sdk.Error) {
	if m.policy(i).SkipOnFailure && err.Code != CodeOutcomeUnknown && err.Code != CodeNotRecorded {
		m.stage[i], m.state[i] = stagePutting, sdk.Skipped
		m.errs[i] = err
		m.busy++ // until that is stored
		m.emit(command{kind: cmdPut, node: i, attempt: m.attempt[i], state: sdk.Skipped, err: err})
		return
	}
	m.failed++
	m.end(i, sdk.Failed, err)
	if m.failFast && m.stop == nil {
		m.stop = &sdk.Error{Class: sdk.ClassCancelled, Code: "fail_fast", Message: m.g.Address(m.step(i)) + " failed and fail_fast is set"}
		m.drain = true
		m.cancelWaiting()
	}
}

// put: the result of i is in commit order, visible to those below.
func (m *machine) put(i int32, seq checkpoint.Seq) {
	if seq > 0 {
		m.queued = append(m.queued, queuedSeq{seq, i})
	}
	if m.policy(i).Effects.Changes() {
		m.effects[i] = seq
	}
	m.busy--
	m.end(i, m.state[i], m.errs[i])
}

// end gives a step its final state, and those below theirs where it follows.
func (m *machine) end(i int32, s sdk.State, err *sdk.Error) {
	m.finish(i, s, err)
	m.hit = append(m.hit, i)
	m.settle()
}

func (m *machine) finish(i int32, s sdk.State, err *sdk.Error) {
	m.leave(i)
	m.state[i], m.stage[i] = s, stageEnded
	m.stopped(i)
	m.open--
	if err != nil {
		m.errs[i] = err
	}
	m.emit(command{kind: cmdNote, node: i, attempt: m.attempt[i], state: s, err: err, final: true})
}

// halt ends the run: nothing starts any more, what runs is cancelled, what has
// finished stays.
func (m *machine) halt(err *sdk.Error) {
	if m.halted() || m.ended {
		return
	}
	m.stop, m.drain = err, false
	for i := range int32(len(m.state)) {
		if m.needed[i] && (m.stage[i] == stageWorking || m.stage[i] == stageRunning) {
			m.emit(command{kind: cmdCancel, node: i, err: err})
		}
	}
	for len(m.holds) > 0 {
		m.run(heap.Pop(&m.holds).(queuedSeq).node)
	}
	for i := range int32(len(m.state)) {
		if m.needed[i] && (m.stage[i] == stageRetry || m.stage[i] == stageLimited) {
			m.end(i, sdk.Cancelled, err)
		}
	}
	m.cancelWaiting()
}

// cancelWaiting ends what has not begun. A step that fail_fast finds between
// two attempts has begun and keeps its retries.
func (m *machine) cancelWaiting() {
	for i := int32(m.g.Len()); i < int32(len(m.state)); i++ { // before a place among them becomes free
		if m.stage[i] == stageQueued && !(m.drain && m.begun(i)) {
			m.end(i, sdk.Cancelled, m.stop)
		}
	}
	for i := range int32(len(m.state)) {
		if m.needed[i] && (m.stage[i] == stageWaiting || (m.stage[i] == stageReady || m.stage[i] == stageLimited) && !(m.drain && m.begun(i))) {
			m.end(i, sdk.Cancelled, m.stop)
		}
	}
}

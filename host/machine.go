package host

import (
	"container/heap"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// machine is the state of one run: a pure function from a signal to the
// commands that follow from it. It has no clock, no goroutine and no I/O, and
// iterates over no map, so one sequence of signals always gives one sequence of
// commands; whoever drives it (the loop in this package, a distributed engine)
// carries them out. Not safe for concurrent use.
type machine struct {
	g           *recovery.Graph
	steps       []stepPolicy
	concurrency int
	failFast    bool
	seed        string // of the jitter

	state     []sdk.State
	needed    []bool
	stage     []stage
	unmet     []int32 // upstreams that have not ended
	unmetWhen []int32 // those that `when` names; whenMet once it was evaluated
	attempt   []int32 // of the current or last attempt
	tries     [][]int // failures per retry policy; nil before the first
	now       time.Duration
	first     []time.Duration      // when the first attempt began
	errs      map[int32]*sdk.Error // of failed and cancelled steps

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
}

// whenMet stands in unmetWhen for a `when` that was evaluated and true.
const whenMet = -1

type stage uint8

const (
	stageWaiting stage = iota // for upstreams
	stageReady                // for a slot
	stageWorking              // a worker has it
	stageHeld                 // prepared, waits for a sync
	stageRunning              // an attempt with effects runs
	stagePutting              // its result is being committed
	stageRetry                // waits for its timer
	stageEnded
)

// signal is something that happened.
type signal struct {
	kind signalKind
	step int32
	end  ending         // sigEnded
	err  *sdk.Error     // sigEnded with endFailed, sigStop
	seq  checkpoint.Seq // sigIntent, sigPut, sigPersisted
	now  time.Duration  // since the run began in this process
}

type signalKind uint8

const (
	sigStart     signalKind = iota
	sigPrepared             // a held step is ready to start its attempt
	sigEnded                // a worker is done with a step
	sigIntent               // the intent is committed as seq
	sigPut                  // the result is committed as seq; 0 = nothing had to be
	sigPersisted            // everything up to seq is durable
	sigTimer                // a retry's delay is over
	sigStop                 // cancel or run timeout, err says why
)

// ending is how a worker's turn with a step ended.
type ending uint8

const (
	endResult    ending = iota // an output, or a record that is reused
	endSkipped                 // its `when` is false
	endCondition               // its `when` is true; inputs are still awaited
	endFailed                  // the attempt failed, or the input could not be evaluated
)

// command is something to do.
type command struct {
	kind    commandKind
	step    int32
	attempt int32
	hold    bool          // cmdWork: prepare only
	only    bool          // cmdWork: evaluate `when` only
	final   bool          // cmdNote of a failure: no retry follows
	state   sdk.State     // cmdNote
	after   time.Duration // cmdTimer
	err     *sdk.Error    // cmdNote, cmdCancel, cmdFinish
	status  checkpoint.RunStatus
}

type commandKind uint8

const (
	cmdWork   commandKind = iota // decide and, unless hold, run an attempt: answered by sigPrepared or sigEnded
	cmdIntent                    // commit the intent of a prepared step: sigIntent
	cmdRun                       // run the prepared attempt: sigEnded
	cmdPut                       // commit the result: sigPut
	cmdTimer                     // sigTimer after a while
	cmdCancel                    // end the running attempt; sigEnded follows as always
	cmdNote                      // tell: the step has this state now
	cmdNotePersisted
	cmdFinish // the run has ended with status
)

type queuedSeq struct {
	seq  checkpoint.Seq
	step int32
}

func newMachine(g *recovery.Graph, plan *recovery.Plan, steps []stepPolicy, concurrency int, failFast bool, seed string) *machine {
	n := g.Len()
	m := &machine{
		g: g, steps: steps, concurrency: concurrency, failFast: failFast, seed: seed,
		state: make([]sdk.State, n), needed: make([]bool, n), stage: make([]stage, n),
		unmet: make([]int32, n), unmetWhen: make([]int32, n), attempt: make([]int32, n),
		tries: make([][]int, n), first: make([]time.Duration, n), errs: map[int32]*sdk.Error{},
		effects: make([]checkpoint.Seq, n),
	}
	for i := range int32(n) {
		m.attempt[i] = steps[i].Attempt
		switch plan.Steps[i].Action {
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
	}
	return m
}

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
		m.prepared(s.step)
	case sigIntent:
		m.hold(s.step, s.seq)
	case sigEnded:
		m.workEnded(s)
	case sigPut:
		m.put(s.step, s.seq)
	case sigPersisted:
		m.sync(s.seq)
	case sigTimer:
		m.timers--
		if m.stage[s.step] == stageRetry { // else it was cancelled
			m.stage[s.step] = stageReady
			m.ready.push(s.step)
		}
	case sigStop:
		m.halt(s.err)
	}
	m.dispatch()
	return m.out
}

func (m *machine) emit(c command) { m.out = append(m.out, c) }

// consider looks at a waiting step some of whose upstreams have ended: it
// joins the ready ones, or ends and joins m.hit.
func (m *machine) consider(i int32) {
	refs := m.g.Refs(i)
	switch {
	case m.stage[i] != stageWaiting:
		return // it is at work on its `when`
	case m.asksWhen(i):
		if m.unmetWhen[i] > 0 {
			return
		}
		refs = m.g.WhenRefs(i) // first, whatever became of the others
	case m.unmet[i] > 0:
		return
	}
	s, why := m.verdict(refs)
	if m.stop != nil && s == sdk.Succeeded {
		s, why = sdk.Cancelled, m.stop
	}
	if s == sdk.Succeeded {
		m.stage[i] = stageReady
		m.ready.push(i)
		return
	}
	m.finish(i, s, why)
	m.hit = append(m.hit, i)
}

// asksWhen: i has a `when` that was not evaluated yet.
func (m *machine) asksWhen(i int32) bool { return m.steps[i].HasWhen && m.unmetWhen[i] >= 0 }

// settle tells the steps below those in m.hit that an upstream has ended; a
// skip or cancel may end many of them, so it works through a list.
func (m *machine) settle() {
	for len(m.hit) > 0 {
		u := m.hit[len(m.hit)-1]
		m.hit = m.hit[:len(m.hit)-1]
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

// verdict is what the ended upstreams named by refs mean for a step: Succeeded
// (it may go on), Skipped or Cancelled.
func (m *machine) verdict(refs []recovery.Ref) (sdk.State, *sdk.Error) {
	for k := range refs {
		switch u := m.state[refs[k].Step]; {
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

// dispatch gives free slots to ready steps, oldest first.
func (m *machine) dispatch() {
	for m.busy < m.concurrency && m.ready.len() > 0 {
		i := m.ready.pop()
		if m.stage[i] != stageReady {
			continue // it has ended while it waited
		}
		only := false
		if m.asksWhen(i) { // in one go with the rest, if nothing stands against that
			all, _ := m.verdict(m.g.Refs(i))
			only = m.unmet[i] > 0 || all != sdk.Succeeded
		}
		m.busy++
		m.stage[i] = stageWorking
		m.state[i] = sdk.Running
		if !only {
			m.attempt[i]++
			if !m.begun(i) {
				m.first[i] = m.now
			}
		}
		m.emit(command{kind: cmdWork, step: i, attempt: m.attempt[i], only: only, hold: !only && m.mustHold(i)})
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

// mustHold: an attempt that changes the world, or that is based on such a
// change, begins only when what it stands on is durable.
func (m *machine) mustHold(i int32) bool {
	return m.steps[i].Effects.Changes() || m.base(i) > m.persisted
}

// base is the newest result with effects directly above i.
func (m *machine) base(i int32) (seq checkpoint.Seq) {
	for _, u := range m.g.Upstream(i) {
		seq = max(seq, m.effects[u])
	}
	return seq
}

func (m *machine) prepared(i int32) {
	switch {
	case m.halted():
		m.busy--
		m.end(i, sdk.Cancelled, m.stop)
	case m.steps[i].Effects.Changes():
		m.stage[i] = stageHeld
		m.emit(command{kind: cmdIntent, step: i, attempt: m.attempt[i]})
	default:
		m.hold(i, m.base(i))
	}
}

func (m *machine) hold(i int32, seq checkpoint.Seq) {
	if seq <= m.persisted {
		m.run(i)
		return
	}
	m.stage[i] = stageHeld
	heap.Push(&m.holds, queuedSeq{seq, i})
}

func (m *machine) run(i int32) {
	if m.halted() {
		m.busy--
		m.end(i, sdk.Cancelled, m.stop)
		return
	}
	m.stage[i] = stageRunning
	m.emit(command{kind: cmdRun, step: i, attempt: m.attempt[i]})
}

func (m *machine) sync(seq checkpoint.Seq) {
	if seq <= m.persisted {
		return
	}
	m.persisted = seq
	n := 0
	for n < len(m.queued) && m.queued[n].seq <= seq {
		m.emit(command{kind: cmdNotePersisted, step: m.queued[n].step})
		n++
	}
	m.queued = append(m.queued[:0], m.queued[n:]...)
	for len(m.holds) > 0 && m.holds[0].seq <= seq {
		m.run(heap.Pop(&m.holds).(queuedSeq).step)
	}
}

func (m *machine) workEnded(s signal) {
	i := s.step
	switch s.end {
	case endResult, endSkipped:
		m.stage[i] = stagePutting
		if s.end == endSkipped {
			m.state[i] = sdk.Skipped
		} else {
			m.state[i] = sdk.Succeeded
		}
		m.emit(command{kind: cmdPut, step: i, attempt: m.attempt[i], state: m.state[i]})
		return
	case endCondition:
		m.busy--
		m.state[i], m.stage[i] = sdk.Pending, stageWaiting
		m.unmetWhen[i] = whenMet
		m.consider(i)
		m.settle()
		return
	}
	m.busy--
	if m.tries[i] == nil {
		m.tries[i] = make([]int, len(m.steps[i].Retry))
	}
	delay, again := backoff(m.steps[i].Retry, m.tries[i], s.err, m.now-m.first[i], m.jitter(i))
	switch {
	case m.unknownOutcome(i, s.err):
		m.fail(i, outcomeUnknown(m.g.Address(i), "its attempt ended without saying so: "+s.err.Message))
		return
	case m.halted() && (again || s.err.Class == sdk.ClassCancelled):
		m.end(i, sdk.Cancelled, m.stop)
		return
	case !again:
		m.fail(i, s.err)
		return
	}
	m.state[i], m.stage[i] = sdk.Pending, stageRetry
	m.timers++
	m.emit(command{kind: cmdNote, step: i, attempt: m.attempt[i], state: sdk.Pending, err: s.err, after: delay})
	m.emit(command{kind: cmdTimer, step: i, after: delay})
}

// unknownOutcome: an attempt of a step that must happen once ended without
// saying whether it happened.
func (m *machine) unknownOutcome(i int32, err *sdk.Error) bool {
	return m.steps[i].Effects == sdk.EffectsOnce && ambiguous(err.Class)
}

func (m *machine) jitter(i int32) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/jitter/1")
	h.String(m.seed)
	h.String(m.g.Address(i))
	h.Int(int(m.attempt[i]))
	return h.Sum()
}

func (m *machine) fail(i int32, err *sdk.Error) {
	m.failed++
	m.end(i, sdk.Failed, err)
	if m.failFast && m.stop == nil {
		m.stop = &sdk.Error{Class: sdk.ClassCancelled, Code: "fail_fast", Message: m.g.Address(i) + " failed and fail_fast is set"}
		m.drain = true
		m.cancelWaiting()
	}
}

// put: the result of i is in commit order, visible to those below.
func (m *machine) put(i int32, seq checkpoint.Seq) {
	if seq > 0 {
		m.queued = append(m.queued, queuedSeq{seq, i})
	}
	if m.steps[i].Effects.Changes() {
		m.effects[i] = seq
	}
	m.busy--
	m.end(i, m.state[i], nil)
}

// end gives a step its final state, and those below theirs where it follows.
func (m *machine) end(i int32, s sdk.State, err *sdk.Error) {
	m.finish(i, s, err)
	m.hit = append(m.hit, i)
	m.settle()
}

func (m *machine) finish(i int32, s sdk.State, err *sdk.Error) {
	m.state[i], m.stage[i] = s, stageEnded
	m.open--
	if err != nil {
		m.errs[i] = err
	}
	m.emit(command{kind: cmdNote, step: i, attempt: m.attempt[i], state: s, err: err, final: true})
}

// halt ends the run: nothing starts any more, what runs is cancelled, what has
// finished stays.
func (m *machine) halt(err *sdk.Error) {
	if m.halted() || m.ended {
		return
	}
	m.stop, m.drain = err, false
	for i := range int32(m.g.Len()) {
		if m.needed[i] && (m.stage[i] == stageWorking || m.stage[i] == stageRunning) {
			m.emit(command{kind: cmdCancel, step: i, err: err})
		}
	}
	for len(m.holds) > 0 {
		m.run(heap.Pop(&m.holds).(queuedSeq).step)
	}
	for i := range int32(m.g.Len()) {
		if m.needed[i] && m.stage[i] == stageRetry {
			m.end(i, sdk.Cancelled, err)
		}
	}
	m.cancelWaiting()
}

// cancelWaiting ends what has not begun. A step that fail_fast finds between
// two attempts has begun and keeps its retries.
func (m *machine) cancelWaiting() {
	for i := range int32(m.g.Len()) {
		if m.needed[i] && (m.stage[i] == stageWaiting || m.stage[i] == stageReady && !(m.drain && m.begun(i))) {
			m.end(i, sdk.Cancelled, m.stop)
		}
	}
}

package host

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// run drives one machine: it carries its commands out with workers, timers and
// the store, and feeds back what happens. Everything but the marked fields is
// the loop's own; workers read results of ended steps only.
type run struct {
	h         *Host
	s         *session
	m         *machine
	ctx       context.Context // of everything the run starts
	cancel    context.CancelCauseFunc
	began     time.Time
	sanitizer *checkpoint.Sanitizer

	results      []result             // by step
	fanouts      []*fanout            // by step: its instances, once they are known
	recorded     recorded             // instances of steps that ended by their records
	units        []unit               // of the machine's nodes behind the steps
	conditionMet []bool               // by step: `when` was evaluated and true
	blocked      map[int32]*sdk.Error // steps that must not start
	consumers    []int32              // steps that may still read an output
	working      map[int32]*work      // by node: what workers have, or have prepared
	lastErr      map[int32]failedTry  // by node: of the attempt before
	claims       claims               // of records with effects
	husks        map[int32][]*work    // by step: volatile results whose record is not stored yet
	outputs      *outputs
	plugins      []pluginSlot
	actions      []actionSlot
	limiters     []*limiter        // by plugin; nil without one
	breakers     []*breaker        // by plugin
	tickets      map[int32]*ticket // by node: those that wait for a limiter
	turns        turns
	purse        *purse           // the workflow's budget; nil without one
	purses       map[int32]*purse // those of steps

	jobs    chan *work
	answers chan *work
	notes   chan Event
	workers int
	wg      sync.WaitGroup

	timers    timerHeap
	timer     *time.Timer
	signals   []signal
	events    []Event
	counts    Counts
	saved     time.Duration
	tokens    int64
	spared    checkpoint.Cost
	spent     []sdk.Usage // by model
	failures  []Failure
	skips     []Failure // failures that count as skipped
	degraded  []string
	finished  *command
	preparing int   // attempts with effects that workers prepare, and that nothing but evaluation keeps
	unsynced  bool  // the last batch waits for their intents, to share a sync
	broken    error // the store failed
}

// failedTry is how an attempt ended and when it had begun.
type failedTry struct {
	err   *sdk.Error
	began time.Time
}

// pluginSlot is a plugin loaded at most once per run.
type pluginSlot struct {
	mu     sync.Mutex
	plugin loader.Plugin
	steps  map[stepKey]sdk.Step
}

// stepKey is a step type under limits.
type stepKey struct {
	stepType string
	limits   loader.Limits
}

func (h *Host) newRun(s *session) *run {
	n := len(s.f.steps)
	concurrency := h.o.Concurrency
	if c := s.f.wf.Concurrency; c > 0 {
		concurrency = c
	}
	r := &run{
		h: h, s: s, began: time.Now(),
		results: make([]result, n), fanouts: make([]*fanout, n), lastErr: map[int32]failedTry{}, conditionMet: make([]bool, n), blocked: s.blocked, consumers: make([]int32, n),
		working: map[int32]*work{}, husks: map[int32][]*work{}, tickets: map[int32]*ticket{}, turns: turns{ready: make(chan struct{}, 1)},
		plugins: make([]pluginSlot, len(s.f.artifacts)), actions: make([]actionSlot, len(s.f.wf.Actions)),
		jobs: make(chan *work, concurrency), answers: make(chan *work, concurrency), notes: make(chan Event, 1024),
	}
	r.sanitizer, _ = checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	// Attempts end by the machine's command, so that a cancel is seen first.
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.outputs = &outputs{ctx: r.ctx, store: h.o.Store, tenant: h.o.Tenant, budget: h.o.Cache, held: map[unit]json.RawMessage{}}
	r.m = newMachine(s.f.graph, s.plan, s.policies, concurrency, s.f.wf.FailFast, string(s.record.ID))
	r.counts.Total = n
	r.openLimiters()
	for k := range r.actions {
		r.actions[k].busy = make(chan struct{}, 1)
	}
	for i := range s.plan.Len() {
		if hd := s.plan.Step(int32(i)).Head; hd != nil {
			r.results[i] = taken(hd)
		}
		switch s.plan.Step(int32(i)).Action {
		case recovery.Decide, recovery.Run:
			for _, u := range s.f.graph.Upstream(int32(i)) {
				r.consumers[u]++
			}
		}
	}
	return r
}

// drive runs the machine to its end. The error is the store's.
func (r *run) drive(ctx context.Context) error {
	defer r.close()
	r.reportPlan()
	r.push(signal{kind: sigStart})
	stop := ctx.Done()
	var timeout <-chan time.Time
	if limit := r.s.f.wf.Timeout; limit > 0 {
		t := time.NewTimer(max(limit-r.s.record.Live, 0))
		defer t.Stop()
		timeout = t.C
	}
	persisted := r.h.o.Store.Persisted()
	r.timer = time.NewTimer(time.Hour)
	defer r.timer.Stop()
	for {
		r.pump()
		r.syncNow()
		if len(r.signals) > 0 {
			continue // the store failed
		}
		r.flush()
		if r.finished != nil {
			if r.broken == nil && r.finished.status == checkpoint.RunFailed && r.s.f.wf.CompensateOnFailure && r.s.replay == nil && !r.asksPerson() {
				r.s.record.Error = r.finished.err
				return r.compensate(ctx)
			}
			return r.broken
		}
		select {
		case w := <-r.answers:
			r.answer(w)
		case e := <-r.notes:
			r.add(e)
		case seq, ok := <-persisted:
			if !ok {
				persisted = nil
				r.fail(r.h.o.Store.Barrier(r.ctx))
				break
			}
			r.push(signal{kind: sigPersisted, seq: seq})
		case <-r.timer.C:
			r.fire()
		case <-r.turns.ready:
			for _, node := range r.turns.take() {
				r.push(signal{kind: sigTurn, node: node})
			}
		case <-timeout:
			timeout = nil
			r.push(signal{kind: sigStop, err: &sdk.Error{Class: sdk.ClassTimeout, Code: "run",
				Message: "the run reached its timeout of " + r.s.f.wf.Timeout.String() + " (live time over all continuations)"}})
		case <-stop:
			stop = nil
			r.push(signal{kind: sigStop, err: cancelled(ctx)})
		}
	}
}

func cancelled(ctx context.Context) *sdk.Error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return &sdk.Error{Class: sdk.ClassCancelled, Message: "cancelled"}
	}
	return &sdk.Error{Class: sdk.ClassCancelled, Message: cause.Error()}
}

// fail ends the run because the store failed: what is not recorded must not go
// on.
func (r *run) fail(err error) {
	if r.broken != nil {
		return
	}
	if err == nil {
		err = errors.New("it was closed while the run was going on")
	}
	r.broken = &storeError{err}
	r.push(signal{kind: sigStop, err: &sdk.Error{Class: sdk.ClassCancelled, Code: "store", Message: r.broken.Error()}})
}

func (r *run) push(s signal) {
	s.now = time.Since(r.began)
	r.signals = append(r.signals, s)
}

// pump feeds the machine until nothing is left to tell it, taking in whatever
// workers have finished meanwhile.
func (r *run) pump() {
	for {
		for k := 0; k < len(r.signals); k++ {
			for _, c := range r.m.Apply(r.signals[k]) {
				r.carry(c)
			}
		}
		r.signals = r.signals[:0]
		select {
		case w := <-r.answers:
			r.answer(w)
		default:
			return
		}
	}
}

// carry does one command.
func (r *run) carry(c command) {
	switch c.kind {
	case cmdWork:
		w := &work{node: c.node, unit: r.unit(c.node), attempt: c.attempt, turn: c.turn, early: c.early, hold: c.hold, fallback: int(c.which), before: int(c.before), lastErr: r.lastErr[c.node].err, failedAt: r.lastErr[c.node].began, ticket: r.tickets[c.node]}
		delete(r.tickets, c.node)
		w.ctx, w.cancel = context.WithCancelCause(r.ctx)
		r.send(w)
	case cmdRun:
		w := r.working[c.node]
		w.ready = true
		r.send(w)
	case cmdIntent:
		r.intent(c)
	case cmdPut:
		r.put(c)
	case cmdTimer:
		heap.Push(&r.timers, timer{time.Now().Add(r.h.o.delay(c.after)), c.node})
		r.arm()
	case cmdCancel:
		if w := r.working[c.node]; w != nil {
			w.cancel(c.err)
		}
	case cmdNote:
		r.noted(c)
	case cmdNotePersisted:
		u := r.unit(c.node)
		res := r.result(u)
		r.add(Event{Type: EventPersisted, Step: r.address(u), Seq: res.seq, Checkpoint: res.id})
	case cmdFinish:
		finish := c // by itself, so that other commands stay off the heap
		r.finished = &finish
	}
}

// send gives work to a worker; the machine never has more under way than there
// are slots, so the channel takes it at once.
func (r *run) send(w *work) {
	r.working[w.node] = w
	if r.workers < cap(r.jobs) && r.workers < len(r.working) {
		r.workers++
		r.wg.Go(func() {
			for w := range r.jobs {
				r.do(w)
				r.answers <- w
			}
		})
	}
	if w.prompt = w.hold && !w.ready && w.before == 0 && w.ticket == nil && len(r.step(w).Secrets) == 0; w.prompt {
		r.preparing++
	}
	r.jobs <- w
}

// answer takes what a worker has done.
func (r *run) answer(w *work) {
	for { // what the step reported comes before how it ended
		select {
		case e := <-r.notes:
			r.add(e)
			continue
		default:
		}
		break
	}
	if w.prompt {
		w.prompt = false
		r.preparing--
	}
	if w.fatal != nil {
		r.fail(errors.Unwrap(w.fatal))
		w.failed(&sdk.Error{Class: sdk.ClassCancelled, Code: "store", Message: w.fatal.Error()})
	}
	if w.err != nil {
		w.err = r.text(w.err)
	}
	sig := signal{kind: w.kind, node: w.node, end: w.end, err: w.err}
	if w.kind == sigEnded {
		sig.known = r.knows(w)
		w.cancel(nil)
		for _, u := range w.usage {
			r.spent = operation.Add(r.spent, u)
		}
		switch w.end {
		case endCondition:
			*r.met(w.unit) = true
		case endExpanded:
			sig.fan = r.expanded(w)
		case endWaits:
			r.waiting(w)
		case endFailed, endUnready:
			if w.err.Code == CodeBudget {
				r.push(signal{kind: sigDrain, err: w.err})
			}
			r.lastErr[w.node] = failedTry{w.err, w.started}
			if !w.started.IsZero() {
				r.commit(r.batchOf(func(b *checkpoint.Batch) {
					b.PutAttempt(&checkpoint.AttemptRecord{Run: r.s.record.ID, Step: r.step(w).address, Instance: w.name(), Attempt: int(w.attempt), Content: w.content, Error: w.err, Started: w.started.UTC(), Took: w.took, Usage: w.usage, Cost: r.h.o.Prices.Cost(w.usage)})
				}))
			}
		}
		for _, warn := range w.warnings {
			r.add(Event{Type: EventLog, Step: r.address(w.unit), Attempt: int(w.attempt), Level: "warn", Message: warn.Message})
		}
	}
	r.push(sig)
	if w.end == endWaits && w.kind == sigEnded && w.ticket.goes() { // woken before the machine knew that it waits
		r.push(signal{kind: sigTurn, node: w.node})
	}
}

func (r *run) batchOf(fill func(b *checkpoint.Batch)) *checkpoint.Batch {
	b := checkpoint.NewBatch(r.h.o.Tenant, r.s.f.wf.Name)
	fill(b)
	return b
}

// commit queues a batch; 0 if the store failed.
func (r *run) commit(b *checkpoint.Batch) checkpoint.Seq {
	seq, err := r.h.o.Store.Commit(r.ctx, b)
	if err != nil {
		r.fail(err)
		return 0
	}
	r.unsynced = b.Soon
	return seq
}

// syncNow ends the wait for intents when none is being prepared.
func (r *run) syncNow() {
	if r.unsynced && r.preparing == 0 {
		r.unsynced = false
		r.commit(r.batchOf(func(*checkpoint.Batch) {}))
	}
}

func (r *run) intent(c command) {
	w := r.working[c.node]
	var of checkpoint.Fingerprint
	if w.inst >= 0 {
		of = twin(&w.in)
	}
	seq := r.commit(r.batchOf(func(b *checkpoint.Batch) {
		b.PutIntent(&checkpoint.Intent{Run: r.s.record.ID, Step: r.step(w).address, Instance: w.name(), Attempt: int(c.attempt), IdempotencyKey: w.idem, Twin: of, Reruns: r.s.rerunsOf(w), Effect: w.effect, Content: w.numbered(0), Local: r.s.local(w.step, w.in.Name), Effects: r.step(w).effects, Started: time.Now().UTC(), Undo: w.undo})
	}))
	r.push(signal{kind: sigIntent, node: c.node, seq: seq})
}

// put commits what a step or instance ended with, behind the husks of volatile
// steps above it that no record has carried yet.
func (r *run) put(c command) {
	w := r.working[c.node]
	st := r.step(w)
	res := result{state: c.state, attempts: w.attempt, key: w.key, err: c.err}
	b := checkpoint.NewBatch(r.h.o.Tenant, r.s.f.wf.Name)
	// The intents of what is below queue behind it, and one sync serves both.
	b.Soon = r.s.policies[w.step].Effects.Changes()
	volatile := w.end == endResult && w.reused == nil && st.volatile && !w.supplied
	if !volatile {
		r.addHusks(b, w.step)
	}
	switch {
	case c.err != nil: // it failed, and that counts as skipped
		w.record = r.newRecord(w)
		w.record.Outcome, w.record.Context.Error = checkpoint.SkippedFailure, c.err
		w.record.Facets = failedFacets(c.err, int(w.attempt))
		b.PutSkip(w.record)
	case w.hit:
		b.PutReuse(w.record, w.reused)
	case w.reused != nil:
		res = taken(w.reused)
		res.err = w.failure
	case w.end == endSkipped:
		b.PutSkip(w.record)
	case volatile:
		r.husks[w.step] = append(r.husks[w.step], w)
		r.outputs.put(w.unit, w.sanitized.Data(), false)
		res.output, res.facets = w.sanitized.Digest(), w.record.Facets
	default:
		b.PutCheckpoint(w.record, w.sanitized)
		if r.consumers[w.step] > 0 || w.unit.among != nil {
			r.outputs.put(w.unit, w.sanitized.Data(), true)
		}
	}
	var seq checkpoint.Seq
	if len(b.Items) > 0 {
		if seq = r.commit(b); seq > 0 && w.record != nil && !volatile {
			rec := &w.record.Head
			res.seq, res.id, res.output, res.data, res.facets = seq, rec.ID, rec.Output, rec.Data, rec.Facets
			if w.end == endResult && !w.hit {
				res.data.Seq = seq
			}
			res.degraded, res.operator, res.attempts = rec.Degraded, rec.Operator, int32(rec.Attempts)
			res.took, res.tokens, res.cost, res.expires = rec.Took, rec.Tokens, rec.Cost, rec.Expires
		}
	}
	*r.result(w.unit) = res
	r.push(signal{kind: sigPut, node: c.node, seq: seq})
}

// addHusks writes the records of volatile steps above those given.
func (r *run) addHusks(b *checkpoint.Batch, below ...int32) {
	if len(r.husks) == 0 {
		return
	}
	stack, seen := slices.Clone(below), map[int32]bool{}
	var found []int32
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range r.s.f.graph.Upstream(at) {
			if !seen[u] {
				seen[u] = true
				stack = append(stack, u)
				if r.husks[u] != nil {
					found = append(found, u)
				}
			}
		}
	}
	slices.Sort(found)
	for _, u := range found {
		for _, w := range r.husks[u] {
			b.PutHusk(w.record, w.sanitized)
		}
		delete(r.husks, u)
	}
}

// close stops the workers and frees the plugins.
func (r *run) close() {
	r.cancel(&sdk.Error{Class: sdk.ClassCancelled, Message: "the run has ended"})
	for node := range r.tickets {
		r.forget(node, nil)
	}
	close(r.jobs)
	r.wg.Wait()
	for i := range r.plugins {
		if p := r.plugins[i].plugin; p != nil {
			if err := p.Close(); err != nil {
				r.h.o.Logger.Warn("plugin did not close cleanly", "plugin", r.s.f.wf.Plugins[i].Name, "cause", err)
			}
		}
	}
}

package host

import (
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// noted is told that a step has a state now.
func (r *run) noted(c command) {
	w, u := r.working[c.node], r.unit(c.node)
	e := Event{Step: r.address(u), Attempt: int(c.attempt), Error: c.err}
	if w != nil {
		e.Took, e.Usage = w.took, w.usage
		e.Cost = r.h.o.Prices.Cost(w.usage)
	}
	if !c.final {
		r.retries(c, w, e)
		return
	}
	if w == nil || w.started.IsZero() {
		e.Attempt = 0 // it ended before an attempt of this continuation began
	}
	delete(r.lastErr, c.node)
	r.forget(c.node, w)
	switch c.state {
	case sdk.Succeeded:
		r.succeeded(u, w, e)
	case sdk.Skipped:
		r.skipped(c, u, w, e)
	case sdk.Failed:
		r.failed(c, u, e)
	case sdk.Cancelled:
		r.wasCancelled(c, u, e)
	}
	delete(r.working, c.node)
	if u.among != nil {
		return
	}
	r.drop(u.step)
	for _, up := range r.s.f.graph.Upstream(u.step) {
		r.consumers[up]--
		r.drop(up)
	}
}

// retries notes a failed attempt that another one follows. e is the event as far as
// it is the same for every state, here and in the functions below.
func (r *run) retries(c command, w *work, e Event) {
	e.Type, e.Delay = EventAttemptFailed, c.after
	if w != nil {
		r.slowed(w, c.err, c.after)
	}
	if c.which > 0 {
		e.Reason = "falls back to " + r.fallbackName(r.unit(c.node).step, int(c.which)-1)
	}
	if c.err.Code == CodeCircuitOpen {
		e.Type, e.Attempt = EventBypassed, 0
	}
	delete(r.working, c.node)
	r.add(e)
}

func (r *run) succeeded(u unit, w *work, e Event) {
	if w.reused != nil {
		r.reused(u, w.reused, true)
		return
	}
	switch {
	case w.supplied:
		e.Reason = suppliedReason
		r.counts.Supplied++
	case r.counted(u):
		r.counts.Ran++
	}
	res := r.result(u)
	e.Type, e.Checkpoint, e.Seq = EventSucceeded, res.id, res.seq
	if f := r.fan(u); f != nil {
		e.Instances = len(f.in)
	}
	if rec := w.record; rec != nil && rec.Degraded {
		e.Degraded, e.Error = true, rec.Context.Error
	}
	r.answered(u, res)
	r.add(e)
}

func (r *run) skipped(c command, u unit, w *work, e Event) {
	if r.counted(u) {
		r.counts.Skipped++
	}
	res := r.result(u)
	e.Type = EventSkipped
	switch {
	case c.err != nil:
		e.Reason = "failed, and " + r.s.excuse(u.step, u.name())
		r.skips = append(r.skips, Failure{Step: e.Step, Attempts: e.Attempt, Error: c.err})
	case w != nil && w.failure != nil:
		e.Attempt, e.Reason, e.Error = 0, r.s.failedBefore(u.step, u.name()), w.failure
		r.skips = append(r.skips, Failure{Step: e.Step, Attempts: int(res.attempts), Error: w.failure})
		res.state = sdk.Skipped
	default:
		e.Attempt, e.Reason = 0, r.skipReason(u, w)
		res.state = sdk.Skipped
	}
	r.add(e)
}

func (r *run) failed(c command, u unit, e Event) {
	e.Type = EventFailed
	if r.counted(u) {
		r.counts.Failed++
		r.failure(c, u, &e)
	} else if err := r.instancesFailed(u); err != nil {
		c.err, e.Error = err, err
	} else { // putting them together failed
		r.failures = append(r.failures, Failure{Step: e.Step, Error: c.err})
	}
	res := r.result(u)
	*res = result{state: sdk.Failed, err: c.err, attempts: c.attempt}
	if f := r.fan(u); f != nil {
		res.facets = f.facets()
	}
	r.add(e)
}

// failure adds what failed to the failures of the run, with the place of an input that
// was refused.
func (r *run) failure(c command, u unit, e *Event) {
	f := Failure{Step: e.Step, Attempts: e.Attempt, Error: c.err}
	if c.err.Class == sdk.ClassInvalidInput && c.err.Path != "" {
		f.Place = r.s.f.wf.InputPlace(int(u.step), c.err.Path)
		if !f.Place.IsZero() {
			e.Place = &f.Place
		}
	}
	if c.err.Code == codeNoInstance { // all steps in a sub-workflow that is a loop lack it: that is one failure
		f.Step = hcl.InstanceAddress(r.s.loopAddress(u.step, u.depth()+1), u.name())
		if slices.ContainsFunc(r.failures, func(x Failure) bool { return x.Step == f.Step && x.Error.Code == codeNoInstance }) {
			return
		}
	}
	r.failures = append(r.failures, f)
}

func (r *run) wasCancelled(c command, u unit, e Event) {
	res := r.result(u)
	if f := r.fan(u); f != nil && f.left > 0 && c.err == nil {
		*res = result{} // only instances of it were asked for, and it is none
		return
	}
	if r.counted(u) {
		r.counts.Cancelled++
	}
	e.Type = EventCancelled
	*res = result{state: sdk.Cancelled, err: c.err, attempts: c.attempt}
	r.add(e)
}

// fallbackName is what answers when step i falls back to its k-th fallback.
func (r *run) fallbackName(i int32, k int) string {
	switch fb := &r.s.f.steps[i].Fallbacks[k]; fb.Kind {
	case hcl.FallbackStep:
		return "plugin." + r.s.f.wf.Plugins[fb.Use.Plugin].Name + "." + fb.Use.StepType
	case hcl.FallbackLast:
		return "the last answer"
	}
	return "a fixed output"
}

// excuse says why a failure of a step or instance counts as a skip.
func (s *session) excuse(step int32, instance string) string {
	switch by := s.f.steps[step].FallsBack; {
	case by == "":
		return "on_failure = skip"
	case instance != "" && strings.Contains(by, hcl.AllInstances):
		return hcl.InstanceAddress(by, hcl.FirstKeys(instance, strings.Count(by, hcl.AllInstances))) + " falls back"
	default:
		return by + " falls back"
	}
}

// failedBefore is the reason of a step or instance that failed and was skipped in
// an earlier process of the run.
func (s *session) failedBefore(step int32, instance string) string {
	return "failed earlier in this run, and " + s.excuse(step, instance)
}

// answered notes a step or instance whose answer is a fallback's. A collection
// is as good as its instances, which are noted themselves.
func (r *run) answered(u unit, res *result) {
	if res.degraded && r.counted(u) {
		r.degraded = append(r.degraded, r.address(u))
	}
}

// drop forgets the outputs of a step that has ended and that nothing reads any
// more.
func (r *run) drop(step int32) {
	if r.consumers[step] > 0 || !r.results[step].state.Ended() {
		return
	}
	r.outputs.drop(whole(step))
	if f := r.fanouts[step]; f != nil {
		f.every(func(f *fanout) {
			for k := range f.each {
				r.outputs.drop(f.unit(k))
			}
		})
	}
}

func (r *run) skipReason(u unit, w *work) string {
	if w != nil && w.end == endSkipped {
		return "condition: when is false"
	}
	refs := r.s.f.graph.AllRefs(u.step)
	for k := range refs {
		if refs[k].Kind != recovery.Hard {
			continue
		}
		of := r.means(&refs[k], u)
		if in, ok := r.above(u); ok && of.depth() < u.depth() && int(refs[k].Follows) == u.depth() {
			keys := hcl.InstanceKeys(u.name())
			above := hcl.InstanceAddress(r.s.f.steps[of.step].address, hcl.InnerName(of.name(), keys[len(keys)-1]))
			if in.Error != nil {
				return "upstream_failed: " + above + " failed"
			}
			return "upstream_skipped: " + above + " was skipped"
		}
		switch res := r.result(of); {
		case res.state == sdk.Failed, res.failed():
			return "upstream_failed: " + r.address(of) + " failed"
		case res.state == sdk.Skipped:
			return "upstream_skipped: " + r.address(of) + " was skipped"
		}
	}
	return "upstream"
}

// reused reports that a record stands for a step or instance. late: found while
// running.
func (r *run) reused(u unit, h *checkpoint.Head, late bool) {
	i := u.step
	state := h.Outcome.State()
	e := Event{Type: EventReused, Step: r.address(u), State: &state, Checkpoint: h.ID, Seq: h.Seq, Reason: "unchanged"}
	p := r.s.plan.Step(i)
	switch {
	case h.Outcome != checkpoint.Succeeded:
		r.counts.Skipped++
		e.Type, e.State, e.Reason = EventSkipped, nil, r.s.why(r.ctx, i, nil, nil)
		if h.Outcome == checkpoint.SkippedFailure {
			e.Error = r.s.failure(r.ctx, h)
			r.skips = append(r.skips, Failure{Step: e.Step, Attempts: h.Attempts, Error: e.Error})
		}
		r.add(e)
		return
	case u.among != nil && h.Step == r.s.f.steps[i].address:
		if h.Instance != u.name() {
			e.Reason = "moved from " + hcl.InstanceAddress(h.Step, h.Instance)
		}
	case h.Step != "" && h.Step != r.s.f.steps[i].address:
		e.Reason = "same computation as " + h.Step
		if p.Reason.Why == recovery.WhyRenamed {
			e.Reason = "renamed from " + h.Step
		}
	case late:
		e.Reason = "its upstreams gave the same answers"
	}
	e.Taken = late || p.Action == recovery.Take
	e.Saved, e.SavedTokens, e.SavedCost = h.Took, h.Tokens, h.Cost
	r.counts.Reused++
	r.answered(u, &result{degraded: h.Degraded})
	r.saved += h.Took
	r.tokens += h.Tokens
	r.spared = r.spared.Plus(h.Cost)
	r.add(e)
}

// reportPlan tells how the run starts.
func (r *run) reportPlan() {
	rec := r.s.record
	r.counts.ToRun, r.counts.ToDecide = r.s.toRun()
	start := r.counts
	r.add(Event{Type: EventRunStarted, Workflow: rec.Workflow, Follows: rec.Follows, Continued: rec.Continued, Counts: &start, Reason: r.replayReason()})
	for i := range r.s.plan.Len() {
		if hd := r.s.plan.Step(int32(i)).Head; hd != nil {
			r.reused(whole(int32(i)), hd, false)
		}
	}
}

func (r *run) replayReason() string {
	if r.s.replay == nil {
		return ""
	}
	return "replayed: nothing is asked and nothing is kept"
}

// note hands an event to the loop; it waits when the loop is behind, so that no
// log line is lost while the run goes on.
func (r *run) note(e Event) {
	e.Time = time.Now().UTC()
	select {
	case r.notes <- e:
	case <-r.ctx.Done():
	}
}

// offer hands an event to the loop unless it is behind.
func (r *run) offer(e Event) {
	e.Time = time.Now().UTC()
	select {
	case r.notes <- e:
	default:
	}
}

func (r *run) add(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	e.Run = r.s.record.ID
	r.s.secrets.maskEvent(&e)
	r.events = append(r.events, e)
}

func (r *run) flush() {
	if len(r.events) > 0 {
		r.h.o.Observer.Observe(r.events)
		clear(r.events)
		r.events = r.events[:0]
	}
}

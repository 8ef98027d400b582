package host

import (
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// noted is told that a step has a state now.
func (r *run) noted(c command) {
	w, i := r.working[c.step], c.step
	e := Event{Step: r.address(i), Attempt: int(c.attempt), Error: c.err}
	if w != nil {
		e.Took = w.took
	}
	if !c.final { // a retry is waiting
		e.Type, e.Delay = EventAttemptFailed, c.after
		delete(r.working, i)
		r.add(e)
		return
	}
	if w == nil || w.started.IsZero() {
		e.Attempt = 0 // it ended before an attempt of this continuation began
	}
	res := &r.results[i]
	switch c.state {
	case sdk.Succeeded:
		if w.reused != nil {
			r.reused(i, w.reused, true)
			break
		}
		r.counts.Ran++
		e.Type, e.Checkpoint, e.Seq, e.Usage = EventSucceeded, res.id, res.seq, w.usage
		r.add(e)
	case sdk.Skipped:
		r.counts.Skipped++
		e.Type, e.Attempt, e.Reason = EventSkipped, 0, r.skipReason(i, w)
		res.state = sdk.Skipped
		r.add(e)
	case sdk.Failed:
		r.counts.Failed++
		e.Type = EventFailed
		*res = result{state: sdk.Failed, err: c.err, attempts: c.attempt}
		r.failures = append(r.failures, Failure{Step: e.Step, Attempts: e.Attempt, Error: c.err})
		r.add(e)
	case sdk.Cancelled:
		r.counts.Cancelled++
		e.Type = EventCancelled
		*res = result{state: sdk.Cancelled, err: c.err, attempts: c.attempt}
		r.add(e)
	}
	delete(r.working, i)
	for _, u := range r.s.f.graph.Upstream(i) {
		if r.consumers[u]--; r.consumers[u] == 0 {
			r.outputs.drop(u)
		}
	}
}

func (r *run) skipReason(i int32, w *work) string {
	if w != nil && w.end == endSkipped {
		return "condition: when is false"
	}
	for _, ref := range r.s.f.graph.Refs(i) {
		if ref.Kind != recovery.Hard {
			continue
		}
		switch r.results[ref.Step].state {
		case sdk.Skipped:
			return "upstream_skipped: " + r.address(ref.Step) + " was skipped"
		case sdk.Failed:
			return "upstream_failed: " + r.address(ref.Step) + " failed"
		}
	}
	return "upstream"
}

// reused reports that a record stands for step i. late: found while running.
func (r *run) reused(i int32, h *checkpoint.Head, late bool) {
	state := h.Outcome.State()
	e := Event{Type: EventReused, Step: r.address(i), State: &state, Checkpoint: h.ID, Seq: h.Seq, Reason: "unchanged"}
	p := &r.s.plan.Steps[i]
	switch {
	case h.Outcome != checkpoint.Succeeded:
		r.counts.Skipped++
		e.Type, e.State, e.Reason = EventSkipped, nil, r.s.why(r.ctx, i, nil)
		r.add(e)
		return
	case h.Step != "" && h.Step != e.Step:
		e.Reason = "same computation as " + h.Step
		if p.Reason.Why == recovery.WhyRenamed {
			e.Reason = "renamed from " + h.Step
		}
	case late:
		e.Reason = "its upstreams gave the same answers"
	}
	e.Taken = late || p.Action == recovery.Take
	e.Saved, e.SavedTokens = h.Took, h.Tokens
	r.counts.Reused++
	r.saved += h.Took
	r.tokens += h.Tokens
	r.add(e)
}

// reportPlan tells how the run starts.
func (r *run) reportPlan() {
	rec := r.s.record
	r.counts.ToRun, r.counts.ToDecide = r.s.toRun()
	start := r.counts
	r.add(Event{Type: EventRunStarted, Workflow: rec.Workflow, Follows: rec.Follows, Continued: rec.Continued, Counts: &start})
	for i := range r.s.plan.Steps {
		if hd := r.s.plan.Steps[i].Head; hd != nil {
			r.reused(int32(i), hd, false)
		}
	}
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
	r.events = append(r.events, e)
}

func (r *run) flush() {
	if len(r.events) > 0 {
		r.h.o.Observer.Observe(r.events)
		clear(r.events)
		r.events = r.events[:0]
	}
}

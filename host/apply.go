package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// Result is what Apply ended with.
type Result struct {
	Run       checkpoint.RunRecord // the run that was opened or continued; if none was, the newest, which had succeeded
	Opened    bool                 // false: nothing to run, and no run was opened
	Continued bool
	Outputs   []Output
	Counts    Counts
	Failures  []Failure
	Saved     time.Duration // computation that reuse spared
	Tokens    int64         // tokens that reuse spared
}

// Output is one output of the workflow.
type Output struct {
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value,omitempty"`       // nil when it is not available
	Unavailable string          `json:"unavailable,omitempty"` // why not; "" when it is
}

// Failure is a step that failed.
type Failure struct {
	Step     string
	Attempts int
	Error    *sdk.Error
}

// Apply runs what must run. The error is a *UsageError, hcl.Diagnostics of the
// values, a store error (IsStoreError), or ctx's; a run that failed or was
// cancelled is a Result with that status. When ctx ends, running attempts are
// cancelled, everything that has finished is kept, and Apply returns when all
// of it is durable.
func (h *Host) Apply(ctx context.Context, f *Flow, values *hcl.Values, o RunOptions) (*Result, error) {
	return h.apply(ctx, f, f.inputs(values), o)
}

func (h *Host) apply(ctx context.Context, f *Flow, in inputs, o RunOptions) (*Result, error) {
	s, err := h.prepare(ctx, f, in, o)
	if err != nil {
		return nil, err
	}
	if err := s.resume(ctx); err != nil {
		return nil, err
	}
	run, decide := s.toRun()
	if run+decide == 0 && s.previous != nil && !s.continued && !o.New {
		if len(o.Targets) > 0 || s.used(s.planned) == s.previous.Used {
			return h.nothingToRun(s)
		}
	}
	s.record.Since = time.Now().UTC()
	r := h.newRun(s)
	// The run is durable before anybody is told of it: what `runs` lists after a
	// crash can be continued.
	opening := context.WithoutCancel(ctx) // a cancel is the run's to see
	_, err = h.o.Store.Commit(opening, r.batchOf(func(b *checkpoint.Batch) { b.PutRun(s.record) }))
	if err == nil {
		err = h.o.Store.Barrier(opening)
	}
	if err != nil {
		r.close()
		return nil, &storeError{err}
	}
	if err := r.drive(ctx); err != nil {
		return nil, err
	}
	return r.finish()
}

// nothingToRun answers from the records of the newest run.
func (h *Host) nothingToRun(s *session) (*Result, error) {
	s.record = s.previous
	r := h.newRun(s)
	defer r.close()
	for i := range s.plan.Steps {
		if hd := s.plan.Steps[i].Head; hd != nil {
			r.reused(int32(i), hd, false)
		}
	}
	outs, err := r.evaluateOutputs()
	if err != nil {
		return nil, err
	}
	r.events = nil // each reuse was told when the run was recorded
	r.add(Event{Type: EventNothingToRun, Workflow: s.record.Workflow, Counts: &r.counts, Saved: r.saved, SavedTokens: r.tokens})
	r.add(Event{Type: EventOutputs, Outputs: outs})
	r.flush()
	return &Result{Run: *s.previous, Outputs: outs, Counts: r.counts, Saved: r.saved, Tokens: r.tokens}, nil
}

// resume looks at what the run left behind: how many attempts each step has
// had, and which steps with effects may have happened already.
func (s *session) resume(ctx context.Context) error {
	s.policies = make([]stepPolicy, len(s.f.steps))
	for i := range s.f.steps {
		st := &s.f.steps[i]
		s.policies[i] = stepPolicy{Effects: st.effects, Retry: retries(st.Retry), HasWhen: st.HasWhen}
	}
	for _, i := range s.options.Rerun {
		if s.record.Reruns == nil {
			s.record.Reruns = map[string]int{}
		}
		s.record.Reruns[s.f.steps[i].address]++
	}
	s.blocked = map[int32]*sdk.Error{}
	for i := range s.f.steps {
		if s.h.o.Behind && s.previous != nil && s.f.steps[i].effects.Changes() && s.plan.Steps[i].Verdict != recovery.Current {
			s.blocked[int32(i)] = outcomeUnknown(s.f.steps[i].address, "the store has lost its newest records")
		}
	}
	if s.continued {
		if err := s.resumeAttempts(ctx); err != nil {
			return err
		}
	}
	for _, i := range s.options.Rerun {
		delete(s.blocked, i)
	}
	return nil
}

// resumeAttempts reads what a run that is continued has tried so far.
func (s *session) resumeAttempts(ctx context.Context) error {
	attempts, err := s.h.o.Store.Attempts(ctx, s.h.o.Tenant, s.record.ID)
	if err != nil {
		return &storeError{err}
	}
	intents, err := s.h.o.Store.Intents(ctx, s.h.o.Tenant, s.record.ID)
	if err != nil {
		return &storeError{err}
	}
	byAddress := make(map[string]int32, len(s.f.steps))
	for i := range s.f.steps {
		byAddress[s.f.steps[i].address] = int32(i)
	}
	last := s.record.Since // the last sign of life of a run that was interrupted
	for _, hd := range s.heads {
		if hd != nil && hd.Run == s.record.ID && hd.Created.After(last) {
			last = hd.Created
		}
	}
	known := map[string]bool{} // attempts that say they did not happen
	for _, a := range attempts {
		if end := a.Started.Add(a.Took); end.After(last) {
			last = end
		}
		if i, ok := byAddress[a.Step]; ok {
			s.policies[i].Attempt = max(s.policies[i].Attempt, int32(a.Attempt))
			if a.Error != nil && a.Error.Class != sdk.ClassTimeout && a.Error.Class != sdk.ClassPluginCrash && a.Error.Class != sdk.ClassCancelled {
				known[fmt.Sprint(a.Step, " ", a.Attempt)] = true
			}
		}
	}
	if s.previous.Status == checkpoint.RunRunning {
		s.record.Live += last.Sub(s.record.Since)
	}
	for _, in := range intents {
		i, ok := byAddress[in.Step]
		if !ok {
			continue
		}
		s.policies[i].Attempt = max(s.policies[i].Attempt, int32(in.Attempt))
		if in.Effects == sdk.EffectsOnce && s.plan.Steps[i].Verdict != recovery.Current {
			delete(s.blocked, i)
			if !known[fmt.Sprint(in.Step, " ", in.Attempt)] {
				s.blocked[i] = outcomeUnknown(in.Step, "")
			}
		}
	}
	return nil
}

// CodeOutcomeUnknown is the code of the error of a step that must happen once
// and may or may not have happened.
const CodeOutcomeUnknown = "outcome_unknown"

func outcomeUnknown(address, cause string) *sdk.Error {
	m := "outcome unknown: did it happen? An attempt was started and its end was not seen"
	if cause != "" {
		m += " (" + cause + ")"
	}
	return &sdk.Error{Class: sdk.ClassInternal, Code: CodeOutcomeUnknown, Message: m + "; if it did not happen: engine apply --rerun " + address}
}

func retries(rs []hcl.Retry) []RetryPolicy {
	ps := make([]RetryPolicy, len(rs))
	for k, p := range rs {
		ps[k] = RetryPolicy(p)
	}
	return ps
}

// finish records how the run ended, waits until everything is durable and
// evaluates the outputs.
func (r *run) finish() (*Result, error) {
	s, rec := r.s, r.s.record
	now := time.Now()
	rec.Status, rec.Error = r.finished.status, r.finished.err
	rec.Ended, rec.Live = now.UTC(), rec.Live+now.Sub(r.began)
	rec.Counts = map[string]int{"ran": r.counts.Ran, "reused": r.counts.Reused, "skipped": r.counts.Skipped, "failed": r.counts.Failed, "cancelled": r.counts.Cancelled, "total": r.counts.Total}
	if rec.Status == checkpoint.RunSucceeded {
		rec.Used = s.used(func(i int32) standing { return standing{r.results[i].state, r.results[i].key, r.results[i].output} })
	}
	// The run's own context has ended; what remains is short and must be done.
	ctx := context.Background()
	r.outputs.ctx = ctx
	last := r.batchOf(func(b *checkpoint.Batch) {
		if rec.Status == checkpoint.RunSucceeded {
			r.addHusks(b, r.s.f.graph.Order()...) // below some nothing was stored
		}
		b.PutRun(rec)
	})
	if _, err := r.h.o.Store.Commit(ctx, last); err != nil {
		return nil, &storeError{err}
	}
	if err := r.h.o.Store.Barrier(ctx); err != nil {
		return nil, &storeError{err}
	}
	for _, q := range r.m.queued { // durable now, though no sync was announced for them
		r.carry(command{kind: cmdNotePersisted, step: q.step})
	}
	outs, err := r.evaluateOutputs()
	if err != nil {
		return nil, err
	}
	counts := r.counts
	r.add(Event{Type: EventRunEnded, Workflow: rec.Workflow, Status: rec.Status, Error: rec.Error, Counts: &counts, Took: now.Sub(r.began), Saved: r.saved, SavedTokens: r.tokens})
	r.add(Event{Type: EventOutputs, Outputs: outs})
	r.flush()
	return &Result{Run: *rec, Opened: true, Continued: s.continued, Outputs: outs, Counts: r.counts, Failures: r.failures, Saved: r.saved, Tokens: r.tokens}, nil
}

// evaluateOutputs gives the outputs whose hard references all succeeded; the
// others say why they are unavailable.
func (r *run) evaluateOutputs() ([]Output, error) {
	f := r.s.f
	outs := make([]Output, len(f.wf.Outputs))
	for k := range f.wf.Outputs {
		o := &f.wf.Outputs[k]
		outs[k].Name = o.Name
		up := &upstream{r: r}
		for _, ref := range o.Facets {
			up.name(int32(ref.Step), ref.Facet)
			if st := r.results[ref.Step].state; ref.Kind == hcl.Hard && st != sdk.Succeeded && outs[k].Unavailable == "" {
				outs[k].Unavailable = f.steps[ref.Step].address + " " + stateWord(st)
			}
		}
		if outs[k].Unavailable != "" {
			continue
		}
		v, diags := r.s.eval.Output(k, up.result)
		switch {
		case up.err != nil:
			return nil, up.err
		case diags.HasErrors():
			outs[k].Unavailable = diags.Error()
		default:
			outs[k].Value = v
		}
	}
	return outs, nil
}

func stateWord(s sdk.State) string {
	if s == sdk.Pending {
		return "did not run"
	}
	return "was " + s.String()
}

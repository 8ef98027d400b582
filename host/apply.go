package host

import (
	"context"
	"encoding/json"
	"slices"
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
	Skipped   []Failure       // steps and instances that failed, which counts as skipped for them
	Degraded  []string        // steps and instances whose answer is a fallback's
	Saved     time.Duration   // computation that reuse spared
	Tokens    int64           // tokens that reuse spared
	SavedCost checkpoint.Cost // what those had cost
	Usage     []sdk.Usage     // what was spent now, by model
	Cost      checkpoint.Cost // of Usage
	Replayed  bool            // it was answered by a recording
	PricesOf  string          // the date of the prices; "" if none were given
	Unpriced  []string        // models of Usage that have no price
}

// Output is one output of the workflow.
type Output struct {
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value,omitempty"`       // nil when it is not available
	Unavailable string          `json:"unavailable,omitempty"` // why not; "" when it is
	Sensitive   bool            `json:"sensitive,omitempty"`   // Value is "(sensitive)"
}

// Failure is a step that failed.
type Failure struct {
	Step     string
	Attempts int // 0: it failed before an attempt began, its input could not be made
	Error    *sdk.Error
	Place    hcl.Range // where the part of the input is written that the step refused; zero unless it named one
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
	run, decide := s.toRun()
	if run+decide == 0 && s.previous != nil && !s.continued && !o.New {
		if len(o.Targets) > 0 || s.used(s.planned) == s.previous.Used {
			if res, err := h.nothingToRun(s, in, len(o.Targets) > 0); res != nil || err != nil {
				return res, err
			}
		}
	}
	if u := s.unfinished; u != nil && o.Replay == nil && slices.ContainsFunc(f.steps, func(st flowStep) bool { return st.effects.Changes() }) {
		h.o.Logger.Warn("a run with other values of the variables has not succeeded; this is another one, and does again what that one has done to the world: to go on with that one, give the values that it had", "run", u.ID)
	}
	s.record.Since = time.Now().UTC()
	r := h.newRun(s)
	if s.undoing() {
		return r.undoOnly(ctx)
	}
	if err := r.openPurses(ctx); err != nil {
		r.close()
		return nil, err
	}
	// The run is durable before anybody is told of it: what `runs` lists after a
	// crash can be continued.
	opening := context.WithoutCancel(ctx) // a cancel is the run's to see
	_, err = h.o.Store.Commit(opening, r.batchOf(s.open))
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

// nothingToRun answers from the records of the newest run, or gives nil if the
// outputs are no longer what that run ended with: then a run that follows
// records the new ones. partial: only targets were asked for, so outputs may be
// missing.
func (h *Host) nothingToRun(s *session, in inputs, partial bool) (*Result, error) {
	own, eval := s.record, s.eval
	s.record, s.eval = s.previous, in.evaluator(h.runInfo(s.previous, s.secrets))
	r := h.newRun(s)
	defer r.close()
	for i := range s.plan.Len() {
		if hd := s.plan.Step(int32(i)).Head; hd != nil {
			r.reused(whole(int32(i)), hd, false)
		}
	}
	outs, err := r.evaluateOutputs()
	if err != nil {
		return nil, err
	}
	if !partial && h.outputsDigest(outs) != s.previous.Outputs {
		s.record, s.eval = own, eval
		return nil, nil
	}
	if err := r.tellEnded(); err != nil {
		return nil, err
	}
	hideSensitive(outs)
	r.events = nil // each reuse was told when the run was recorded
	r.add(Event{Type: EventNothingToRun, Workflow: s.record.Workflow, Counts: &r.counts, Saved: r.saved, SavedTokens: r.tokens, SavedCost: r.spared})
	r.add(Event{Type: EventOutputs, Outputs: outs})
	r.flush()
	return &Result{Run: *s.previous, Outputs: outs, Counts: r.counts, Skipped: r.skips, Degraded: r.degraded, Saved: r.saved, Tokens: r.tokens, SavedCost: r.spared}, nil
}

// Outputs evaluates the outputs over what is stored, with these values, sensitive
// ones too. It runs nothing: what follows from steps that are not current is
// unavailable. Errors are those of Plan.
func (h *Host) Outputs(ctx context.Context, f *Flow, values *hcl.Values) ([]Output, error) {
	in := f.inputs(values)
	s, err := h.prepare(ctx, f, in, RunOptions{})
	if err != nil {
		return nil, err
	}
	if s.previous != nil { // run.id and timestamp() are those of the run that made them
		s.eval = in.evaluator(h.runInfo(s.previous, s.secrets))
	}
	r := h.newRun(s)
	defer r.close()
	r.outputs.ctx = ctx
	return r.evaluateOutputs()
}

func (h *Host) outputsDigest(outs []Output) sdk.Digest {
	d := checkpoint.NewHasher("engine/outputs/1")
	for _, o := range outs {
		d.String(o.Name)
		if o.Sensitive && len(h.o.Key) > 0 {
			d.Digest(h.keyed(sdk.Sum(o.Value)))
		} else {
			d.Bytes(o.Value)
		}
		d.String(o.Unavailable)
	}
	return sdk.Digest(d.Sum())
}

// hideSensitive takes the values of sensitive outputs away, once they have been
// digested.
func hideSensitive(outs []Output) {
	for k := range outs {
		if outs[k].Sensitive && outs[k].Value != nil {
			outs[k].Value = json.RawMessage(hiddenValue)
		}
	}
}

func retries(rs []hcl.Retry) []RetryPolicy {
	ps := make([]RetryPolicy, len(rs))
	for k, p := range rs {
		ps[k] = RetryPolicy{p.On, p.MaxAttempts, p.Delay, p.Exponential, p.MaxDelay, p.Jitter, p.MaxDuration, 1 + p.Before}
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
	outs, err := r.evaluateOutputs()
	if err != nil {
		return nil, err
	}
	if err := r.tellEnded(); err != nil {
		return nil, err
	}
	rec.Outputs = r.h.outputsDigest(outs)
	hideSensitive(outs)
	keep := func(rs []result) {
		for i := range rs {
			if hd := rs[i].head; hd != nil && hd.Run != rec.ID && hd.Seq > 0 {
				rec.Reused = append(rec.Reused, hd.Seq)
			}
		}
	}
	keep(r.results)
	for _, f := range r.fanouts {
		if f != nil {
			f.every(func(f *fanout) { keep(f.results) })
		}
	}
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
		r.carry(command{kind: cmdNotePersisted, node: q.node})
	}
	counts, cost, pricesOf := r.counts, r.h.o.Prices.Cost(r.spent), ""
	if len(r.spent) > 0 {
		pricesOf = r.h.o.Prices.date()
	}
	r.add(Event{Type: EventRunEnded, Workflow: rec.Workflow, Status: rec.Status, Error: rec.Error, Counts: &counts, Took: now.Sub(r.began), Usage: r.spent, Cost: cost, PricesOf: pricesOf, Saved: r.saved, SavedTokens: r.tokens, SavedCost: r.spared})
	r.add(Event{Type: EventOutputs, Outputs: outs})
	r.flush()
	return &Result{Replayed: s.replay != nil, Usage: r.spent, Cost: cost, PricesOf: r.h.o.Prices.date(), Unpriced: r.h.o.Prices.unpriced(r.spent), SavedCost: r.spared, Run: *rec, Opened: true, Continued: s.continued, Outputs: outs, Counts: r.counts, Failures: r.failures, Skipped: r.skips, Degraded: r.degraded, Saved: r.saved, Tokens: r.tokens}, nil
}

// tellEnded lets who asked look at how the steps ended.
func (r *run) tellEnded() error {
	if r.s.ended == nil {
		return nil
	}
	up := &upstream{r: r, of: whole(-1)}
	for i := range r.results {
		up.name(&recovery.Ref{Step: int32(i), Facet: sdk.FacetOutput})
		up.name(&recovery.Ref{Step: int32(i), Facet: sdk.FacetStatus})
	}
	r.s.ended(up.result)
	return up.err
}

// evaluateOutputs gives the outputs whose hard references all succeeded; the
// others say why they are unavailable.
func (r *run) evaluateOutputs() ([]Output, error) {
	f := r.s.f
	outs := make([]Output, len(f.wf.Outputs))
	for k := range f.wf.Outputs {
		o := &f.wf.Outputs[k]
		outs[k].Name, outs[k].Sensitive = o.Name, o.Sensitive
		up := &upstream{r: r, of: whole(-1)}
		for _, ref := range o.Facets {
			up.name(&recovery.Ref{Step: int32(ref.Step), Facet: ref.Facet})
			if r.results[ref.Step].undone && outs[k].Unavailable == "" {
				outs[k].Unavailable = f.steps[ref.Step].address + " was undone"
			}
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
	switch s {
	case sdk.Pending:
		return "did not run"
	case sdk.Failed:
		return "failed"
	}
	return "was " + s.String()
}

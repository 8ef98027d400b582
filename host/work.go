package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// work is one step on its way from the loop to a worker and back. The worker
// owns it in between; it holds nothing of the run's state.
type work struct {
	step    int32
	attempt int32
	only    bool // evaluate `when` only
	hold    bool // prepare the attempt, do not run it
	ready   bool // prepared: run the attempt now
	ctx     context.Context
	cancel  context.CancelCauseFunc

	// What deciding found.
	lineage []sdk.Digest
	key     checkpoint.Fingerprint
	content checkpoint.Fingerprint
	input   json.RawMessage
	config  json.RawMessage
	inputs  sdk.Digest
	reason  string
	effect  checkpoint.Fingerprint
	idem    string // idempotency key

	// The answer.
	kind      signalKind // sigPrepared or sigEnded
	end       ending
	err       *sdk.Error
	fatal     error            // the store failed
	reused    *checkpoint.Head // the record taken instead of running
	hit       bool             // reused was found by content and is committed like a result
	record    *checkpoint.Record
	sanitized checkpoint.Sanitized
	started   time.Time
	took      time.Duration
	usage     []sdk.Usage
	warnings  []sdk.Warning
}

func (w *work) failed(err *sdk.Error) { w.kind, w.end, w.err = sigEnded, endFailed, err }

// do is a worker's turn: decide what becomes of the step and, unless it is to
// be held, run the attempt.
func (r *run) do(w *work) {
	w.kind = sigEnded
	if !w.ready && !r.decide(w) {
		return
	}
	if w.hold && !w.ready {
		w.kind = sigPrepared
		return
	}
	r.attemptStep(w)
}

// decide evaluates `when`, looks the step up and evaluates its input; false
// says that nothing is left to run.
func (r *run) decide(w *work) (goOn bool) {
	s, st := r.s, &r.s.f.steps[w.step]
	up := r.upstream(w.step)
	refs := s.f.graph.Refs(w.step)
	if st.HasWhen && !r.conditionMet[w.step] {
		yes, diags := s.eval.When(int(w.step), hcl.Scope{Up: up.result})
		if up.err != nil {
			w.fatal = up.err
			return false
		}
		if diags.HasErrors() {
			w.failed(inputError(diags))
			return false
		}
		if !yes {
			w.lineage = r.lineage(refs[:st.WhenFacets])
			w.end, w.key = endSkipped, s.plan.WhenKey(w.step, w.lineage)
			w.record = r.newRecord(w)
			w.record.Outcome, w.record.Local = checkpoint.SkippedCondition, s.defs[w.step].When
			return false
		}
		if w.only {
			w.end = endCondition
			return false
		}
	}
	w.lineage = r.lineage(refs)
	res := s.plan.Resolve(w.step, w.lineage)
	w.key = res.Key
	if res.Head != nil {
		w.end, w.reused = endResult, res.Head
		return false
	}
	if w.attempt == s.policies[w.step].Attempt+1 {
		w.reason = s.why(w.ctx, w.step, w.lineage)
	}
	if !r.input(w, st, up) {
		return false
	}
	if !res.Run {
		if h := s.plan.ResolveContent(w.step, w.content); h != nil {
			w.end, w.reused, w.hit = endResult, h, true
			w.record = r.newRecord(w)
			if h.Step != st.address {
				w.record.Context.ReusedFrom = h.Step
			}
			return false
		}
	}
	// Only what would start is blocked: a `when` that is false now settles it.
	if err := r.blocked[w.step]; err != nil {
		w.failed(err)
		return false
	}
	return true
}

// input evaluates what the attempt receives and makes the content key.
func (r *run) input(w *work, st *flowStep, up *upstream) bool {
	s := r.s
	input, diags := s.eval.Input(int(w.step), hcl.Scope{Up: up.result})
	if up.err != nil {
		w.fatal = up.err
		return false
	}
	if diags.HasErrors() {
		w.failed(inputError(diags))
		return false
	}
	digest, err := checkpoint.ValueDigest(input)
	if err != nil {
		w.failed(&sdk.Error{Class: sdk.ClassInvalidInput, Message: "input cannot be carried as JSON: " + err.Error()})
		return false
	}
	if err := st.schemas.input.check(input, sdk.ClassInvalidInput, "the input"); err != nil {
		w.failed(err)
		return false
	}
	w.input, w.inputs, w.config = input, digest, s.configs[st.Plugin]
	var order []sdk.Digest
	for k, ref := range s.f.graph.Refs(w.step) {
		if ref.Order {
			order = append(order, w.lineage[k])
		}
	}
	w.content = checkpoint.ContentKey(s.bases[w.step], digest, order, 0)
	if err := s.effect(w, st); err != nil {
		w.failed(err)
		return false
	}
	return true
}

// attemptStep runs the prepared attempt and makes its record.
func (r *run) attemptStep(w *work) {
	s, st := r.s, &r.s.f.steps[w.step]
	step, err := r.load(w.ctx, st)
	if err != nil {
		w.failed(r.text(sdk.AsError(err)))
		return
	}
	limit := &sdk.Error{Class: sdk.ClassTimeout, Code: "attempt",
		Message: fmt.Sprintf("%s did not end within its timeout of %s; raise timeout if it needs longer", st.address, st.timeout)}
	ctx, cancel := context.WithTimeoutCause(w.ctx, st.timeout, limit)
	defer cancel()
	ops := operation.New(operation.Options{
		Sink:    &sink{r: r, step: st.address, attempt: int(w.attempt)},
		Network: r.h.o.Network, Grants: s.f.grants(w.step),
	})
	defer ops.Close()
	w.started = time.Now()
	r.note(Event{Type: EventStarted, Step: st.address, Attempt: int(w.attempt), Reason: w.reason})
	resp, err := step.Run(ctx, &sdk.Request{
		V: sdk.Version, StepType: st.StepType, Workflow: s.f.wf.Name, Run: string(s.record.ID), Step: st.address,
		Attempt: int(w.attempt), IdempotencyKey: w.idem, DeadlineMS: max(time.Until(w.started.Add(st.timeout)).Milliseconds(), 1),
		Engine: r.h.o.Version, Input: w.input, Config: w.config,
	}, ops)
	w.took = time.Since(w.started)
	w.usage = ops.Usage()
	if err != nil {
		w.failed(r.text(sdk.AsError(err)))
		return
	}
	w.usage = append(w.usage, resp.Usage...)
	w.warnings = resp.Warnings
	if resp.Error != nil {
		w.failed(r.text(resp.Error))
		return
	}
	if err := s.eval.CheckOutput(int(w.step), resp.Output); err != nil {
		w.failed(r.text(&sdk.Error{Class: sdk.ClassValidation, Code: "output_type", Message: err.Error()}))
		return
	}
	if err := st.schemas.output.check(resp.Output, sdk.ClassValidation, "the output"); err != nil {
		w.failed(r.text(err))
		return
	}
	w.sanitized, err = st.sanitizer.Sanitize(resp.Output, resp.Context)
	if err != nil {
		w.failed(r.text(sdk.AsError(err)))
		return
	}
	w.end = endResult
	w.record = r.newRecord(w)
}

// newRecord is the record of w without what follows from the output.
func (r *run) newRecord(w *work) *checkpoint.Record {
	s, st := r.s, &r.s.f.steps[w.step]
	now := time.Now().UTC()
	rec := &checkpoint.Record{Head: checkpoint.Head{
		Step: st.address, Run: s.record.ID, Chain: s.record.Chain, Local: s.defs[w.step].Local, Plan: w.key, Content: w.content,
		Lineage: w.lineage, Attempts: int(w.attempt), Created: now, Took: w.took, Tokens: tokens(w.usage),
	}}
	if st.TTL > 0 {
		rec.Expires = now.Add(st.TTL)
	}
	a := s.f.artifacts[st.Plugin]
	rec.Context = checkpoint.Context{
		Plugin: s.f.wf.Plugins[st.Plugin].Name, Version: version(s.f, st.Plugin), Artifact: a.Digest, StepType: st.StepType,
		Engine: r.h.o.Version, Input: w.inputs, Identity: s.parts[w.step], Upstream: s.upstream(w.step, w.lineage),
		Producer: checkpoint.Producer{Run: s.record.ID, Step: st.address, Attempt: int(w.attempt), Started: w.started.UTC()},
		Timeout:  st.timeout, Usage: w.usage,
	}
	return rec
}

func tokens(us []sdk.Usage) (n int64) {
	for _, u := range us {
		n += u.InputTokens + u.OutputTokens
	}
	return n
}

// text is e in the form in which it may be stored and shown.
func (r *run) text(e *sdk.Error) *sdk.Error {
	c := *e
	c.Message, c.Stderr = r.sanitizer.Text(e.Message), r.sanitizer.Text(e.Stderr)
	return &c
}

// inputError is what a mistake found while evaluating becomes: the input of
// the step is wrong, and trying again cannot help.
func inputError(diags hcl.Diagnostics) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "evaluation", Message: diags.Error()}
}

// load makes the step's plugin ready, once per run. A failure is not
// remembered: the next attempt tries again.
func (r *run) load(ctx context.Context, st *flowStep) (sdk.Step, error) {
	slot := &r.plugins[st.Plugin]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.plugin == nil {
		slow := time.AfterFunc(time.Second, func() {
			r.note(Event{Type: EventLog, Step: st.address, Level: "info", Message: "making plugin " + r.s.f.wf.Plugins[st.Plugin].Name + " ready; what is compiled is kept for the next time"})
		})
		p, err := r.s.f.loaders[st.Plugin].Load(ctx, r.s.f.artifacts[st.Plugin])
		slow.Stop()
		if err != nil {
			return nil, err
		}
		slot.plugin, slot.steps = p, map[string]sdk.Step{}
	}
	if s := slot.steps[st.StepType]; s != nil {
		return s, nil
	}
	limits := loader.Limits{}
	if m := r.s.f.artifacts[st.Plugin].Manifest; m != nil {
		limits.Memory = int64(m.MemoryMB) << 20
	}
	s, err := slot.plugin.Step(st.StepType, limits)
	if err != nil {
		return nil, err
	}
	slot.steps[st.StepType] = s
	return s, nil
}

// lineage digests the facets that refs name; their steps have ended.
func (r *run) lineage(refs []recovery.Ref) []sdk.Digest {
	ds := make([]sdk.Digest, len(refs))
	for k, ref := range refs {
		ds[k] = r.results[ref.Step].facet(ref.Facet)
	}
	return ds
}

// upstream answers the evaluator's questions about the steps above one step.
type upstream struct {
	r       *run
	outputs map[int32]bool // steps whose output is named, not only another facet
	err     error          // the store failed
}

func (r *run) upstream(step int32) *upstream {
	u := &upstream{r: r}
	for _, ref := range r.s.f.graph.Refs(step) {
		u.name(ref.Step, ref.Facet)
	}
	return u
}

func (u *upstream) name(step int32, f sdk.Facet) {
	if f == sdk.FacetOutput {
		if u.outputs == nil {
			u.outputs = map[int32]bool{}
		}
		u.outputs[step] = true
	}
}

// result is an hcl.Upstream.
func (u *upstream) result(step int) hcl.Result {
	res := &u.r.results[step]
	out := hcl.Result{State: res.state, Error: res.err, Attempts: int(res.attempts), Degraded: res.degraded}
	if res.state == sdk.Succeeded && u.outputs[int32(step)] {
		data, err := u.r.outputs.get(int32(step), res.data)
		if err != nil {
			u.err = &storeError{fmt.Errorf("output of %s: %w", u.r.s.f.steps[step].address, err)}
		}
		out.Output = data
	}
	return out
}

// sink turns what a step reports into events.
type sink struct {
	r       *run
	step    string
	attempt int
}

var _ operation.Sink = (*sink)(nil)

func (k *sink) Log(level, message string, fields map[string]any) {
	k.r.note(Event{Type: EventLog, Step: k.step, Attempt: k.attempt, Level: level, Message: k.r.sanitizer.Text(message), Fields: fields})
}

func (k *sink) Progress(fraction float64, message string) {
	k.r.offer(Event{Type: EventProgress, Step: k.step, Attempt: k.attempt, Fraction: fraction, Message: k.r.sanitizer.Text(message)})
}

func (k *sink) Emit(chunk string) {
	k.r.offer(Event{Type: EventEmit, Step: k.step, Attempt: k.attempt, Message: k.r.sanitizer.Text(chunk)})
}

func (k *sink) Usage(sdk.Usage) {} // read from the operations when the attempt has ended

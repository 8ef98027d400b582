package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// attemptStep runs the prepared attempt, or the fallback that stands for it,
// judges the answer and makes the record.
func (r *run) attemptStep(w *work) {
	st := r.step(w)
	ctx, stop := w.within(st.timeout, func() error { return timedOut(r.address(w.unit), st.timeout) })
	defer stop()
	var out, reported json.RawMessage
	var err *sdk.Error
	switch {
	case r.s.replays(w.step):
		if out, err = r.replayed(w); w.replayed != nil {
			reported = w.replayed.Context.Reported
		}
	case w.fallback > 0:
		out, err = r.fallBack(ctx, w)
	default:
		c := call{use: st.use(), input: w.input, config: w.config, grant: st.grant, main: true}
		if out, err = r.call(ctx, w, &c); err == nil {
			reported = c.context
		}
	}
	if !w.started.IsZero() {
		w.took = time.Since(w.started)
	}
	if err == nil {
		err = withOutput(r.judge(ctx, w, out), out)
	}
	if err != nil {
		w.failed(r.text(err))
		return
	}
	sanitized, bad := st.sanitizer.Sanitize(out, reported)
	if bad != nil {
		w.failed(r.text(sdk.AsError(bad)))
		return
	}
	w.sanitized = sanitized
	w.end, w.tokens, w.cost = endResult, tokens(w.usage), r.h.o.Prices.Cost(w.usage)
	w.record = r.newRecord(w)
	r.prepareUndo(w, sanitized.Data())
	w.record.Context.Undo = w.undo
	w.record.Degraded = w.fallback > 0
	if w.fallback > 0 {
		w.record.Context.Error = r.text(w.lastErr)
	}
	if w.replayed != nil {
		w.record.Degraded, w.record.Context.Error = w.replayed.Degraded, w.replayed.Context.Error
	}
}

// within is the context of an attempt that ends after limit, with what cause
// says. It is the context of w with a deadline: one context with a timer of its
// own takes less of the engine's time per attempt than two, one in the other.
// stop must be called.
func (w *work) within(limit time.Duration, cause func() error) (ctx context.Context, stop func()) {
	t := time.AfterFunc(limit, func() { w.cancel(cause()) })
	return bounded{w.ctx, time.Now().Add(limit)}, func() { t.Stop() }
}

// bounded is a context that its owner cancels at the deadline.
type bounded struct {
	context.Context
	deadline time.Time
}

func (b bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Err is what a context with a timer of its own says.
func (b bounded) Err() error {
	err := b.Context.Err()
	if e := (*sdk.Error)(nil); err != nil && errors.As(context.Cause(b.Context), &e) && e.Class == sdk.ClassTimeout {
		return context.DeadlineExceeded
	}
	return err
}

// maxRefused bounds the output that is kept with the error of an attempt.
const maxRefused = 1 << 20

// withOutput keeps with an error the output that was not good enough: its step
// may be asked again with it, and a person wants to see it.
func withOutput(err *sdk.Error, out json.RawMessage) *sdk.Error {
	if err == nil || err.Class != sdk.ClassValidation || err.Details != nil || len(out) > maxRefused {
		return err
	}
	e := *err
	if details, bad := sdk.Marshal(map[string]json.RawMessage{"output": out}); bad == nil {
		e.Details = details
	}
	return &e
}

func timedOut(address string, timeout time.Duration) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassTimeout, Code: "attempt",
		Message: fmt.Sprintf("%s did not end within its timeout of %s; raise timeout if it needs longer", address, timeout)}
}

// call is one request to a step type, for an attempt of a step: its own, or
// that of a fallback or a check.
type call struct {
	use           hcl.Use
	input, config json.RawMessage
	grant         grant
	main          bool            // its retries share one idempotency key
	identity      json.RawMessage // what of the input counts in that of others
	context       json.RawMessage // the answer's
}

// call asks on behalf of w and returns the output. What was used counts for w.
func (r *run) call(ctx context.Context, w *work, c *call) (json.RawMessage, *sdk.Error) {
	q := request{who: r.address(w.unit), of: w.step, step: r.step(w).address, instance: w.in.Name, attempt: int(w.attempt),
		use: c.use, grant: c.grant, input: c.input, config: c.config, key: w.idem, secrets: r.step(w).Secrets}
	q.began = func() {
		if w.started.IsZero() {
			w.started = time.Now()
			r.note(Event{Type: EventStarted, Step: q.who, Attempt: q.attempt, Reason: w.reason})
		}
	}
	if !c.main {
		h := checkpoint.NewHasher("engine/idempotency/1")
		h.String(w.idem)
		h.String(r.s.f.wf.Plugins[c.use.Plugin].Name)
		h.String(c.use.StepType)
		h.Bytes(c.identity)
		q.key = h.Sum().String()
	}
	if w.ticket != nil && w.ticket.l == r.limiters[c.use.Plugin] {
		q.ticket, w.ticket = w.ticket, nil
	}
	resp, err := r.request(ctx, &q)
	w.usage = append(w.usage, q.usage...)
	if err != nil {
		return nil, err
	}
	w.warnings = append(w.warnings, resp.Warnings...)
	c.context = resp.Context
	return resp.Output, nil
}

// fallBack gives the answer of a fallback.
func (r *run) fallBack(ctx context.Context, w *work) (json.RawMessage, *sdk.Error) {
	s, st, k := r.s, r.step(w), w.fallback-1
	scope := w.scope
	scope.Input, scope.Error = w.input, w.lastErr
	switch fb := &st.Fallbacks[k]; fb.Kind {
	case hcl.FallbackOutput:
		out, diags := s.eval.FallbackOutput(int(w.step), k, scope)
		if diags.HasErrors() {
			return nil, inputError(diags)
		}
		return out, s.blobs().keep(ctx, out, nil)
	case hcl.FallbackStep:
		input, diags := s.eval.FallbackInput(int(w.step), k, scope)
		if diags.HasErrors() {
			return nil, inputError(diags)
		}
		identity, diags := s.eval.KeyFallback(int(w.step), k, input, scope)
		if diags.HasErrors() {
			return nil, inputError(diags)
		}
		return r.ask(ctx, w, fb.Use, input, identity, "the fallback's input")
	}
	h := s.plan.LastAnswer(w.step, w.in.Name)
	if h == nil {
		return nil, fellThrough(w.lastErr, "and there is no earlier answer to fall back to")
	}
	out, err := r.h.o.Store.Data(ctx, r.h.o.Tenant, h.Data)
	if err != nil {
		return nil, fellThrough(w.lastErr, "and the earlier answer cannot be read: "+err.Error())
	}
	if err := fits(s.f.types[stepTypeKey{st.Plugin, st.StepType}].schemas.output, out, sdk.ClassValidation, "the earlier answer"); err != nil {
		return nil, fellThrough(w.lastErr, "and "+err.Message)
	}
	return out, nil
}

// fellThrough is the error of the step, with what became of its fallback.
func fellThrough(err *sdk.Error, why string) *sdk.Error {
	if err == nil {
		err = &sdk.Error{Class: sdk.ClassInternal}
	}
	e := *err
	e.Message += "; " + why
	return &e
}

// ask calls another step type on behalf of w.
func (r *run) ask(ctx context.Context, w *work, use hcl.Use, input, identity json.RawMessage, what string) (json.RawMessage, *sdk.Error) {
	if err := fits(r.s.f.types[stepTypeKey{use.Plugin, use.StepType}].schemas.input, input, sdk.ClassInvalidInput, what, hidden(use)...); err != nil {
		return nil, err
	}
	config, err := r.config(use.Plugin)
	if err != nil {
		return nil, err
	}
	return r.call(ctx, w, &call{use: use, input: input, identity: identity, config: config, grant: r.s.f.ceilings[use.Plugin]})
}

// judge says whether an answer counts: its type, then the postconditions, then
// the checks, which are not asked about the answer of a fallback.
func (r *run) judge(ctx context.Context, w *work, out json.RawMessage) *sdk.Error {
	s, st := r.s, r.step(w)
	if err := sdk.CheckJSON(out); err != nil {
		return &sdk.Error{Class: sdk.ClassProtocol, Message: "output: " + err.Error()}
	}
	if err := s.eval.CheckOutput(int(w.step), out); err != nil {
		return &sdk.Error{Class: sdk.ClassValidation, Code: "output_type", Message: err.Error()}
	}
	scope := w.scope
	scope.Input, scope.Output = w.input, out
	if err := r.holds(w, scope); err != nil || w.fallback > 0 || r.s.replays(w.step) {
		return err
	}
	for k := range st.Checks {
		input, diags := s.eval.CheckInput(int(w.step), k, scope)
		if diags.HasErrors() {
			return inputError(diags)
		}
		identity, diags := s.eval.KeyCheck(int(w.step), k, input, scope)
		if diags.HasErrors() {
			return inputError(diags)
		}
		out, err := r.ask(ctx, w, st.Checks[k].Use, input, identity, "the check's input")
		if err != nil {
			return err
		}
		var verdict struct {
			OK     *bool  `json:"ok"`
			Reason string `json:"reason"`
		}
		if err := sdk.Unmarshal(out, &verdict); err != nil || verdict.OK == nil {
			return &sdk.Error{Class: sdk.ClassProtocol, Code: "check", Message: fmt.Sprintf("check %d answered %.200s; a check answers {\"ok\": true} or {\"ok\": false, \"reason\": \"…\"}", k+1, out)}
		}
		if !*verdict.OK {
			return &sdk.Error{Class: sdk.ClassValidation, Code: "check", Message: "the check says no: " + verdict.Reason}
		}
	}
	return nil
}

// codePostcondition is the code of the error of an answer that the flow does not
// take.
const codePostcondition = "postcondition"

// holds judges the postconditions.
func (r *run) holds(w *work, scope hcl.Scope) *sdk.Error {
	if r.step(w).Postconditions == 0 {
		return nil
	}
	message, diags := r.s.eval.Postcondition(int(w.step), scope)
	switch {
	case diags.HasErrors():
		return inputError(diags)
	case message != "":
		return &sdk.Error{Class: sdk.ClassValidation, Code: codePostcondition, Message: message}
	}
	return nil
}

// newRecord is the record of w without what follows from the output.
func (r *run) newRecord(w *work) *checkpoint.Record {
	s, st := r.s, r.step(w)
	now := time.Now().UTC()
	rec := &checkpoint.Record{Head: checkpoint.Head{
		Step: st.address, Instance: w.in.Name, Run: s.record.ID, Chain: s.record.Chain, Local: s.local(w.step, w.in.Name), Plan: w.key, Content: w.content,
		Lineage: w.lineage, Attempts: int(w.attempt), Created: now, Took: w.took, Tokens: w.tokens, Cost: w.cost,
	}}
	if j := s.defs[w.step].Judge; j != nil {
		rec.Judged = *j
	}
	if st.effects.Changes() && !w.supplied {
		_ = rec.IdempotencyKey.UnmarshalText([]byte(w.idem)) // none of a collection, nor of what is reused
	}
	if st.TTL > 0 {
		rec.Expires = now.Add(st.TTL)
	}
	a := s.f.artifacts[st.Plugin]
	rec.Context = checkpoint.Context{
		Plugin: s.f.wf.Plugins[st.Plugin].Name, Version: version(s.f, st.Plugin), Artifact: a.Digest, StepType: st.StepType,
		Engine: r.h.o.Version, Input: w.inputs, InputHead: inputHead(string(s.secrets.redactor().JSON(s.eval.Shown(int(w.step), w.input)))), Identity: r.parts(w), Upstream: s.upstream(r.refs(w), w.lineage),
		Producer: checkpoint.Producer{Run: s.record.ID, Step: r.address(w.unit), Attempt: int(w.attempt), Started: w.started.UTC()},
		Timeout:  st.timeout, Usage: w.usage,
	}
	rec.Context.Inputs = r.attributes(w)
	return rec
}

// local is the local key of step i, or of its instance of this name.
func (s *session) local(i int32, name string) checkpoint.Fingerprint {
	if name != "" {
		return s.defs[i].Instance
	}
	return s.defs[i].Local
}

// attributes tells the attributes of w's input apart from those of another time.
func (r *run) attributes(w *work) []checkpoint.AttributeDigest {
	if len(w.members) == 0 {
		return nil
	}
	as := make([]checkpoint.AttributeDigest, len(w.members))
	for k, m := range w.members {
		as[k] = checkpoint.AttributeDigest{Name: m.Name, Value: checkpoint.AttributeHash(m.Digest)}
		for _, a := range r.s.expressions[w.step] {
			if a.Name == m.Name {
				as[k].Expression = a.Expression
			}
		}
	}
	return as
}

// parts names the parts of w's local key, for differences.
func (r *run) parts(w *work) []checkpoint.NamedDigest {
	ps := r.s.parts[w.step]
	if w.unit.among == nil {
		return ps
	}
	ps = slices.DeleteFunc(slices.Clone(ps), func(p checkpoint.NamedDigest) bool { return p.Name == "for_each" })
	return append(ps, checkpoint.NamedDigest{Name: "each", Digest: w.in.Each.Short()})
}

func tokens(us []sdk.Usage) (n int64) {
	for _, u := range us {
		n += u.InputTokens + u.OutputTokens
	}
	return n
}

// text is e in the form in which it may be stored and shown.
func (r *run) text(e *sdk.Error) *sdk.Error {
	c := *r.s.secrets.maskError(e)
	c.Message, c.Stderr = r.sanitizer.Text(c.Message), r.sanitizer.Text(c.Stderr)
	return &c
}

// inputError is what a mistake found while evaluating becomes: the input of
// the step is wrong, and trying again cannot help.
func inputError(diags hcl.Diagnostics) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "evaluation", Message: diags.Error()}
}

// ready loads the plugins that the attempt is sure to ask, before its time
// begins: compiling a module and starting a process are no part of an attempt.
// release must be called after it.
func (r *run) ready(w *work) (release func(), err *sdk.Error) {
	st, f := r.step(w), r.s.f
	type needed struct {
		use    hcl.Use
		limits loader.Limits
	}
	var need []needed
	switch {
	case r.s.replays(w.step): // nobody is asked
	case w.fallback == 0:
		need = append(need, needed{st.use(), st.grant.limits})
		for _, c := range st.Checks {
			need = append(need, needed{c.Use, f.ceilings[c.Use.Plugin].limits})
		}
	default:
		if fb := &st.Fallbacks[w.fallback-1]; fb.Kind == hcl.FallbackStep {
			need = append(need, needed{fb.Use, f.ceilings[fb.Use.Plugin].limits})
		}
	}
	var held []func()
	release = func() {
		for _, each := range held {
			each()
		}
	}
	for k, n := range need {
		one, err := r.prepare(w.ctx, r.address(w.unit), n.use, n.limits, slices.ContainsFunc(need[:k], func(o needed) bool {
			return o.use.Plugin == n.use.Plugin && o.limits == n.limits // they are asked one after the other
		}))
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, one)
	}
	return release, nil
}

// prepare loads a plugin for who and, unless it is shared with what is prepared
// already, what one attempt needs of it. release must be called after it.
func (r *run) prepare(ctx context.Context, who string, use hcl.Use, limits loader.Limits, shared bool) (release func(), _ *sdk.Error) {
	step, err := r.load(ctx, who, use, limits)
	if err != nil {
		return nil, sdk.AsError(err)
	}
	p, ok := step.(loader.Preparer)
	if !ok || shared {
		return func() {}, nil
	}
	if release, err = p.Prepare(ctx); err != nil {
		return nil, sdk.AsError(err)
	}
	return release, nil
}

// load makes a plugin ready for who, once per run. A failure is not
// remembered: the next attempt tries again.
func (r *run) load(ctx context.Context, who string, use hcl.Use, limits loader.Limits) (sdk.Step, error) {
	slot := &r.plugins[use.Plugin]
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.plugin == nil {
		slow := time.AfterFunc(time.Second, func() {
			r.note(Event{Type: EventLog, Step: who, Level: "info", Message: "making plugin " + r.s.f.wf.Plugins[use.Plugin].Name + " ready; a module is compiled once, and read from the cache the next time"})
		})
		a := *r.s.f.artifacts[use.Plugin]
		a.Env = r.s.f.ceilings[use.Plugin].world().Env
		p, err := r.s.f.loaders[use.Plugin].Load(ctx, &a)
		slow.Stop()
		if err != nil {
			return nil, err
		}
		slot.plugin, slot.steps = p, map[stepKey]sdk.Step{}
	}
	key := stepKey{use.StepType, limits}
	if s := slot.steps[key]; s != nil {
		return s, nil
	}
	s, err := slot.plugin.Step(use.StepType, limits)
	if err != nil {
		return nil, err
	}
	slot.steps[key] = s
	return s, nil
}

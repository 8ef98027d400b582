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
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// work is one step or instance on its way from the loop to a worker and back.
// The worker owns it in between; it holds nothing of the run's state.
type work struct {
	unit
	node     int32
	attempt  int32
	turn     turn
	early    bool       // something that the step names has not ended
	hold     bool       // prepare the attempt, do not run it
	ready    bool       // prepared: run the attempt now
	prompt   bool       // it prepares the attempt and waits for nothing
	fallback int        // which one to try instead of the step, from 1
	before   int        // action to run before the attempt, from 1
	ticket   *ticket    // the limiter's, of the call that comes next
	lastErr  *sdk.Error // of the attempt before
	failedAt time.Time  // when that had begun
	ctx      context.Context
	cancel   context.CancelCauseFunc

	// What deciding found.
	each     []hcl.Each // of an instance, by loop
	scope    hcl.Scope  // in which its expressions are evaluated
	in       recovery.Instance
	lineage  []sdk.Digest
	key      checkpoint.Fingerprint
	content  checkpoint.Fingerprint
	numbered func(occurrence int) checkpoint.Fingerprint // the content keys of equal instances
	input    json.RawMessage
	config   json.RawMessage
	inputs   sdk.Digest
	members  []checkpoint.Member // of inputs
	reason   string
	lost     bool // it has a record whose output cannot be had
	effect   checkpoint.Fingerprint
	idem     string // idempotency key

	// The answer.
	kind      signalKind // sigPrepared or sigEnded
	end       ending
	err       *sdk.Error
	supplied  bool             // a person gave the answer
	fatal     error            // the store failed
	reused    *checkpoint.Head // the record taken instead of running
	hit       bool             // reused was found by content and is committed like a result
	failure   *sdk.Error       // of reused, if it was skipped after a failure
	record    *checkpoint.Record
	sanitized checkpoint.Sanitized
	replayed  *checkpoint.Record // that gave the answer
	started   time.Time
	took      time.Duration
	usage     []sdk.Usage
	tokens    int64
	cost      checkpoint.Cost
	warnings  []sdk.Warning
	fanout    *fanout         // with endExpanded
	known     []*fanout       // of records taken, that instances name
	undo      json.RawMessage // the input of its undo, as far as it is known
}

func (w *work) failed(err *sdk.Error) { w.kind, w.end, w.err = sigEnded, endFailed, err }

// do is a worker's turn: decide what becomes of the step and, unless it is to
// be held, run the attempt.
func (r *run) do(w *work) {
	w.kind = sigEnded
	switch w.turn {
	case turnExpand:
		if !r.whole(w) {
			r.expand(w)
		}
		return
	case turnGather:
		r.gather(w)
		return
	}
	if w.before > 0 && !w.ready {
		if err := r.act(w.ctx, w.before-1, r.address(w.unit), w.failedAt); err != nil {
			w.failed(r.text(err))
			return
		}
	}
	defer w.giveBack()
	if !w.ready && (!r.decide(w) || !r.admit(w)) {
		return
	}
	release, err := r.ready(w)
	if err != nil {
		w.failed(r.text(err))
		w.end = endUnready
		return
	}
	defer release()
	if w.hold && !w.ready {
		w.kind = sigPrepared
		return
	}
	r.attemptStep(w)
}

// giveBack returns a ticket that was not used, unless it is waited for.
func (w *work) giveBack() {
	if w.ticket != nil && w.kind == sigEnded && w.end != endWaits {
		w.ticket.done(0, false)
		w.ticket = nil
	}
}

// whole takes the record of a collection, if everything it names has ended and
// is as it was.
func (r *run) whole(w *work) bool {
	s := r.s
	if w.early || s.rerun(w.step, "") || s.given[w.step] != nil {
		return false
	}
	w.lineage = r.lineage(s.f.graph.Refs(w.step), w.unit)
	res := s.plan.Resolve(w.step, w.lineage)
	if res.Head == nil || res.Judge || !r.readable(w, res.Head) {
		return w.fatal != nil
	}
	w.key, w.end, w.reused = res.Key, endResult, res.Head
	if r.step(w).ahead && res.Head.Outcome == checkpoint.Succeeded {
		if err := r.take(w, w.step, res.Head); err != nil {
			w.fatal = err
		}
	}
	return true
}

// refs are the facets in the key of w: of an instance, without those of
// for_each.
func (r *run) refs(w *work) []recovery.Ref {
	g := r.s.f.graph
	refs := g.Refs(w.step)
	if n := len(g.EachRefs(w.step)); w.unit.among != nil && n > 0 {
		when := len(g.WhenRefs(w.step))
		return append(slices.Clone(refs[:when]), refs[when+n:]...)
	}
	return refs
}

// decide evaluates `when`, looks the step up and evaluates its input; false
// says that nothing is left to run.
func (r *run) decide(w *work) (goOn bool) {
	up := r.upstream(w.unit)
	w.scope = hcl.Scope{Up: up.result, Attempt: int(w.attempt), LastError: w.lastErr}
	return r.placeInLoops(w) && r.condition(w, up) && r.lookUp(w, up) && r.mayStart(w, up)
}

// placeInLoops says which instance w is; false if that cannot be said.
func (r *run) placeInLoops(w *work) bool {
	if w.unit.among == nil {
		return true
	}
	var err error
	if w.each, err = r.each(w.unit); err != nil {
		w.fatal = err
		return false
	}
	w.in, w.scope.Each = w.unit.among.in[w.inst], w.each
	if w.in.Paired && !r.collects(w.unit) {
		var diags hcl.Diagnostics
		w.in.Each, diags = r.s.eval.EachIdentity(int(w.step), w.each)
		return w.evaluated(nil, diags)
	}
	return true
}

// condition evaluates `when`; false if w ends with that.
func (r *run) condition(w *work, up *upstream) bool {
	s, st := r.s, r.step(w)
	if !st.HasWhen || st.WhenDepth != w.depth() || *r.met(w.unit) {
		return true
	}
	yes, diags := s.eval.When(int(w.step), w.scope)
	if !w.evaluated(up, diags) {
		return false
	}
	if !yes {
		w.lineage = r.lineage(r.refs(w)[:st.WhenFacets], w.unit)
		w.end, w.key = endSkipped, s.plan.WhenKey(w.step, r.eachDigest(w), w.lineage)
		w.record = r.newRecord(w)
		w.record.Outcome, w.record.Local = checkpoint.SkippedCondition, s.defs[w.step].When
		return false
	}
	if w.turn == turnWhen {
		w.end = endCondition
		return false
	}
	return true
}

// lookUp takes the record of w, under its plan key or that of an equal computation, and
// evaluates the input on the way; false if w ends with that.
func (r *run) lookUp(w *work, up *upstream) bool {
	s, st := r.s, r.step(w)
	w.lineage = r.lineage(r.refs(w), w.unit)
	res := r.resolve(w)
	w.key = res.Key
	if res.Head != nil && !res.Judge {
		if r.readable(w, res.Head) {
			w.end, w.reused = endResult, res.Head
			if res.Head.Outcome != checkpoint.Succeeded {
				w.end = endSkipped
			}
			return false
		}
		if w.fatal != nil {
			return false
		}
		res = recovery.Resolution{Key: res.Key, Run: true, Why: recovery.WhyLost, Due: res.Head}
	}
	w.lost = res.Run && (res.Why == recovery.WhyLost || res.Why == recovery.WhyHusk)
	if w.attempt == r.tried(w.unit)+1 {
		w.reason = r.why(w, &res)
	}
	if !r.input(w, st, up) {
		return false
	}
	if out := s.answer(w.step, w.in.Name); out != nil {
		r.supply(w, out)
		return false
	}
	if res.Judge && (r.holdsStill(w, res.Head) || w.err != nil) {
		return false
	}
	return res.Run || res.Judge || !r.takesEqual(w) && w.fatal == nil && w.err == nil
}

// takesEqual takes the record of an equal computation, if one holds before the
// postconditions.
func (r *run) takesEqual(w *work) bool {
	h := r.equal(w)
	if j := r.s.defs[w.step].Judge; h != nil && j != nil && h.Judged != *j { // others have judged it
		if r.holdsStill(w, h) {
			return true
		}
		h = nil
	}
	if h == nil {
		return false
	}
	if w.lost = !r.readable(w, h); w.lost {
		return false
	}
	w.end, w.reused, w.hit = endResult, h, true
	w.record = r.newRecord(w)
	if h.Step != r.step(w).address {
		w.record.Context.ReusedFrom = h.Step
	}
	return true
}

// mayStart: nothing stands against an attempt of w, whose effect, secrets and undo are
// known then. Only what is not reused takes up what an earlier attempt may have done.
func (r *run) mayStart(w *work, up *upstream) bool {
	st := r.step(w)
	if err := r.effect(w, st); err != nil {
		w.failed(err)
		return false
	}
	if st.effects == sdk.EffectsOnce {
		if err := r.happened(w); err != nil {
			w.failed(err)
			return false
		}
	}
	if w.input == nil && !r.secretInput(w, st, up) {
		return false
	}
	if st.Preconditions > 0 {
		scope := w.scope
		scope.Input = w.input
		message, diags := r.s.eval.Precondition(int(w.step), scope)
		if !w.evaluated(up, diags) {
			return false
		}
		if message != "" {
			w.failed(&sdk.Error{Class: sdk.ClassInvalidInput, Code: "precondition", Message: message})
			return false
		}
	}
	r.prepareUndo(w, nil)
	// Only what would start is blocked: a `when` that is false now settles it.
	if err := r.blockedNow(w); err != nil {
		w.failed(err)
		return false
	}
	return true
}

// eachDigest is that of what the `when` of an instance may name of each.
func (r *run) eachDigest(w *work) sdk.Digest {
	if !r.collects(w.unit) || len(w.each) == 0 {
		return w.in.Each
	}
	h := checkpoint.NewHasher("engine/around/1")
	for _, e := range w.each {
		h.Bytes(e.Key)
		h.Bytes(e.Value)
	}
	return sdk.Digest(h.Sum())
}

// readable: what h says can be had. Its output is read now, where the step can
// still run instead; those below find it at hand. Of a step that was skipped
// after a failure it is the error that is needed.
func (r *run) readable(w *work, h *checkpoint.Head) bool {
	var err error
	switch h.Outcome {
	case checkpoint.Succeeded:
		_, err = r.outputs.get(w.unit, h.Data)
	case checkpoint.SkippedFailure:
		var rec *checkpoint.Record
		if rec, err = r.h.o.Store.Record(r.ctx, r.h.o.Tenant, h.Seq); err == nil {
			w.failure = rec.Context.Error
		}
	}
	switch {
	case lost(err):
		r.h.o.Logger.Warn("the output of a checkpoint cannot be read", "step", r.address(w.unit), "checkpoint", h.ID, "cause", err)
		return false
	case err != nil:
		w.fatal = &storeError{err}
		return false
	}
	return true
}

// lost: what the store was asked for is as good as absent.
func lost(err error) bool {
	return errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrCorrupt)
}

// holdsStill takes the record h if its output holds before the postconditions
// as they are now.
func (r *run) holdsStill(w *work, h *checkpoint.Head) bool {
	out, err := r.h.o.Store.Data(w.ctx, r.h.o.Tenant, h.Data)
	if err != nil {
		return false // as good as absent
	}
	scope := w.scope
	scope.Input, scope.Output = w.input, out
	if err := r.holds(w, scope); err != nil {
		w.reason = "its postconditions changed and the stored answer fails them: " + err.Message
		if r.step(w).effects.Changes() { // it has happened; to judge it anew is no reason to repeat it
			address := r.address(w.unit)
			w.failed(&sdk.Error{Class: sdk.ClassValidation, Code: codePostcondition, Message: fmt.Sprintf(
				"its stored answer fails the postcondition as it is now: %s. It has effects and does not run again for that: use --rerun %s if it is to be repeated", err.Message, quoted(address))})
		}
		return false
	}
	w.end, w.reused, w.hit = endResult, h, true
	w.record = r.newRecord(w)
	return true
}

// input makes the content key, and evaluates what the attempt receives unless
// that names secrets: whether it is needed decides itself without them.
func (r *run) input(w *work, st *flowStep, up *upstream) bool {
	s := r.s
	if len(st.Secrets) == 0 && !r.received(w, st, up) {
		return false
	}
	// The key is the first attempt's: what the one before failed with is no part
	// of what is asked, and an answer to a second try must be found again.
	given, scope := w.input, w.scope
	if w.attempt > 1 {
		scope.Attempt, scope.LastError = 1, nil
		if given != nil {
			var diags hcl.Diagnostics
			if given, diags = s.eval.Input(int(w.step), scope); !w.evaluated(up, diags) {
				return false
			}
		}
	}
	identity, diags := s.eval.KeyInput(int(w.step), given, scope)
	if !w.evaluated(up, diags) {
		return false
	}
	digest, members, err := checkpoint.MemberDigests(identity)
	if err != nil {
		w.failed(&sdk.Error{Class: sdk.ClassInvalidInput, Message: "input cannot be carried as JSON: " + err.Error()})
		return false
	}
	w.inputs, w.members = digest, members
	var order []sdk.Digest
	for k, ref := range r.refs(w) {
		if ref.Order {
			order = append(order, w.lineage[k])
		}
	}
	base := s.bases[w.step]
	if w.unit.among != nil {
		salt, diags := s.eval.Salt(int(w.step), w.each)
		if !w.evaluated(nil, diags) {
			return false
		}
		if !salt.IsZero() {
			h := checkpoint.NewHasher("engine/salted/1")
			h.Fingerprint(base)
			h.Digest(salt)
			base = h.Sum()
		}
	}
	w.numbered = func(n int) checkpoint.Fingerprint { return checkpoint.ContentKey(base, digest, order, n) }
	w.content = w.numbered(w.in.Occurrence)
	return true
}

// received evaluates what the attempt receives.
func (r *run) received(w *work, st *flowStep, up *upstream) bool {
	input, diags := r.s.eval.Input(int(w.step), w.scope)
	if !w.evaluated(up, diags) {
		return false
	}
	if err := fits(r.s.f.types[stepTypeKey{st.Plugin, st.StepType}].schemas.input, input, sdk.ClassInvalidInput, "the input", st.Sensitive...); err != nil {
		w.failed(err)
		return false
	}
	config, err := r.config(st.Plugin)
	if err != nil {
		w.failed(err)
		return false
	}
	w.input, w.config = input, config
	return true
}

// secretInput evaluates what an attempt receives that names secrets.
func (r *run) secretInput(w *work, st *flowStep, up *upstream) bool {
	if err := r.need(w.ctx, st.Secrets, r.address(w.unit)); err != nil {
		w.failed(err)
		return false
	}
	return r.received(w, st, up)
}

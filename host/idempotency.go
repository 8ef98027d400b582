package host

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// held are the idempotency keys of earlier attempts that the steps and instances of
// this run have taken. No two have the same one. It is safe for concurrent use.
type held struct {
	mu     sync.Mutex
	by     map[string]string           // by key: the address that has it
	own    map[effectAt]string         // the other way round, so that a retry has the key of the try before
	coming map[*checkpoint.Intent]bool // whether its own instance takes an attempt up
}

// effectAt is an effect of a step or instance, done anew so many times.
type effectAt struct {
	address string
	effect  checkpoint.Fingerprint
	reruns  int
}

// take gives a key of the past to who has this effect, if no other has it.
func (h *held) take(key string, at effectAt) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if by, has := h.by[key]; has && by != at.address {
		return false
	}
	if h.by == nil {
		h.by, h.own = map[string]string{}, map[effectAt]string{}
	}
	h.by[key], h.own[at] = at.address, key
	return true
}

// taken is the key that take gave for this effect, "" if it gave none.
func (h *held) taken(at effectAt) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own[at]
}

// happened is why w, which must happen once, does not start although nobody knows of
// an attempt that is open: its effect has an answer that cannot be taken, because it
// was lost or because what it was made with has changed. nil if it may start.
func (r *run) happened(w *work) *sdk.Error {
	address := r.address(w.unit)
	h := cmp.Or(r.s.past.spent[w.idem], r.said(w))
	if h != nil && !r.s.plan.Counts(w.step, h) {
		h = nil
	}
	switch {
	case w.lost || h != nil && h.Content == w.content:
		return answerLost(address, h)
	case h != nil:
		return &sdk.Error{Class: sdk.ClassInternal, Code: CodeOutcomeUnknown, Message: fmt.Sprintf(
			"it has happened (%s of run %s), and would do the same again: %s. It is not done again for that: give its answer with --set %s=@value.json, or add --rerun %s to do it again", h.ID, h.Run, cmp.Or(w.reason, "its definition changed"), quoted(address), quoted(address))}
	}
	return nil
}

// said is the record by which a person has said what came of the effect of w; nil if
// there is none, or w was asked for since.
func (r *run) said(w *work) *checkpoint.Head {
	s := r.s
	h := s.index.Head(s.f.steps[w.step].address, w.in.Name)
	if h == nil || !h.Operator || h.Chain != s.record.Chain || w.in.Rerun || w.inst < 0 && s.rerun(w.step, "") {
		return nil
	}
	rec, err := s.h.o.Store.Record(w.ctx, s.h.o.Tenant, h.Seq)
	if err != nil || effectOf(rec.Context.StepType, rec.Context.Input) != w.effect {
		return nil
	}
	return h
}

// effect settles what attempt w does to the world: the idempotency key. It is that of
// an attempt with this effect that was interrupted, if there is one: its own, else
// that of a step or instance which does not take it up itself. The error says that the
// effect may have happened under a name that the flow no longer has.
func (r *run) effect(w *work, st *flowStep) *sdk.Error {
	p := &r.s.past
	w.effect = effectOf(st.StepType, w.inputs)
	address := hcl.InstanceAddress(st.address, w.in.Name)
	at := effectAt{address, w.effect, r.s.rerunsOf(w)}
	if len(p.holders) == 0 {
		w.idem = r.s.idempotencyKey(at, 0)
		return nil
	}
	if w.idem = p.held.taken(at); w.idem != "" {
		return nil
	}
	if r.s.answer(w.step, w.in.Name) == nil && (w.inst < 0 && !r.s.rerun(w.step, "") || w.inst >= 0 && !w.in.Rerun) {
		if in := p.own(w, st, address); in != nil && p.held.take(in.IdempotencyKey, at) {
			if w.idem = in.IdempotencyKey; st.effects == sdk.EffectsOnce && in != p.open[address] { // else see blockedNow
				return outcomeUnknown(address, notSeen(address, in))
			}
			return nil
		}
		if st.effects.Changes() {
			for _, in := range p.gone[w.effect] {
				switch {
				case r.comes(in, w):
				case st.effects == sdk.EffectsOnce:
					return outcomeUnknown(address, notSeen(address, in))
				case p.held.take(in.IdempotencyKey, at):
					w.idem = in.IdempotencyKey
					return nil
				}
			}
		}
	}
	// Its own key may have become another's, who took it up when this one had no such
	// effect, or stands on what was done under it now, or have been that of another
	// instance which stood in its place.
	for n := 0; ; n++ {
		key := r.s.idempotencyKey(at, n)
		last, used := p.holders[key]
		same := last.address == address && (w.inst < 0 || last.twin.IsZero() || last.twin == twin(&w.in))
		if !used || same && !r.claims.others(p.spent[key], address) && p.held.take(key, at) {
			w.idem = key
			return nil
		}
	}
}

// own is the interrupted attempt that w itself made, if it does the same now. An
// instance is known by what it is given, for it may have another place by now.
func (p *past) own(w *work, st *flowStep, address string) *checkpoint.Intent {
	if w.inst >= 0 {
		var moved *checkpoint.Intent
		for _, in := range p.gone[w.effect] {
			switch {
			case in.Step != st.address || in.Twin != twin(&w.in):
			case in.Instance == w.in.Name:
				return in
			case moved == nil:
				moved = in
			}
		}
		if moved != nil {
			return moved
		}
	}
	if in := p.open[address]; in != nil && in.Effect == w.effect && (w.inst < 0 || w.in.Paired || in.Twin.IsZero()) {
		return in
	}
	return nil
}

// twin identifies an instance among those of its step, but for paired ones, which may
// be given the same.
func twin(in *recovery.Instance) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/twin/1")
	h.Digest(in.Each)
	h.Int(in.Occurrence)
	return h.Sum()
}

// idempotencyKey is the n-th key of an effect; others than the first are for when
// that is another's.
func (s *session) idempotencyKey(at effectAt, n int) string {
	h := checkpoint.NewHasher("engine/idempotency/1")
	h.String(string(s.record.Chain))
	h.String(at.address)
	h.Fingerprint(at.effect)
	h.Int(at.reruns)
	if n > 0 {
		h.Int(n)
	}
	return h.Sum().String()
}

// rerunsOf is how often a person has asked for w to be done anew, in the chain.
func (s *session) rerunsOf(w *work) int {
	address := s.f.steps[w.step].address
	n := s.record.Reruns[hcl.InstanceAddress(address, w.in.Name)]
	for k := range w.depth() { // of the step, and of the collections that w is in
		n += s.record.Reruns[hcl.InstanceAddress(address, hcl.FirstKeys(w.in.Name, k))]
	}
	return n
}

// comes reports whether the instance that made the interrupted attempt in is there and
// takes it up itself, so that w, which does the same, must not. Where that is not known
// it is false: should the instance come, it does what w would have done.
func (r *run) comes(in *checkpoint.Intent, w *work) bool {
	s, st := r.s, r.step(w)
	if w.inst < 0 || in.Step != st.address || in.Instance == "" {
		return false // of another step's instances a worker knows nothing
	}
	f, h := w.unit.among, &s.past.held // of other collections a worker knows nothing either
	h.mu.Lock()
	defer h.mu.Unlock()
	if comes, known := h.coming[in]; known {
		return comes
	}
	comes := false
	for k := range f.in {
		x := &f.in[k]
		if x.Paired { // what the instance is given may not be known yet
			return slices.ContainsFunc(f.in, func(x recovery.Instance) bool { return x.Name == in.Instance && (x.Rerun || x.Set) })
		}
		if twin(x) != in.Twin && !(in.Twin.IsZero() && x.Name == in.Instance) {
			continue
		}
		up := r.upstream(f.unit(k))
		identity, diags := s.eval.KeyInput(int(w.step), nil, hcl.Scope{Up: up.result, Attempt: 1, Each: f.each[k : k+1]})
		if diags.HasErrors() || up.err != nil {
			return false
		}
		input, err := checkpoint.ValueDigest(identity)
		comes = err == nil && effectOf(st.StepType, input) == in.Effect && r.byNumber(w, x) == nil
		break
	}
	if h.coming == nil {
		h.coming = map[*checkpoint.Intent]bool{}
	}
	h.coming[in] = comes
	return comes
}

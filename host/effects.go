package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// CodeOutcomeUnknown is the code of the error of a step that must happen once
// and may or may not have happened.
const CodeOutcomeUnknown = "outcome_unknown"

func outcomeUnknown(address, seen string) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInternal, Code: CodeOutcomeUnknown, Message: fmt.Sprintf(
		"outcome unknown: did it happen? %s. Give its answer with --set %s=@value.json if it did, or add --rerun %s if it did not", seen, quoted(address), quoted(address))}
}

// answerLost is why a step that must happen once does not start although its answer is
// needed: it has happened.
func answerLost(address string, h *checkpoint.Head) *sdk.Error {
	which := ""
	if h != nil {
		which = fmt.Sprintf(" (%s of run %s)", h.ID, h.Run)
	}
	return &sdk.Error{Class: sdk.ClassInternal, Code: CodeOutcomeUnknown, Message: fmt.Sprintf(
		"it has happened, but its stored output%s cannot be read any more, and what is below needs it. It is not done again for that: give its answer with --set %s=@value.json, or add --rerun %s to do it again", which, quoted(address), quoted(address))}
}

// notSeen says of an intent that its attempt began, and how it was called if that
// is not the address.
func notSeen(address string, in *checkpoint.Intent) string {
	as := ""
	if was := hcl.InstanceAddress(in.Step, in.Instance); was != address {
		as = "as " + was + ", "
	}
	return fmt.Sprintf("%sattempt %d of run %s was started and its end was not seen", as, in.Attempt, in.Run)
}

// past is what the runs of this chain have tried of steps with effects, as far
// as its end is not known.
type past struct {
	open map[string]*checkpoint.Intent // by address: started, end not seen

	// gone are those that another step or instance may be the heir of, by effect, oldest
	// first: their step is not in the flow any more or not under that name, or they are
	// of an instance, whose place another may have by now.
	gone map[checkpoint.Fingerprint][]*checkpoint.Intent

	// reshaped are those of open, by the address of the step, that were made when it
	// had a for_each and it has none now, or the other way round.
	reshaped map[string]*checkpoint.Intent

	// holders says, of each idempotency key that the chain has used, who did so last.
	holders map[string]holder
	held    held

	// spent says of a key which record has the answer to what was done under it, the
	// newest; done lists these records by content key, that of the first of equal
	// instances.
	spent map[string]*checkpoint.Head
	done  map[checkpoint.Fingerprint][]*checkpoint.Head
}

// holder is a step, or an instance as an Intent tells it from others.
type holder struct {
	address string
	twin    checkpoint.Fingerprint
}

// effectOf identifies what an attempt does to the world: its step type and
// evaluated input. The plugin's build is no part of it, so that an attempt that
// was interrupted is repeated under its key although the plugin was rebuilt.
func effectOf(stepType string, input sdk.Digest) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/effect/1")
	h.String(stepType)
	h.Digest(input)
	return h.Sum()
}

// resume looks at what earlier attempts left behind: how many each step has had
// in this run, how long the run has lived, and which effects may have happened.
func (s *session) resume(ctx context.Context) error {
	s.policies = make([]stepPolicy, len(s.f.steps))
	for i := range s.f.steps {
		st := &s.f.steps[i]
		s.policies[i] = stepPolicy{Effects: st.effects, Retry: retries(st.Retry), HasWhen: st.HasWhen, Loops: int32(len(st.Loops)), WhenDepth: int32(st.WhenDepth),
			Deep: len(st.beside) > 0 || len(st.Loops) > 1, Concurrency: int32(st.Concurrency), SkipOnFailure: st.SkipOnFailure}
		s.policies[i].loops(st.Loops)
		for k := range st.Fallbacks {
			s.policies[i].Fallbacks = append(s.policies[i].Fallbacks, st.Fallbacks[k].On)
		}
	}
	for _, i := range s.options.Rerun {
		if s.record.Reruns == nil {
			s.record.Reruns = map[string]int{}
		}
		for name := range s.reruns[i] {
			s.record.Reruns[hcl.InstanceAddress(s.f.steps[i].address, name)]++
		}
		if s.reruns[i] == nil {
			s.record.Reruns[s.f.steps[i].address]++
		}
	}
	s.tries = map[string]int32{}
	if s.continued {
		if err := s.countAttempts(ctx); err != nil {
			return err
		}
	}
	if err := s.readPast(ctx); err != nil {
		return err
	}
	for i := range s.f.steps {
		s.policies[i].Attempt = s.tries[s.f.steps[i].address]
	}
	s.block()
	return nil
}

// readPast reads what the chain's runs have tried of steps with effects.
func (s *session) readPast(ctx context.Context) error {
	s.past = past{open: map[string]*checkpoint.Intent{}, gone: map[checkpoint.Fingerprint][]*checkpoint.Intent{},
		reshaped: map[string]*checkpoint.Intent{}, holders: map[string]holder{}, spent: map[string]*checkpoint.Head{}, done: map[checkpoint.Fingerprint][]*checkpoint.Head{}}
	if !slices.ContainsFunc(s.f.steps, func(st flowStep) bool { return st.effects.Changes() }) {
		return nil
	}
	ended := map[string][]*checkpoint.Head{} // by address: what the chain has of it
	for hd := range s.index.Heads() {
		if hd.Chain == s.record.Chain {
			address := hcl.InstanceAddress(hd.Step, hd.Instance)
			ended[address] = append(ended[address], hd)
			if hd.IdempotencyKey.IsZero() {
				continue
			}
			key := hd.IdempotencyKey.String()
			if old := s.past.spent[key]; old == nil || old.Seq < hd.Seq {
				s.past.spent[key] = hd
			}
		}
	}
	intents := make([][]*checkpoint.Intent, len(s.chain))
	with, listed := map[attemptOf]*checkpoint.Intent{}, map[string]bool{}
	for k, run := range s.chain { // oldest first
		var err error
		if intents[k], err = s.h.o.Store.Intents(ctx, s.h.o.Tenant, run); err != nil {
			return &storeError{err}
		}
		for _, in := range intents[k] {
			if hd := s.past.spent[in.IdempotencyKey]; hd != nil && !listed[in.IdempotencyKey] {
				listed[in.IdempotencyKey] = true
				s.past.done[in.Content] = append(s.past.done[in.Content], hd)
			}
			with[attemptOf{run, hcl.InstanceAddress(in.Step, in.Instance), in.Attempt}] = in
		}
	}
	for k, run := range s.chain {
		if err := s.readIntents(ctx, run, intents[k], s.chain[k+1:], ended, with); err != nil {
			return err
		}
	}
	return nil
}

// attemptOf names an attempt.
type attemptOf struct {
	run     checkpoint.RunID
	address string
	attempt int
}

// countAttempts reads what the run that is continued has tried so far.
func (s *session) countAttempts(ctx context.Context) error {
	attempts, err := s.h.o.Store.Attempts(ctx, s.h.o.Tenant, s.record.ID)
	if err != nil {
		return &storeError{err}
	}
	last := s.record.Since // the last sign of life of a run that was interrupted
	for _, hd := range s.heads {
		if hd != nil && hd.Run == s.record.ID && hd.Created.After(last) {
			last = hd.Created
		}
	}
	for _, a := range attempts {
		if end := a.Started.Add(a.Took); end.After(last) {
			last = end
		}
		s.tried(hcl.InstanceAddress(a.Step, a.Instance), a.Attempt)
	}
	if s.previous.Status == checkpoint.RunRunning {
		s.record.Live += last.Sub(s.record.Since)
	}
	return nil
}

// tried raises the number of attempts a step or instance has had.
func (s *session) tried(address string, attempt int) {
	s.tries[address] = max(s.tries[address], int32(attempt))
}

// readIntents takes in the intents of one run of the chain. later are the runs
// after it, with are the intents of all by the attempts that they began.
func (s *session) readIntents(ctx context.Context, run checkpoint.RunID, intents []*checkpoint.Intent, later []checkpoint.RunID, ended map[string][]*checkpoint.Head, with map[attemptOf]*checkpoint.Intent) error {
	if len(intents) == 0 {
		return nil
	}
	attempts, err := s.h.o.Store.Attempts(ctx, s.h.o.Tenant, run)
	if err != nil {
		return &storeError{err}
	}
	failed := map[string]bool{} // attempts that said themselves that they failed
	for _, a := range attempts {
		if a.Error != nil && !ambiguous(a.Error) {
			failed[fmt.Sprint(hcl.InstanceAddress(a.Step, a.Instance), " ", a.Attempt)] = true
		}
	}
	steps := map[string]int32{} // of the flow
	for i := range s.f.steps {
		steps[s.f.steps[i].address] = int32(i)
	}
	for _, in := range intents {
		address := hcl.InstanceAddress(in.Step, in.Instance)
		if run == s.record.ID {
			s.tried(address, in.Attempt)
		}
		delete(s.past.open, address)
		s.past.handedOn(in, address)
		if was := s.past.reshaped[in.Step]; was != nil && was.Instance == in.Instance {
			delete(s.past.reshaped, in.Step)
		}
		i, has := steps[in.Step]
		reshaped := has && len(s.f.steps[i].Loops) != len(hcl.InstanceKeys(in.Instance))
		same := has && !reshaped && (in.Local.IsZero() || in.Local == s.local(i, in.Instance))
		var end *checkpoint.Head
		if k := slices.IndexFunc(ended[address], func(hd *checkpoint.Head) bool {
			if hd.Run == run && hd.Attempts < in.Attempt || hd.Run != run && !slices.Contains(later, hd.Run) {
				return false
			}
			by := with[attemptOf{hd.Run, address, hd.Attempts}]
			switch keyed := !hd.IdempotencyKey.IsZero(); {
			case keyed && hd.IdempotencyKey.String() == in.IdempotencyKey, !keyed && (by == nil || by.IdempotencyKey == in.IdempotencyKey):
				return true
			case by == nil || by.Effect != in.Effect: // in its place there is another instance by now
				return in.Instance == ""
			}
			return by.Reruns != in.Reruns // else another has its key, and may not have ended
		}); k >= 0 {
			end = ended[address][k]
		}
		if reshaped && end == nil { // whatever the step has become could only end when a person had settled it
			for _, hds := range ended {
				if k := slices.IndexFunc(hds, func(hd *checkpoint.Head) bool { return hd.Step == in.Step && hd.Created.After(in.Started) }); k >= 0 {
					end = hds[k]
				}
			}
		}
		// Another may stand on what it did, and it have an answer of its own by now.
		if by := s.past.spent[in.IdempotencyKey]; end == nil && by != nil && (by.Run == run || slices.Contains(later, by.Run)) {
			end = by
		}
		switch {
		case failed[fmt.Sprint(address, " ", in.Attempt)], end != nil && (reshaped || s.ends(ctx, end, in)):
			continue
		case end == nil && has:
			s.past.open[address] = in
			if reshaped {
				s.past.reshaped[in.Step] = in
			}
		}
		// Under its name there is another step now, or in its place another instance.
		if !same || in.Instance != "" {
			s.past.gone[in.Effect] = append(s.past.gone[in.Effect], in)
		}
	}
	return nil
}

// handedOn notes that address has used the key of in, and drops what in stands for from
// now on: what was tried under that key, and what a person has since asked to be done
// anew.
func (p *past) handedOn(in *checkpoint.Intent, address string) {
	last := p.holders[in.IdempotencyKey].address
	if was := p.open[last]; was != nil && was.IdempotencyKey == in.IdempotencyKey {
		delete(p.open, last)
	}
	p.holders[in.IdempotencyKey] = holder{address, in.Twin}
	all := p.gone[in.Effect]
	if all = slices.DeleteFunc(all, func(old *checkpoint.Intent) bool {
		same := old.Instance == in.Instance || old.Twin == in.Twin && !in.Twin.IsZero()
		return old.IdempotencyKey == in.IdempotencyKey || old.Step == in.Step && same && old.Reruns < in.Reruns
	}); len(all) == 0 {
		delete(p.gone, in.Effect)
		return
	}
	p.gone[in.Effect] = all
}

// unsettled is the oldest attempt that is not known to have ended and that any step may
// be the heir of; nil if there is none. Which one is known when inputs are.
func (s *session) unsettled() (oldest *checkpoint.Intent) {
	for _, all := range s.past.gone {
		for _, in := range all {
			if in.Effects == sdk.EffectsOnce && (oldest == nil || in.Started.Before(oldest.Started)) {
				oldest = in
			}
		}
	}
	return oldest
}

// ends reports whether what ended under the intent's name is what had begun, and not
// another step that was given that name.
func (s *session) ends(ctx context.Context, end *checkpoint.Head, in *checkpoint.Intent) bool {
	if in.Local.IsZero() || end.Local == in.Local {
		return true
	}
	rec, err := s.h.o.Store.Record(ctx, s.h.o.Tenant, end.Seq)
	return err == nil && effectOf(rec.Context.StepType, rec.Context.Input) == in.Effect
}

// ambiguous: the attempt ended, and it is not known what it had done by then.
func ambiguous(err *sdk.Error) bool {
	if err.Code == loader.CodeStart {
		return false // its program never ran
	}
	return checkpoint.Ambiguous(err.Class)
}

// block notes the steps that must not start again without a person.
func (s *session) block() {
	s.blocked = map[int32]*sdk.Error{}
	for k := range s.f.steps {
		i, st := int32(k), &s.f.steps[k]
		if s.plan.Step(i).Verdict == recovery.Current || st.ForEach || s.rerun(i, "") || s.answer(i, "") != nil {
			continue
		}
		if in := cmp.Or(s.past.open[st.address], s.past.reshaped[st.address]); in != nil && st.effects == sdk.EffectsOnce {
			s.blocked[i] = outcomeUnknown(st.address, notSeen(st.address, in))
		} else if why := s.plan.Step(i).Reason; st.effects == sdk.EffectsOnce && (why.Why == recovery.WhyHusk || why.Why == recovery.WhyLost) {
			s.blocked[i] = answerLost(st.address, why.Head)
		} else if s.h.o.Behind && st.effects.Changes() {
			s.blocked[i] = outcomeUnknown(st.address, "the store has lost records that were known to be durable, perhaps this one")
		}
	}
}

// blockedNow is why w must not start without a person; nil if it may.
func (r *run) blockedNow(w *work) *sdk.Error {
	s, st := r.s, r.step(w)
	if w.unit.among == nil {
		return r.blocked[w.step]
	}
	address := r.address(w.unit)
	in := cmp.Or(s.past.open[address], s.past.reshaped[st.address])
	switch {
	case w.in.Rerun:
		return nil
	case in != nil && st.effects == sdk.EffectsOnce:
		return outcomeUnknown(address, notSeen(address, in))
	case r.h.o.Behind && st.effects.Changes():
		return outcomeUnknown(address, "the store has lost records that were known to be durable, perhaps this one")
	}
	return nil
}

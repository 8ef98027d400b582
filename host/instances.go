package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// foresee evaluates before a run what it will evaluate: of every step with
// for_each that is not reused its instances, as far as what for_each names is
// known. The run that is returned is never driven; close frees it.
func (s *session) foresee() *run {
	r := s.h.newRun(s)
	for _, i := range s.f.graph.Order() {
		if s.f.steps[i].ForEach && s.plan.Step(i).Head == nil && s.plan.Step(i).Action != recovery.Untouched {
			r.foreseeInstances(i)
		}
	}
	return r
}

// foreseeInstances makes the instances of step i known, if they can be.
func (r *run) foreseeInstances(i int32) {
	if r.waitsFor(i) >= 0 {
		return
	}
	w := &work{unit: whole(i), ctx: r.ctx}
	if r.expand(w); w.fanout != nil {
		r.knows(w)
		r.setFan(w.fanout)
		r.foreseeInside(w.fanout)
	}
}

// foreseeInside is foreseeInstances for the collections in f.
func (r *run) foreseeInside(f *fanout) {
	for k := range f.below {
		u := f.unit(k)
		_, own := r.m.eachRefs(u.step, int32(f.depth))
		if f.attempts[k] < 0 || !r.foreseen(own, u) {
			continue
		}
		w := &work{unit: u, ctx: r.ctx}
		if r.expand(w); w.fanout != nil {
			r.setFan(w.fanout)
			r.foreseeInside(w.fanout)
		}
	}
}

// foreseen: what refs mean for u has ended, or its instances are known.
func (r *run) foreseen(refs []recovery.Ref, u unit) bool {
	for k := range refs {
		of := r.means(&refs[k], u)
		if !r.result(of).state.Ended() && (refs[k].Follows == 0 || r.fan(of) == nil) {
			return false
		}
	}
	return true
}

// waitsFor is the step that must end before the instances of step i are known;
// -1 if there is none.
func (r *run) waitsFor(i int32) int32 {
	_, own := r.m.eachRefs(i, 0)
	for _, ref := range own {
		if !r.results[ref.Step].state.Ended() && (ref.Follows == 0 || r.fanouts[ref.Step] == nil) {
			if next := r.waitsFor(ref.Step); ref.Follows > 0 && next >= 0 {
				return next
			}
			return ref.Step
		}
	}
	return -1
}

// instances says how many instances step i has, or what they wait for.
func (r *run) instances(ctx context.Context, i int32, ps *PlannedStep) {
	if !r.s.f.steps[i].ForEach {
		return
	}
	if names := r.s.narrowed[i]; len(names) > 0 && ps.Action != "reuse" {
		ps.Reason += ", only " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
	}
	if f := r.fanouts[i]; f != nil {
		r.instancesIn(f, ps)
		if ps.Action == "run" || ps.Action == "decide" {
			r.foreseeReuse(ctx, f, ps)
		}
		return
	}
	if hd := r.s.plan.Step(i).Head; hd != nil && hd.Facets != nil {
		if rec, err := r.h.o.Store.Record(ctx, r.h.o.Tenant, hd.Seq); err == nil && rec.Context.Instances != nil {
			n := rec.Context.Instances.Total()
			ps.Instances = &n
		}
		return
	}
	if u := r.waitsFor(i); u >= 0 {
		ps.KnownAfter = r.s.f.steps[u].address
	}
}

// instancesIn says how many instances f has, or what they wait for.
func (r *run) instancesIn(f *fanout, ps *PlannedStep) {
	n, unknown := f.total()
	switch {
	case unknown == nil:
		ps.Instances = &n
	case r.after(*unknown) != unknown.step:
		ps.KnownAfter = r.s.f.steps[r.after(*unknown)].address
	}
}

// foreseeReuse counts the instances of f that are taken as they are stored, as far as
// that is known. An instance is decided on as the run would.
func (r *run) foreseeReuse(ctx context.Context, f *fanout, ps *PlannedStep) {
	f.every(func(in *fanout) {
		if in.below != nil || in.recorded {
			return
		}
		for k := range in.in {
			u := in.unit(k)
			if in.attempts[k] < 0 || r.result(u).state.Ended() {
				continue
			}
			w := &work{unit: u, ctx: ctx, in: in.in[k], attempt: max(r.tried(u), 0) + 1}
			if r.foreseeInstance(w, &Explanation{}) && w.reused != nil && w.reused.Outcome == checkpoint.Succeeded {
				ps.Reused++
			}
		}
	})
	if ps.Reused > 0 && ps.Reason == neverRan {
		ps.Reason = notYet
	}
}

// explainInstance says of one instance what explain says of a step.
func (r *run) explainInstance(ctx context.Context, i int32, name string, e *Explanation) error {
	s, st := r.s, &r.s.f.steps[i]
	e.Step, e.Keys = hcl.InstanceAddress(st.address, name), Keys{Local: s.defs[i].Instance}
	all := e.PlannedStep
	e.PlannedStep = PlannedStep{Step: e.Step, Action: all.Action, Reason: all.Reason, Effects: all.Effects, Native: all.Native}
	if r.fanouts[i] == nil {
		r.foreseeInstances(i)
	}
	record := s.index.Head(st.address, name)
	w := &work{unit: whole(i), ctx: ctx, in: recovery.Instance{Name: name}}
	u, err := r.unitNamed(i, name)
	if err != nil {
		return err
	}
	switch f := r.fan(u); {
	case u.name() != name:
		e.Action, e.Reason = "decide", "its instances are not known before "+r.s.f.steps[r.after(u)].address+" has ended"
	case r.collects(u):
		w.unit, w.in = u, u.among.in[u.inst]
		if f != nil {
			r.instancesIn(f, &e.PlannedStep)
		}
	default:
		w.unit, w.in = u, u.among.in[u.inst]
		w.attempt = max(r.tried(u), 0) + 1
		e.Keys.Local = checkpoint.Numbered(s.defs[i].Instance, w.in.Occurrence)
		if known := r.foreseeInstance(w, e); known && w.reused != nil {
			record = w.reused
		}
		e.Keys.Plan, e.Keys.Content = w.key, w.content
	}
	if err := s.explainRecord(ctx, e, record); err != nil {
		return err
	}
	s.explainLineage(e, r.refs(w))
	if e.Record != nil && u.name() == name {
		s.explainChanges(e, i, r.parts(w), r.refs(w), w.lineage)
	}
	return nil
}

// unitNamed is the instance of step i of a name, or the last one on the way to it
// whose instances are not known.
func (r *run) unitNamed(i int32, name string) (unit, error) {
	u := whole(i)
	for u.name() != name {
		f := r.fan(u)
		if f == nil {
			break
		}
		next := hcl.FirstKeys(name, f.depth)
		k := slices.IndexFunc(f.in, func(in recovery.Instance) bool { return in.Name == next })
		if k < 0 {
			return u, r.s.unknownInstance(i, next, f)
		}
		u = f.unit(k)
	}
	return u, nil
}

// after is the step that must end before the instances of u are known.
func (r *run) after(u unit) int32 {
	_, own := r.m.eachRefs(u.step, int32(u.depth()))
	for k := range own {
		if of := r.means(&own[k], u); !r.result(of).state.Ended() {
			if next := r.after(of); own[k].Follows > 0 && next != of.step {
				return next
			}
			return of.step
		}
	}
	return u.step
}

// foreseeInstance decides w as the run would, if all that it names is known.
func (r *run) foreseeInstance(w *work, e *Explanation) (known bool) {
	s, i := r.s, w.step
	if _, skipped := r.above(w.unit); skipped {
		e.Action, e.Reason = "skip", r.skipReason(w.unit, nil)
		return true
	}
	for _, ref := range s.f.graph.AllRefs(i) {
		if !r.results[ref.Step].state.Ended() {
			e.Action, e.Reason = "decide", "unknown until "+s.f.steps[ref.Step].address+": reused if what it gives this instance is the same"
			return false
		}
	}
	switch {
	case r.decide(w):
		e.Action, e.Reason = "run", w.reason
	case w.err != nil && w.err.Code == CodeOutcomeUnknown:
		e.Action, e.Reason = "blocked", w.err.Message
	case w.err != nil:
		e.Action, e.Reason = "run", "fails: "+w.err.Message
	case w.end == endSkipped:
		e.Action, e.Reason = "skip", r.skipReason(w.unit, w)
	case w.reused != nil:
		h := w.reused
		e.Action, e.Reason, e.Checkpoint, e.Saved, e.Tokens = "reuse", "unchanged", h.ID, h.Took, h.Tokens
		if h.Step != s.f.steps[i].address || h.Instance != w.in.Name {
			e.Reason = "moved from " + hcl.InstanceAddress(h.Step, h.Instance)
		}
	}
	return true
}

// loopAddress is the address of loop n of step i, from 1: the step's own, or that of
// the sub-workflow around it that is a loop.
func (s *session) loopAddress(i int32, n int) string {
	address := s.f.steps[i].address
	if parts := strings.SplitAfterN(address, hcl.AllInstances, n+1); len(parts) > n {
		return strings.TrimSuffix(strings.Join(parts[:n], ""), hcl.AllInstances)
	}
	return address
}

// unknownInstance says that f of step i has no instance of a name, which has the keys
// of as many loops as f is in.
func (s *session) unknownInstance(i int32, name string, f *fanout) error {
	loop := s.loopAddress(i, f.depth)
	names := make([]string, len(f.in))
	for k := range f.in {
		names[k] = hcl.InstanceAddress(loop, f.in[k].Name)
	}
	have := "it has none"
	if n := len(names); n > 0 {
		have = fmt.Sprintf("it has %d, %s to %s", n, names[0], names[n-1])
	}
	return &UsageError{fmt.Sprintf("%s has no instance %s; %s.%s", loop, name, have, hcl.DidYouMean(hcl.InstanceAddress(loop, name), names))}
}

// explainRecord takes the record into e, and what of it can be read back.
func (s *session) explainRecord(ctx context.Context, e *Explanation, hd *checkpoint.Head) error {
	if hd == nil {
		return nil
	}
	rec, err := s.h.o.Store.Record(ctx, s.h.o.Tenant, hd.Seq)
	if err != nil {
		if !lost(err) {
			return &storeError{err}
		}
		rec = &checkpoint.Record{Head: *hd} // what made it is lost
	}
	e.Record, e.HasData = rec, hd.HasData() && !s.options.Lost[hd.Data.Seq]
	return nil
}

// explainLineage compares what refs name with what the record was made from.
func (s *session) explainLineage(e *Explanation, refs []recovery.Ref) {
	was := map[string]sdk.Digest{}
	if e.Record != nil {
		for _, u := range e.Record.Context.Upstream {
			was[u.Step+" "+u.Facet.String()] = u.Digest
		}
	}
	for _, r := range refs {
		x := ExplainedFacet{Step: s.f.steps[r.Step].address, Facet: r.Facet, Action: s.action(r.Step)}
		x.Record = was[x.Step+" "+x.Facet.String()]
		if hd := s.plan.Step(r.Step).Head; hd != nil {
			x.Now = hd.Facet(r.Facet)
		}
		e.Lineage = append(e.Lineage, x)
	}
}

// explainChanges names the differences between the record and now.
func (s *session) explainChanges(e *Explanation, i int32, parts []checkpoint.NamedDigest, refs []recovery.Ref, lineage []sdk.Digest) {
	e.Changes = append(e.Changes, recovery.Changes(&e.Record.Context, parts, s.upstream(refs, lineage))...)
	a := s.f.artifacts[s.f.steps[i].Plugin]
	if c := e.Record.Context; c.Artifact != a.Digest {
		e.Changes = append([]recovery.Change{{Part: "plugin " + e.Plugin, Old: c.Artifact.String(), New: a.Digest.String()}}, e.Changes...)
	}
}

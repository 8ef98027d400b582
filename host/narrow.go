package host

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
)

// narrow finds the steps of which only some instances are to end: those that are
// targets by name, or were asked for besides, and above them what such an instance
// names of the same place. Of every other step that is needed all are.
func (s *session) narrow(targets map[int32]map[string]bool) {
	names := map[int32]map[string]bool{}
	need := func(i int32, some map[string]bool) {
		was, twice := names[i]
		switch {
		case some == nil || twice && was == nil:
			names[i] = nil
		case !twice:
			names[i] = maps.Clone(some)
		default:
			maps.Copy(was, some)
		}
	}
	for i, some := range targets {
		need(i, some)
	}
	for _, i := range s.options.Rerun {
		need(i, s.reruns[i])
	}
	for i, answers := range s.given {
		some := map[string]bool{}
		for name := range answers {
			some[name] = true
		}
		need(i, some)
	}
	g := s.f.graph
	for _, i := range slices.Backward(g.Order()) {
		some, needed := names[i]
		if !needed {
			continue
		}
		refs := g.AllRefs(i)
		for k := range refs {
			need(refs[k].Step, namedAbove(&refs[k], some))
		}
	}
	maps.DeleteFunc(names, func(_ int32, some map[string]bool) bool { return some == nil })
	s.narrowed = names
}

// namedAbove are the instances that those named of a step name by r; nil is all.
func namedAbove(r *recovery.Ref, names map[string]bool) map[string]bool {
	out := map[string]bool{}
	for name := range names {
		keys := hcl.InstanceKeys(name)
		above := keys[:min(len(keys), int(r.Shared))]
		if r.Follows > 0 && len(keys) >= int(r.Follows) {
			above = append(slices.Clip(above), keys[r.Follows-1])
		}
		if len(above) == 0 {
			return nil
		}
		out[strings.Join(above, ",")] = true
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// namedBelow are the instances of a step that name those by r, or all in which they
// are; nil is all.
func namedBelow(r *recovery.Ref, names map[string]bool) map[string]bool {
	n := int(r.Shared)
	if r.Follows == r.Shared+1 {
		n++
	}
	out := map[string]bool{}
	for name := range names {
		below := hcl.FirstKeys(name, n)
		if n == 0 {
			return nil
		}
		out[below] = true
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// wanted are the names of the instances of step i that something names.
func (s *session) wanted(i int32) []string {
	names := map[string]bool{}
	maps.Copy(names, s.reruns[i])
	maps.Copy(names, s.narrowed[i])
	for name := range s.given[i] {
		names[name] = true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// unknown reports a name that is none of f's, as a *UsageError.
func (s *session) unknown(i int32, f *fanout) error {
	wanted := s.wanted(i)
	if len(wanted) == 0 {
		return nil
	}
	known := make(map[string]bool, len(f.in))
	for k := range f.in {
		known[f.in[k].Name] = true
	}
	for _, name := range wanted {
		if around := f.of.name(); around != "" && (around == name || !hcl.InstanceIn(around, name)) {
			continue // it is in another collection
		}
		if name = hcl.FirstKeys(name, f.depth); !known[name] {
			return s.unknownInstance(i, name, f)
		}
	}
	return nil
}

// unknownIn is unknown for the collections in f that could not be made, because of
// such a name perhaps.
func (r *run) unknownIn(i int32, f *fanout) error {
	for k := range f.below {
		u := f.unit(k)
		if f.below[k] != nil || f.recorded || f.attempts[k] < 0 {
			continue
		}
		if _, own := r.m.eachRefs(i, int32(f.depth)); !r.foreseen(own, u) {
			continue
		}
		if in := r.elements(&work{unit: u, ctx: r.ctx}); in != nil {
			if err := r.s.unknown(i, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNames reports instances that do not exist, as far as they are known before
// anything runs.
func (s *session) checkNames() error {
	var r *run
	for _, i := range s.f.graph.Order() {
		if len(s.wanted(i)) == 0 {
			continue
		}
		if r == nil {
			r = s.foresee()
			defer r.close()
		}
		f := r.fanouts[i]
		switch hd := s.plan.Step(i).Head; {
		case f != nil:
		case hd != nil && s.plan.Step(i).Action == recovery.Take && hd.Outcome == checkpoint.Succeeded:
			f, _ = r.recordedFan(i, hd) // what cannot be read is told when it is needed
		case hd == nil && r.waitsFor(i) < 0:
			f = r.elements(&work{unit: whole(i), ctx: r.ctx})
		}
		if f == nil {
			continue
		}
		var err error
		f.every(func(f *fanout) { err = cmp.Or(err, s.unknown(i, f), r.unknownIn(i, f)) })
		if err != nil {
			return err
		}
	}
	return nil
}

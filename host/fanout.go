package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// unit is a step (among is nil) or an instance in a collection.
type unit struct {
	step, inst int32
	among      *fanout
}

// whole is the unit of a step.
func whole(step int32) unit { return unit{step: step, inst: -1} }

// depth is of how many loops a unit has the key.
func (u unit) depth() int {
	if u.among == nil {
		return 0
	}
	return u.among.depth
}

// around is the unit at a depth that u is in.
func (u unit) around(depth int) unit {
	for u.depth() > depth {
		u = u.among.of
	}
	return u
}

// name is that of an instance, "" of a step.
func (u unit) name() string {
	if u.among == nil {
		return ""
	}
	return u.among.in[u.inst].Name
}

// fanout is the instances of a step with for_each, or of one of its instances where
// loops stand in loops, in the order of the collection. The loop makes it known
// before any worker gets an instance; after that its slices keep their length, and an
// element is written when its instance has ended, before anybody who reads it is
// started.
type fanout struct {
	of       unit // what has these instances
	depth    int  // of these
	list     bool
	recorded bool                // read from the record of the whole, which stands for them
	each     []hcl.Each          // Value is nil where it is the output of the instance that is followed
	follows  *recovery.Ref       // that instance
	in       []recovery.Instance // Each of paired ones is only known when they are decided
	when     []bool              // `when` was evaluated and true
	results  []result
	below    []*fanout                     // their own instances, once they are known; nil where they have none
	attempts []int32                       // that earlier continuations of the run have made, followsSkipped or notAsked
	left     int                           // of those that were not asked for
	crowd    crowd                         // of a step: what is counted instead of it
	above    map[string]hcl.InstanceResult // by name: those of the stored collection it follows that were skipped
}

func (f *fanout) unit(k int) unit { return unit{f.of.step, int32(k), f} }

// room makes room for n instances.
func (f *fanout) room(n int, collections bool) {
	f.when, f.results, f.attempts = make([]bool, n), make([]result, n), make([]int32, n)
	if collections {
		f.below = make([]*fanout, n)
	}
}

// every calls do for f and all collections in it.
func (f *fanout) every(do func(*fanout)) {
	do(f)
	for _, in := range f.below {
		if in != nil {
			in.every(do)
		}
	}
}

// total is how many instances there are that run. Where they are not known, it is
// of whom the first such are.
func (f *fanout) total() (n int, unknown *unit) {
	f.every(func(in *fanout) {
		if in.below == nil {
			n += len(in.results)
			return
		}
		for k := range in.below {
			if in.below[k] == nil && !in.recorded && in.attempts[k] >= 0 && unknown == nil {
				u := in.unit(k)
				unknown = &u
			}
		}
	})
	return n, unknown
}

// crowd counts the instances of a step that run. A collection whose instances are not
// known is one of them, until they are.
type crowd struct {
	n    int
	left int // were not asked for
}

// size is what the step counts for: without any instance, for itself.
func (c crowd) size() int {
	if c == (crowd{}) {
		return 1
	}
	return c.n
}

// maxCollection bounds in bytes what the outputs of one step's instances are
// together. They are held in memory as one value.
const maxCollection = 256 << 20

// unit is what a node of the machine stands for. For the loop.
func (r *run) unit(node int32) unit {
	if n := int32(len(r.results)); node >= n {
		return r.units[node-n]
	}
	return whole(node)
}

// fan is the instances of u; nil while they are not known, and without any.
func (r *run) fan(u unit) *fanout {
	switch {
	case u.among == nil:
		return r.fanouts[u.step]
	case u.among.below == nil:
		return nil
	}
	return u.among.below[u.inst]
}

// setFan makes f the instances of what it is of.
func (r *run) setFan(f *fanout) {
	if u := f.of; u.among == nil {
		r.fanouts[u.step] = f
	} else {
		u.among.below[u.inst] = f
	}
}

// collects: u has instances, it does not run itself.
func (r *run) collects(u unit) bool { return u.depth() < len(r.s.f.steps[u.step].Loops) }

func (r *run) result(u unit) *result {
	if u.among == nil {
		return &r.results[u.step]
	}
	return &u.among.results[u.inst]
}

func (r *run) met(u unit) *bool {
	if u.among == nil {
		return &r.conditionMet[u.step]
	}
	return &u.among.when[u.inst]
}

func (r *run) step(w *work) *flowStep { return &r.s.f.steps[w.step] }

func (r *run) address(u unit) string {
	return hcl.InstanceAddress(r.s.f.steps[u.step].address, u.name())
}

// above is the stored instance that u, or what it is in, follows, if that was skipped.
func (r *run) above(u unit) (hcl.InstanceResult, bool) {
	if u.among == nil {
		return hcl.InstanceResult{}, false
	}
	in, ok := u.among.above[u.name()]
	return in, ok
}

// counted: u is one of the units that Counts counts.
func (r *run) counted(u unit) bool {
	f := r.fan(u)
	return f == nil || f.recorded || u.among == nil && f.crowd == crowd{}
}

// tried is how many attempts of u the run has made before this continuation.
func (r *run) tried(u unit) int32 {
	if u.among == nil {
		return r.s.policies[u.step].Attempt
	}
	return u.among.attempts[u.inst]
}

// lead is the reference to what the instances of a collection follow; nil if they
// follow nothing.
func (r *run) lead(u unit) *recovery.Ref {
	_, own := r.m.eachRefs(u.step, int32(u.depth()))
	for k := range own {
		if own[k].Follows > 0 {
			return &own[k]
		}
	}
	return nil
}

// elements evaluates for_each, or takes over the keys of the collection whose
// instances this one's are paired with; nil where w has failed.
func (r *run) elements(w *work) *fanout {
	s, st := r.s, r.step(w)
	f := &fanout{of: w.unit, depth: w.depth() + 1}
	name := func(key json.RawMessage) string { return hcl.InnerName(w.name(), hcl.InstanceName(key)) }
	if f.follows = r.lead(w.unit); f.follows != nil && r.fan(r.means(f.follows, w.unit)) != nil {
		src := r.fan(r.means(f.follows, w.unit))
		f.list, f.each, f.in = src.list, make([]hcl.Each, len(src.each)), make([]recovery.Instance, len(src.each))
		for k := range src.each {
			f.each[k].Key = src.each[k].Key
			f.in[k] = recovery.Instance{Name: name(src.each[k].Key), Occurrence: src.in[k].Occurrence, Paired: true}
		}
		return f
	}
	each, err := r.each(w.unit)
	if err != nil {
		w.fatal = err
		return nil
	}
	up := r.upstream(w.unit)
	x, diags := s.eval.ForEach(int(w.step), w.depth(), hcl.Scope{Up: up.result, Each: each})
	if !w.evaluated(up, diags) {
		return nil
	}
	f.list, f.each, f.in = x.List, x.Each, make([]recovery.Instance, len(x.Each))
	seen := make(map[equals]int, len(x.Each))
	for k := range x.Each {
		in := recovery.Instance{Name: name(x.Each[k].Key), Paired: len(st.beside) > 0 || len(st.Loops) > 1}
		f.in[k] = in
		if f.depth < len(st.Loops) {
			continue // a collection, whose instances are what has keys
		}
		d := equals{}
		if d.named, diags = s.eval.EachIdentity(int(w.step), append(slices.Clip(each), x.Each[k])); !w.evaluated(nil, diags) {
			return nil
		}
		if in.Paired { // what it is given differs by more than what it names of each
			d.value = sdk.Sum(x.Each[k].Value)
		} else {
			in.Each = d.named
		}
		in.Occurrence = seen[d]
		seen[d]++
		f.in[k] = in
	}
	return f
}

// equals tells the elements of a collection apart as far as they count for the keys of
// their instances; those that are equal are numbered. In other collections there may be
// equal ones: what they compute is the same then, and what they do to the world is
// counted by claims.
type equals struct{ named, value sdk.Digest }

// expand makes the instances of a step, or of an instance that has some.
func (r *run) expand(w *work) {
	s, st := r.s, r.step(w)
	f := r.elements(w)
	if f == nil {
		return
	}
	if err := s.unknown(w.step, f); err != nil {
		w.failed(&sdk.Error{Class: sdk.ClassInvalidInput, Code: codeNoInstance, Message: err.Error()})
		return
	}
	if f.follows != nil {
		if of := r.means(f.follows, w.unit); r.fan(of) == nil {
			var err error
			if f.above, err = r.skippedIn(of); err != nil {
				w.fatal = err
				return
			}
		}
	}
	if len(st.beside) > 0 && w.unit.among == nil {
		if err := r.beside(w); err != nil {
			w.fatal = err
			return
		}
	}
	f.room(len(f.each), f.depth < len(st.Loops))
	for k := range f.in {
		f.in[k].Rerun, f.in[k].Set = s.rerun(w.step, f.in[k].Name), s.answer(w.step, f.in[k].Name) != nil
		f.attempts[k] = s.tries[hcl.InstanceAddress(st.address, f.in[k].Name)]
		if _, skipped := f.above[f.in[k].Name]; skipped {
			f.attempts[k] = followsSkipped
		}
		if names := s.narrowed[w.step]; names != nil && !touches(names, f.in[k].Name) {
			f.attempts[k] = notAsked
			f.left++
		}
	}
	w.fanout, w.end = f, endExpanded
}

// skippedIn lists by name the instances of a collection taken from a record
// that were skipped. In its output they are null, as an answer may be too.
func (r *run) skippedIn(of unit) (map[string]hcl.InstanceResult, error) {
	up := &upstream{r: r, of: of}
	up.name(&recovery.Ref{Step: of.step, Facet: sdk.FacetStatus, Shared: int32(of.depth())})
	res := up.result(int(of.step))
	if up.err != nil {
		return nil, up.err
	}
	var skipped map[string]hcl.InstanceResult
	for k, in := range res.Instances {
		if in.State != sdk.Skipped {
			continue
		}
		name := strconv.Itoa(k)
		if !res.List {
			name = hcl.InstanceName(in.Key)
		}
		if skipped == nil {
			skipped = map[string]hcl.InstanceResult{}
		}
		skipped[hcl.InnerName(of.name(), name)] = in
	}
	return skipped, nil
}

// evaluated takes what an evaluation has ended with; false says that it is no
// use to go on.
func (w *work) evaluated(up *upstream, diags hcl.Diagnostics) bool {
	switch {
	case up != nil && up.err != nil:
		w.fatal = up.err
	case diags.HasErrors():
		w.failed(inputError(diags))
	default:
		return true
	}
	return false
}

// expanded makes the instances of a step known, and gives the attempts already
// made of each.
func (r *run) expanded(w *work) []int32 {
	f := w.fanout
	r.setFan(f)
	for k := range f.each {
		r.units = append(r.units, f.unit(k))
	}
	all, before := r.fanouts[f.of.step], 1
	if f == all {
		f.crowd = crowd{len(f.each) - f.left, f.left}
	} else {
		before = all.crowd.size()
		all.crowd.n += len(f.each) - f.left - 1
		all.crowd.left += f.left
	}
	r.counts.Total += all.crowd.size() - before
	r.add(Event{Type: EventExpanded, Step: r.address(w.unit), Instances: len(f.each)})
	return f.attempts
}

// each is what an instance is made for, by loop; nil for a step.
func (r *run) each(u unit) ([]hcl.Each, error) {
	each := make([]hcl.Each, u.depth())
	for ; u.among != nil; u = u.among.of {
		e := u.among.each[u.inst]
		if e.Value == nil {
			of := r.means(u.among.follows, u)
			v, err := r.outputs.get(of, r.result(of).data)
			if err != nil {
				return nil, &storeError{fmt.Errorf("output of %s: %w", r.address(of), err)}
			}
			e.Value = v
		}
		each[u.among.depth-1] = e
	}
	return each, nil
}

// gather puts the outputs of a collection's instances together and makes the record
// of the whole. Those that were skipped are null.
func (r *run) gather(w *work) {
	s, st, f := r.s, r.step(w), r.fan(w.unit)
	if w.unit.among != nil {
		w.in = w.unit.among.in[w.inst]
	}
	w.lineage = r.lineage(r.refs(w), w.unit)
	w.key = s.collectionKey(w)
	size := 2
	for k := range f.results {
		size += int(f.results[k].data.Size) + len(f.each[k].Key) + 2
	}
	if size > maxCollection {
		w.failed(&sdk.Error{Class: sdk.ClassResourceExhausted, Code: "collection_too_large", Message: fmt.Sprintf(
			"the outputs of the %d instances of %s have %d MiB together, at most %d MiB can be one value; let the step answer with less, or with blobs",
			len(f.results), st.address, size>>20, maxCollection>>20)})
		return
	}
	out := make([]byte, 0, size)
	brackets, sep := "{}", byte('{')
	if f.list {
		brackets, sep = "[]", '['
	}
	degraded, operator := false, false
	var expires time.Time
	for k := range f.results {
		res := &f.results[k]
		out, sep = append(out, sep), ','
		if !f.list {
			out = append(append(out, f.each[k].Key...), ':')
		}
		if res.state == sdk.Succeeded {
			data, err := r.outputs.get(f.unit(k), res.data)
			if err != nil {
				w.fatal = &storeError{fmt.Errorf("output of %s: %w", r.address(f.unit(k)), err)}
				return
			}
			out = append(out, data...)
		} else {
			out = append(out, "null"...)
		}
		degraded, operator = degraded || res.degraded || res.err != nil, operator || res.operator
		if !res.expires.IsZero() && (expires.IsZero() || res.expires.Before(expires)) {
			expires = res.expires
		}
		w.took += res.took
		w.tokens += res.tokens
		w.cost = w.cost.Plus(res.cost)
	}
	if len(f.results) == 0 {
		out = append(out, brackets...)
	} else {
		out = append(out, brackets[1])
	}
	var err error
	if w.sanitized, err = r.sanitizer.Sanitize(out, nil); err != nil {
		w.failed(r.text(sdk.AsError(err)))
		return
	}
	w.end = endResult
	w.record = r.newRecord(w)
	w.record.Degraded, w.record.Operator, w.record.Expires = degraded, operator, expires
	w.record.Context.Instances, w.record.Facets = f.info(), f.facets()
}

// collectionKey is the plan key of a collection that is put together. That of the
// instances of one instance is never looked up: what it is made of is, or the whole.
func (s *session) collectionKey(w *work) checkpoint.Fingerprint {
	if w.unit.among == nil {
		return checkpoint.PlanKey(s.defs[w.step].Local, sdk.Digest{}, w.lineage)
	}
	h := checkpoint.NewHasher("engine/inner/1")
	h.Fingerprint(s.defs[w.step].Instance)
	h.String(w.name())
	return checkpoint.PlanKey(h.Sum(), sdk.Digest{}, w.lineage)
}

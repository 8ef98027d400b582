package host

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// unit is a step (inst -1) or one instance of it.
type unit struct{ step, inst int32 }

// fanout is a step with for_each in a run: its instances in the order of the
// collection. The loop makes it known before any worker gets an instance;
// after that its slices keep their length, and an element is written when its
// instance has ended, before anybody who reads it is started.
type fanout struct {
	list     bool
	recorded bool                // read from the record of the whole, which stands for them
	each     []hcl.Each          // Value is nil where it is the output of the instance that is followed
	in       []recovery.Instance // Each of paired ones is only known when they are decided
	when     []bool              // `when` was evaluated and true
	results  []result
	attempts []int32                       // that earlier continuations of the run have made, followsSkipped or notAsked
	left     int                           // of those that were not asked for
	above    map[string]hcl.InstanceResult // by name: those of the stored collection it follows that were skipped
}

// maxCollection bounds in bytes what the outputs of one step's instances are
// together. They are held in memory as one value.
const maxCollection = 256 << 20

// unit is what a node of the machine stands for. For the loop.
func (r *run) unit(node int32) unit {
	if n := int32(len(r.results)); node >= n {
		return r.units[node-n]
	}
	return unit{node, -1}
}

func (r *run) result(u unit) *result {
	if u.inst < 0 {
		return &r.results[u.step]
	}
	return &r.fanouts[u.step].results[u.inst]
}

func (r *run) met(u unit) *bool {
	if u.inst < 0 {
		return &r.conditionMet[u.step]
	}
	return &r.fanouts[u.step].when[u.inst]
}

func (r *run) step(w *work) *flowStep { return &r.s.f.steps[w.step] }

// instance is the name of an instance as it stands in brackets, "" for a step.
func (r *run) instance(u unit) string {
	if u.inst < 0 {
		return ""
	}
	return r.fanouts[u.step].in[u.inst].Name
}

func (r *run) address(u unit) string {
	return hcl.InstanceAddress(r.s.f.steps[u.step].address, r.instance(u))
}

// above is the stored instance that u follows, if that was skipped.
func (r *run) above(u unit) (hcl.InstanceResult, bool) {
	if u.inst < 0 {
		return hcl.InstanceResult{}, false
	}
	in, ok := r.fanouts[u.step].above[r.instance(u)]
	return in, ok
}

// counted: u is one of the units that Counts counts.
func (r *run) counted(u unit) bool {
	f := r.fanouts[u.step]
	return u.inst >= 0 || f == nil || f.recorded || len(f.each) == 0
}

// tried is how many attempts of u the run has made before this continuation.
func (r *run) tried(u unit) int32 {
	if u.inst < 0 {
		return r.s.policies[u.step].Attempt
	}
	return r.fanouts[u.step].attempts[u.inst]
}

// elements evaluates for_each, or takes over the keys of the step whose
// instances this one's are paired with; nil where w has failed.
func (r *run) elements(w *work) *fanout {
	s, st := r.s, r.step(w)
	f := &fanout{}
	if lead := st.follows; lead >= 0 && r.fanouts[lead] != nil {
		src := r.fanouts[lead]
		f.list, f.each, f.in = src.list, make([]hcl.Each, len(src.each)), make([]recovery.Instance, len(src.each))
		for k := range src.each {
			f.each[k].Key = src.each[k].Key
			f.in[k] = recovery.Instance{Name: src.in[k].Name, Occurrence: src.in[k].Occurrence, Paired: true}
		}
	} else {
		up := r.upstream(w.unit)
		x, diags := s.eval.ForEach(int(w.step), hcl.Scope{Up: up.result})
		if !w.evaluated(up, diags) {
			return nil
		}
		f.list, f.each, f.in = x.List, x.Each, make([]recovery.Instance, len(x.Each))
		seen := make(map[sdk.Digest]int, len(x.Each))
		for k := range x.Each {
			d, diags := s.eval.EachIdentity(int(w.step), &x.Each[k])
			if !w.evaluated(nil, diags) {
				return nil
			}
			f.in[k] = recovery.Instance{Name: hcl.InstanceName(x.Each[k].Key), Each: d, Paired: len(st.beside) > 0}
			if f.in[k].Paired { // what it is given differs by more than each
				d = sdk.Sum(x.Each[k].Value)
			}
			f.in[k].Occurrence = seen[d]
			seen[d]++
		}
	}
	return f
}

// expand makes the instances of a step.
func (r *run) expand(w *work) {
	s, st := r.s, r.step(w)
	f := r.elements(w)
	if f == nil {
		return
	}
	if err := s.unknown(w.step, f); err != nil {
		w.failed(&sdk.Error{Class: sdk.ClassInvalidInput, Code: "no_such_instance", Message: err.Error()})
		return
	}
	if st.follows >= 0 && r.fanouts[st.follows] == nil {
		var err error
		if f.above, err = r.skippedIn(st.follows); err != nil {
			w.fatal = err
			return
		}
	}
	if len(st.beside) > 0 {
		if err := r.beside(w); err != nil {
			w.fatal = err
			return
		}
	}
	n := len(f.each)
	f.when, f.results, f.attempts = make([]bool, n), make([]result, n), make([]int32, n)
	for k := range f.in {
		f.in[k].Rerun, f.in[k].Set = s.rerun(w.step, f.in[k].Name), s.answer(w.step, f.in[k].Name) != nil
		f.attempts[k] = s.tries[hcl.InstanceAddress(st.address, f.in[k].Name)]
		if _, skipped := f.above[f.in[k].Name]; skipped {
			f.attempts[k] = followsSkipped
		}
		if names := s.narrowed[w.step]; names != nil && !names[f.in[k].Name] {
			f.attempts[k] = notAsked
			f.left++
		}
	}
	w.fanout, w.end = f, endExpanded
}

// skippedIn lists by name the instances of a collection taken from a record
// that were skipped. In its output they are null, as an answer may be too.
func (r *run) skippedIn(step int32) (map[string]hcl.InstanceResult, error) {
	up := &upstream{r: r, of: unit{-1, -1}}
	up.name(step, sdk.FacetStatus, false)
	res := up.result(int(step))
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
		skipped[name] = in
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
	r.fanouts[w.step] = w.fanout
	for k := range w.fanout.each {
		r.units = append(r.units, unit{w.step, int32(k)})
	}
	if n := len(w.fanout.each); n > 0 { // they are counted instead of the step
		r.counts.Total += n - w.fanout.left - 1
	}
	r.add(Event{Type: EventExpanded, Step: r.address(w.unit), Instances: len(w.fanout.each)})
	return w.fanout.attempts
}

// each is what an instance is made for; nil for a step.
func (r *run) each(u unit) (*hcl.Each, error) {
	if u.inst < 0 {
		return nil, nil
	}
	e := r.fanouts[u.step].each[u.inst]
	if e.Value == nil {
		of := unit{r.s.f.steps[u.step].follows, u.inst}
		v, err := r.outputs.get(of, r.result(of).data)
		if err != nil {
			return nil, &storeError{fmt.Errorf("output of %s: %w", r.address(of), err)}
		}
		e.Value = v
	}
	return &e, nil
}

// gather puts the outputs of a step's instances together and makes the record
// of the whole. Those that were skipped are null.
func (r *run) gather(w *work) {
	s, st, f := r.s, r.step(w), r.fanouts[w.step]
	refs := s.f.graph.Refs(w.step)
	w.lineage = r.lineage(refs, -1)
	w.key = checkpoint.PlanKey(s.defs[w.step].Local, sdk.Digest{}, w.lineage)
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
			data, err := r.outputs.get(unit{w.step, int32(k)}, res.data)
			if err != nil {
				w.fatal = &storeError{fmt.Errorf("output of %s: %w", r.address(unit{w.step, int32(k)}), err)}
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

// info is how the instances have ended, in the stored form.
func (f *fanout) info() *checkpoint.Instances {
	info := &checkpoint.Instances{List: f.list, Count: len(f.results)}
	for k := range f.results {
		if res := &f.results[k]; res.state != sdk.Succeeded || res.attempts != 1 || res.degraded {
			info.Others = append(info.Others, checkpoint.Instance{Index: k, State: res.state, Attempts: int(res.attempts), Degraded: res.degraded, Error: res.err})
		}
	}
	return info
}

// instances is how they have ended, as expressions see it.
func (f *fanout) instances() []hcl.InstanceResult {
	rs := make([]hcl.InstanceResult, len(f.results))
	for k := range rs {
		res := &f.results[k]
		rs[k].Key = f.each[k].Key
		rs[k].State, rs[k].Error, rs[k].Attempts, rs[k].Degraded = res.state, res.err, int(res.attempts), res.degraded
	}
	return rs
}

// storedInstances is how the instances of a recorded step have ended, as
// expressions see it.
func storedInstances(info *checkpoint.Instances, keys []json.RawMessage) []hcl.InstanceResult {
	rs := make([]hcl.InstanceResult, info.Count)
	for k := range rs {
		rs[k].State, rs[k].Attempts = sdk.Succeeded, 1
		if k < len(keys) {
			rs[k].Key = keys[k]
		}
	}
	for _, o := range info.Others {
		if o.Index < len(rs) {
			r := &rs[o.Index]
			r.State, r.Attempts, r.Degraded, r.Error = o.State, o.Attempts, o.Degraded, o.Error
		}
	}
	return rs
}

// facets digests the facets of a collection beside its output: each is a
// collection itself.
func (f *fanout) facets() *checkpoint.Facets {
	rs := f.instances()
	fs := new(checkpoint.Facets)
	for i := range fs {
		facet := sdk.FacetStatus + sdk.Facet(i)
		h := checkpoint.NewHasher("engine/facets/1")
		h.Int(boolInt(f.list))
		for k := range rs {
			if !f.list {
				h.Bytes(rs[k].Key)
			}
			switch facet {
			case sdk.FacetDegraded:
				h.Int(boolInt(rs[k].Degraded))
			default:
				h.Digest(checkpoint.FacetDigest(facet, rs[k].State, rs[k].Error, rs[k].Attempts))
			}
		}
		fs[i] = sdk.Digest(h.Sum())
	}
	return fs
}

// failedFacets are the facets of a step that was skipped after a failure.
func failedFacets(err *sdk.Error, attempts int) *checkpoint.Facets {
	fs := new(checkpoint.Facets)
	for f := range fs {
		fs[f] = checkpoint.FacetDigest(sdk.FacetStatus+sdk.Facet(f), sdk.Skipped, err, attempts)
	}
	return fs
}

// CodeInstancesFailed is the code of the error of a step of whose instances some
// failed. Each of them has failed under its own name.
const CodeInstancesFailed = "instances_failed"

// instancesFailed is the error of a step of whose instances some failed.
func (r *run) instancesFailed(step int32) *sdk.Error {
	f := r.fanouts[step]
	failed, first := 0, -1
	for k := range f.results {
		if f.results[k].state == sdk.Failed {
			if failed++; first < 0 {
				first = k
			}
		}
	}
	if first < 0 {
		return nil
	}
	e := *f.results[first].err
	which := ": "
	if failed > 1 {
		which = ", the first is "
	}
	e.Code = CodeInstancesFailed
	e.Message = strconv.Itoa(failed) + " of " + strconv.Itoa(len(f.results)) + " instances failed" + which + r.address(unit{step, int32(first)}) + ": " + e.Message
	return &e
}

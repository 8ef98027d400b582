package host

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// lineage digests the facets that refs name, for a unit; what they name has ended.
func (r *run) lineage(refs []recovery.Ref, of unit) []sdk.Digest {
	ds := make([]sdk.Digest, len(refs))
	for k := range refs {
		ds[k] = r.result(r.means(&refs[k], of)).facet(refs[k].Facet)
	}
	return ds
}

// means is the unit that a reference means for another one: the machine's rule
// (named in fan.go).
func (r *run) means(ref *recovery.Ref, of unit) unit {
	u := whole(ref.Step)
	if of.among == nil || !ref.Paired() {
		return u
	}
	for l := range int(ref.Shared) + 1 {
		d := l + 1 // the depth at which of has the key
		if l == int(ref.Shared) {
			d = int(ref.Follows)
		}
		f := r.fan(u)
		if f == nil || d == 0 || d > of.depth() {
			break
		}
		k := int(of.around(d).inst)
		if k >= len(f.each) {
			break
		}
		u = f.unit(k)
	}
	return u
}

// upstream answers the evaluator's questions about the steps above one step.
type upstream struct {
	r     *run
	of    unit
	named map[int32]naming
	err   error // the store failed
}

// naming is how a step is named: by its output, by other facets, and which of its
// instances is meant.
type naming struct {
	output, others bool
	ref            recovery.Ref
}

func (r *run) upstream(of unit) *upstream {
	u := &upstream{r: r, of: of}
	refs := r.s.f.graph.AllRefs(of.step)
	for k := range refs {
		u.name(&refs[k])
	}
	return u
}

func (u *upstream) name(ref *recovery.Ref) {
	if u.named == nil {
		u.named = map[int32]naming{}
	}
	n := u.named[ref.Step]
	n.output = n.output || ref.Facet == sdk.FacetOutput
	n.others = n.others || ref.Facet != sdk.FacetOutput
	n.ref = *ref // all references to one step mean the same
	u.named[ref.Step] = n
}

// result is an hcl.Upstream.
func (u *upstream) result(step int) hcl.Result {
	r, n, of := u.r, u.named[int32(step)], whole(int32(step))
	if n.ref.Step == of.step {
		of = r.means(&n.ref, u.of)
	}
	res := r.result(of)
	out := hcl.Result{State: res.state, Error: res.err, Attempts: int(res.attempts), Degraded: res.degraded}
	if res.state == sdk.Succeeded && n.output {
		data, err := r.outputs.get(of, res.data)
		if err != nil {
			u.err = &storeError{fmt.Errorf("output of %s: %w", r.address(of), err)}
		}
		out.Output = data
	}
	if n.others {
		u.others(of, res, &out)
	}
	return out
}

// others fills in what a head does not hold of the facets beside the output.
func (u *upstream) others(of unit, res *result, out *hcl.Result) {
	r := u.r
	if f := r.fan(of).seen(res.state); f != nil && res.state.Ended() {
		out.Instances, out.List = f.instances(), f.list
		if u.named[of.step].output && res.state != sdk.Succeeded {
			u.answers(f, out.Instances)
		}
		return
	}
	if res.facets == nil || res.err != nil {
		return
	}
	rec, err := r.h.o.Store.Record(r.outputs.ctx, r.h.o.Tenant, res.seq)
	if err != nil {
		u.err = &storeError{fmt.Errorf("record of %s: %w", r.address(of), err)}
		return
	}
	out.Error = rec.Context.Error
	info := rec.Context.Instances
	if info == nil {
		return
	}
	var data json.RawMessage // the elements say only what their keys are
	if !info.List || slices.ContainsFunc(info.Others, func(o checkpoint.Instance) bool { return o.Instances != nil }) {
		data, err = r.outputs.get(of, res.data)
	}
	if err == nil {
		var f *fanout
		if f, err = stored(of, info, data, nil); err == nil {
			out.Instances, out.List = f.instances(), f.list
			return
		}
	}
	u.err = &storeError{fmt.Errorf("output of %s: %w", r.address(of), err)}
}

// answers fills in what the instances of a collection have answered that has no
// answer itself: the outputs of a sub-workflow are made of one each.
func (u *upstream) answers(f *fanout, out []hcl.InstanceResult) {
	for k := range f.results {
		if f.results[k].state != sdk.Succeeded {
			if in := f.inner(k); in != nil {
				u.answers(in, out[k].Instances)
			}
			continue
		}
		of := f.unit(k)
		data, err := u.r.outputs.get(of, f.results[k].data)
		if err != nil {
			u.err = &storeError{fmt.Errorf("output of %s: %w", u.r.address(of), err)}
			return
		}
		out[k].Output = data
	}
}

// sink turns what a step reports into events.
type sink struct {
	r       *run
	step    string
	attempt int
	emitted *operation.RedactorStream
}

var _ operation.Sink = (*sink)(nil)

func (k *sink) Log(level, message string, fields map[string]any) {
	k.r.note(Event{Type: EventLog, Step: k.step, Attempt: k.attempt, Level: level, Message: k.r.sanitizer.Text(message), Fields: fields})
}

func (k *sink) Progress(fraction float64, message string) {
	k.r.offer(Event{Type: EventProgress, Step: k.step, Attempt: k.attempt, Fraction: fraction, Message: k.r.sanitizer.Text(message)})
}

func (k *sink) Emit(chunk string) {
	k.emit([]byte(chunk), false)
}

// end gives on what was held back because a secret might have begun there.
func (k *sink) end() { k.emit(nil, true) }

func (k *sink) emit(chunk []byte, last bool) {
	if text := string(k.emitted.Next(chunk, last)); text != "" {
		k.r.offer(Event{Type: EventEmit, Step: k.step, Attempt: k.attempt, Message: k.r.sanitizer.Text(text)})
	}
}

func (k *sink) Usage(sdk.Usage) {} // read from the operations when the attempt has ended

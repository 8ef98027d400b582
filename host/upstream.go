package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// lineage digests the facets that refs name, for instance of (-1: the step);
// what they name has ended.
func (r *run) lineage(refs []recovery.Ref, of int32) []sdk.Digest {
	ds := make([]sdk.Digest, len(refs))
	for k := range refs {
		ds[k] = r.named(&refs[k], of).facet(refs[k].Facet)
	}
	return ds
}

// named is the result that a reference means for instance of: the machine's
// rule (named in fan.go).
func (r *run) named(ref *recovery.Ref, of int32) *result {
	if f := r.fanouts[ref.Step]; ref.Paired && of >= 0 && f != nil {
		return &f.results[of]
	}
	return &r.results[ref.Step]
}

// upstream answers the evaluator's questions about the steps above one step.
type upstream struct {
	r     *run
	of    unit
	named map[int32]naming
	err   error // the store failed
}

// naming is how a step is named: by its output, by other facets, by that of
// the instance of the same place.
type naming struct{ output, others, paired bool }

func (r *run) upstream(of unit) *upstream {
	u := &upstream{r: r, of: of}
	for _, ref := range r.s.f.graph.AllRefs(of.step) {
		u.name(ref.Step, ref.Facet, ref.Paired)
	}
	return u
}

func (u *upstream) name(step int32, f sdk.Facet, paired bool) {
	if u.named == nil {
		u.named = map[int32]naming{}
	}
	n := u.named[step]
	n.output = n.output || f == sdk.FacetOutput
	n.others = n.others || f != sdk.FacetOutput
	n.paired = n.paired || paired
	u.named[step] = n
}

// result is an hcl.Upstream.
func (u *upstream) result(step int) hcl.Result {
	r, n, of := u.r, u.named[int32(step)], unit{int32(step), -1}
	if n.paired && u.of.inst >= 0 && r.fanouts[step] != nil {
		of.inst = u.of.inst
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
	if f := r.fanouts[of.step]; f != nil && of.inst < 0 && res.state.Ended() {
		out.Instances, out.List = f.instances(), f.list
		if u.named[of.step].output && res.state != sdk.Succeeded {
			u.answers(of.step, f, out)
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
	var keys []json.RawMessage
	if !info.List {
		data, err := r.outputs.get(of, res.data)
		if err != nil {
			u.err = &storeError{fmt.Errorf("output of %s: %w", r.address(of), err)}
			return
		}
		keys = objectKeys(data)
	}
	out.Instances, out.List = storedInstances(info, keys), info.List
}

// answers fills in what the instances of a collection have answered that has no
// answer itself: the outputs of a sub-workflow are made of one each.
func (u *upstream) answers(step int32, f *fanout, out *hcl.Result) {
	for k := range f.results {
		if f.results[k].state != sdk.Succeeded {
			continue
		}
		of := unit{step, int32(k)}
		data, err := u.r.outputs.get(of, f.results[k].data)
		if err != nil {
			u.err = &storeError{fmt.Errorf("output of %s: %w", u.r.address(of), err)}
			return
		}
		out.Instances[k].Output = data
	}
}

// objectKeys lists the keys of an object in their order.
func objectKeys(data json.RawMessage) (keys []json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, _ := sdk.Marshal(name)
		keys = append(keys, key)
	}
	return keys
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

package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// In a sub-workflow with for_each an instance of one step names that of the same
// key of the steps beside it. Where such a step has ended by its record, its
// instances are read from that.

// recorded holds the instances that were read from records, by step. It is safe
// for concurrent use.
type recorded struct {
	mu   sync.Mutex
	fans map[int32]*fanout
}

// beside reads the instances of the steps beside that of w that the plan takes.
func (r *run) beside(w *work) error {
	for _, step := range r.step(w).beside {
		if hd := r.s.plan.Step(step).Head; hd != nil && hd.Outcome == checkpoint.Succeeded {
			if err := r.take(w, step, hd); err != nil {
				return err
			}
		}
	}
	return nil
}

// take reads the instances of a step whose record is taken.
func (r *run) take(w *work, step int32, hd *checkpoint.Head) error {
	r.recorded.mu.Lock()
	defer r.recorded.mu.Unlock()
	f := r.recorded.fans[step]
	if f == nil {
		var err error
		if f, err = r.recordedFan(step, hd); err != nil {
			return err
		}
		if r.recorded.fans == nil {
			r.recorded.fans = map[int32]*fanout{}
		}
		r.recorded.fans[step] = f
	}
	w.known = append(w.known, f)
	return nil
}

func (r *run) recordedFan(step int32, hd *checkpoint.Head) (*fanout, error) {
	address := r.s.f.steps[step].address
	rec, err := r.h.o.Store.Record(r.ctx, r.h.o.Tenant, hd.Seq)
	if err != nil {
		return nil, &storeError{fmt.Errorf("record of %s: %w", address, err)}
	}
	data, err := r.outputs.get(whole(step), hd.Data)
	if err != nil {
		return nil, &storeError{fmt.Errorf("output of %s: %w", address, err)}
	}
	info := rec.Context.Instances
	if info == nil {
		return nil, &storeError{fmt.Errorf("record of %s does not say how its instances ended", address)}
	}
	f, err := stored(whole(step), info, data, func(u unit, part json.RawMessage, res *result) (err error) {
		if res.output, err = checkpoint.ValueDigest(part); err == nil {
			r.outputs.put(u, part, false)
		}
		return err
	})
	if err != nil {
		return nil, &storeError{fmt.Errorf("output of %s: %w", address, err)}
	}
	return f, nil
}

// stored is the instances of u as its record says that they have ended. data is the
// output of u, of which see is given the part of each that succeeded; see may be nil.
func stored(u unit, info *checkpoint.Instances, data json.RawMessage, see func(unit, json.RawMessage, *result) error) (*fanout, error) {
	var keys []json.RawMessage
	parts := make([]json.RawMessage, info.Count)
	var err error
	switch {
	case len(data) == 0: // what is asked for is not in it
	case info.List:
		err = json.Unmarshal(data, &parts)
	default:
		var members map[string]json.RawMessage
		err = json.Unmarshal(data, &members)
		parts = parts[:0]
		for _, key := range objectKeys(data) {
			var name string
			if err == nil {
				err = json.Unmarshal(key, &name)
			}
			keys, parts = append(keys, key), append(parts, members[name])
		}
	}
	if err == nil && (len(parts) != info.Count || !info.List && len(keys) != info.Count) {
		err = fmt.Errorf("it has %d elements for %d instances", len(parts), info.Count)
	}
	if err != nil {
		return nil, err
	}
	f := &fanout{of: u, depth: u.depth() + 1, list: info.List, recorded: true, each: make([]hcl.Each, info.Count), in: make([]recovery.Instance, info.Count)}
	f.room(info.Count, false)
	for k := range parts {
		f.results[k] = result{state: sdk.Succeeded, attempts: 1}
		if f.each[k].Key = json.RawMessage(strconv.Itoa(k)); !info.List {
			f.each[k].Key = keys[k]
		}
		f.in[k].Name = hcl.InnerName(u.name(), hcl.InstanceName(f.each[k].Key))
	}
	for _, o := range info.Others {
		if o.Index >= len(parts) {
			continue
		}
		f.results[o.Index] = result{state: o.State, err: o.Error, attempts: int32(o.Attempts), degraded: o.Degraded}
		if o.Instances != nil {
			if f.below == nil {
				f.below = make([]*fanout, info.Count)
			}
			if f.below[o.Index], err = stored(f.unit(o.Index), o.Instances, parts[o.Index], see); err != nil {
				return nil, err
			}
			f.results[o.Index].facets = f.below[o.Index].facets()
		}
	}
	for k := range parts {
		if see != nil && f.results[k].state == sdk.Succeeded {
			if err := see(f.unit(k), parts[k], &f.results[k]); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
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

// knows makes the instances that w has read from records known, and says how they
// ended. For the loop.
func (r *run) knows(w *work) (fans []*knownFan) {
	for _, f := range w.known {
		if r.fanouts[f.of.step] == nil {
			r.fanouts[f.of.step] = f
			fans = append(fans, r.enter(f))
		}
	}
	return fans
}

// enter gives the machine's next nodes to the instances in f.
func (r *run) enter(f *fanout) *knownFan {
	fan := &knownFan{step: f.of.step, states: make([]sdk.State, len(f.results))}
	for k := range f.results {
		r.units = append(r.units, f.unit(k))
		fan.states[k] = f.results[k].state
	}
	for k := range f.below {
		if fan.below == nil {
			fan.below = make([]*knownFan, len(f.below))
		}
		if f.below[k] != nil {
			fan.below[k] = r.enter(f.below[k])
		}
	}
	return fan
}

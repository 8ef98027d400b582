package host

import (
	"encoding/json"
	"fmt"
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

// knownFanout is the instances of a step, read from its record.
type knownFanout struct {
	step int32
	f    *fanout
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
	w.known = append(w.known, knownFanout{step, f})
	return nil
}

func (r *run) recordedFan(step int32, hd *checkpoint.Head) (*fanout, error) {
	address := r.s.f.steps[step].address
	rec, err := r.h.o.Store.Record(r.ctx, r.h.o.Tenant, hd.Seq)
	if err != nil {
		return nil, &storeError{fmt.Errorf("record of %s: %w", address, err)}
	}
	data, err := r.outputs.get(unit{step, -1}, hd.Data)
	if err != nil {
		return nil, &storeError{fmt.Errorf("output of %s: %w", address, err)}
	}
	info := rec.Context.Instances
	if info == nil {
		return nil, &storeError{fmt.Errorf("record of %s does not say how its instances ended", address)}
	}
	f := &fanout{list: info.List, recorded: true}
	var parts []json.RawMessage
	var keys []json.RawMessage
	if info.List {
		err = json.Unmarshal(data, &parts)
	} else {
		var members map[string]json.RawMessage
		err = json.Unmarshal(data, &members)
		for _, key := range objectKeys(data) {
			var name string
			if err = json.Unmarshal(key, &name); err == nil {
				keys, parts = append(keys, key), append(parts, members[name])
			}
		}
	}
	if err == nil && len(parts) != info.Count {
		err = fmt.Errorf("it has %d elements for %d instances", len(parts), info.Count)
	}
	if err != nil {
		return nil, &storeError{fmt.Errorf("output of %s: %w", address, err)}
	}
	f.results = make([]result, len(parts))
	f.each = make([]hcl.Each, len(parts))
	f.in = make([]recovery.Instance, len(parts))
	f.when, f.attempts = make([]bool, len(parts)), make([]int32, len(parts))
	for k, in := range storedInstances(info, keys) {
		if f.each[k].Key = in.Key; info.List {
			f.each[k].Key = json.RawMessage(strconv.Itoa(k))
		}
		f.in[k].Name = hcl.InstanceName(f.each[k].Key)
		res := result{state: in.State, err: in.Error, attempts: int32(in.Attempts), degraded: in.Degraded}
		if in.State == sdk.Succeeded {
			if res.output, err = checkpoint.ValueDigest(parts[k]); err != nil {
				return nil, &storeError{fmt.Errorf("output of %s: %w", hcl.InstanceAddress(address, f.in[k].Name), err)}
			}
			r.outputs.put(unit{step, int32(k)}, parts[k], false)
		}
		f.results[k] = res
	}
	return f, nil
}

// knows makes the instances that w has read from records known, and says how they
// ended. For the loop.
func (r *run) knows(w *work) (fans []knownFan) {
	for _, known := range w.known {
		if r.fanouts[known.step] != nil {
			continue
		}
		r.fanouts[known.step] = known.f
		fan := knownFan{step: known.step, states: make([]sdk.State, len(known.f.results))}
		for k := range known.f.results {
			r.units = append(r.units, unit{known.step, int32(k)})
			fan.states[k] = known.f.results[k].state
		}
		fans = append(fans, fan)
	}
	return fans
}

package host

import (
	"cmp"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
)

// claims are the effects of earlier runs that the instances of this one stand on. An
// effect that has happened once stands for one instance: two that do the same, in
// collections that do not know of each other, are two effects. Instances of one
// collection are numbered, and have no need of it. It is safe for concurrent use.
type claims struct {
	mu sync.Mutex
	by map[checkpoint.Seq]string // by the record that has the answer: the address of the instance
}

// take gives the answer of h to address, if no other has it.
func (c *claims) take(h *checkpoint.Head, address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by, has := c.by[h.Data.Seq]; has && by != address {
		return false
	}
	if c.by == nil {
		c.by = map[checkpoint.Seq]string{}
	}
	c.by[h.Data.Seq] = address
	return true
}

// claimed: w is an instance whose record may be wanted by one of another collection.
func (r *run) claimed(w *work) bool {
	return w.unit.among != nil && w.in.Paired && r.step(w).effects.Changes()
}

func (r *run) own(w *work, h *checkpoint.Head) bool {
	return h.Step == r.step(w).address && h.Instance == w.in.Name
}

// resolve looks w up. The record of another instance is left to what looks for equal
// computations: it is committed under the name of w then, so that it stands for w from
// then on.
func (r *run) resolve(w *work) recovery.Resolution {
	if w.unit.among == nil {
		return r.s.plan.Resolve(w.step, w.lineage)
	}
	res := r.s.plan.ResolveInstance(w.step, w.in, w.lineage)
	if h := res.Head; h == nil || !r.claimed(w) || r.own(w, h) && (h.Outcome != checkpoint.Succeeded || r.claims.take(h, r.address(w.unit))) {
		return res
	}
	return recovery.Resolution{Key: res.Key}
}

// equal is the record of an equal computation that w takes; nil if there is none. If
// that is an effect it is w's own, whatever number w had among equal instances, else
// one that no other has taken, of an instance that is gone before others.
func (r *run) equal(w *work) *checkpoint.Head {
	found := r.s.plan.ResolveContent(w.step, w.in.Name, w.content)
	if !r.claimed(w) {
		return found
	}
	address := r.address(w.unit)
	var others [2][]*checkpoint.Head // of instances that are gone, and that may be there
	for n := 0; ; n++ {
		hs := r.s.index.ContentHeads(w.numbered(n))
		if len(hs) == 0 && n > w.in.Occurrence {
			break
		}
		for _, h := range hs {
			switch {
			case !r.s.plan.Usable(w.step, h):
			case r.own(w, h):
				if r.claims.take(h, address) {
					return h
				}
			case h.Run == r.s.record.ID:
			case r.gone(w, h):
				others[0] = append(others[0], h)
			default:
				others[1] = append(others[1], h)
			}
		}
	}
	for _, hs := range others {
		slices.SortFunc(hs, func(a, b *checkpoint.Head) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, h := range hs {
			if r.claims.take(h, address) {
				return h
			}
		}
	}
	return nil
}

// gone reports whether the instance that made h is not there any more, as far as w can
// know: it is not among those that w, or what w is in, is one of. What has become of
// the collections beside these is a matter of time.
func (r *run) gone(w *work, h *checkpoint.Head) bool {
	if h.Step != r.step(w).address || len(hcl.InstanceKeys(h.Instance)) != w.depth() {
		return true
	}
	for d := 1; d <= w.depth(); d++ {
		if name := hcl.FirstKeys(h.Instance, d); name != hcl.FirstKeys(w.in.Name, d) {
			return !slices.ContainsFunc(w.unit.around(d).among.in, func(in recovery.Instance) bool { return in.Name == name })
		}
	}
	return false
}

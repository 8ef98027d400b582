package host

import (
	"cmp"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/recovery"
)

// claims are the effects of earlier runs that the instances of this one stand on. An
// effect that has happened once stands for one instance: two that do the same, in
// collections that do not know of each other, are two effects. It is safe for
// concurrent use.
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

// claim is found, the record to take for w, unless w is an instance with effects and
// found stands for another: then it is the oldest of the others, all under the same
// key, that stands for none, as the newest are those of instances that are still there.
// nil if there is none.
func (r *run) claim(w *work, found *checkpoint.Head, others []*checkpoint.Head) *checkpoint.Head {
	if found == nil || found.Outcome != checkpoint.Succeeded || w.unit.among == nil || !r.step(w).effects.Changes() {
		return found
	}
	address := r.address(w.unit)
	if r.claims.take(found, address) {
		return found
	}
	others = slices.SortedFunc(slices.Values(others), func(a, b *checkpoint.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, h := range others {
		if h.Run != r.s.record.ID && r.s.plan.Usable(w.step, h) && r.claims.take(h, address) {
			return h
		}
	}
	return nil
}

// resolve looks w up.
func (r *run) resolve(w *work) recovery.Resolution {
	if w.unit.among == nil {
		return r.s.plan.Resolve(w.step, w.lineage)
	}
	res := r.s.plan.ResolveInstance(w.step, w.in, w.lineage)
	if h := r.claim(w, res.Head, r.s.index.PlanHeads(res.Key)); h != res.Head {
		res = recovery.Resolution{Key: res.Key, Head: h}
	}
	return res
}

// renumbered is the record of the instance w itself, where that was made of the same
// and had another number among its equals. In loops in loops equal elements are
// numbered before it is known what their instances are given, so that an edit of one
// changes the numbers of others. nil if there is none.
func (r *run) renumbered(w *work) *checkpoint.Head {
	if w.unit.among == nil || !w.in.Paired {
		return nil
	}
	s := r.s
	h := s.plan.InstanceHead(w.step, w.in.Name)
	if h == nil || h.Local != s.local(w.step, w.in.Name) || !slices.Equal(h.Lineage, w.lineage) || !s.plan.Usable(w.step, h) {
		return nil
	}
	if salt, diags := s.eval.Salt(int(w.step), w.each); diags.HasErrors() || !salt.IsZero() {
		return nil // no record says which it was made with
	}
	rec, err := r.h.o.Store.Record(w.ctx, r.h.o.Tenant, h.Seq)
	switch {
	case err != nil && !lost(err):
		w.fatal = &storeError{err}
	case err == nil && rec.Context.Input == w.inputs:
		return h
	}
	return nil
}

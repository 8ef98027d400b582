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
// effect that has happened once stands for one instance: two that do the same are two
// effects. It is safe for concurrent use.
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

// others reports whether the answer of h, which may be nil, is that of another than
// address.
func (c *claims) others(h *checkpoint.Head, address string) bool {
	if h == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	by, has := c.by[h.Data.Seq]
	return has && by != address
}

// claimed: w is an instance whose record another may want.
func (r *run) claimed(w *work) bool {
	return w.unit.among != nil && r.step(w).effects.Changes()
}

func (r *run) own(w *work, h *checkpoint.Head) bool {
	return h.Step == r.step(w).address && h.Instance == w.in.Name
}

// resolve looks w up. The record of another instance is left to what looks for equal
// computations where that may be wanted by others: it is committed under the name of w
// then, so that it stands for w from then on. Equal instances that are numbered know
// theirs by the number.
func (r *run) resolve(w *work) recovery.Resolution {
	if w.unit.among == nil {
		return r.s.plan.Resolve(w.step, w.lineage)
	}
	res := r.s.plan.ResolveInstance(w.step, w.in, w.lineage)
	h := res.Head
	if h == nil || !r.claimed(w) || (!w.in.Paired || r.own(w, h)) && (h.Outcome != checkpoint.Succeeded || r.claims.take(h, r.address(w.unit))) {
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
	if !w.in.Paired && found != nil && r.claims.take(found, address) {
		return found
	}
	var others [2][]*checkpoint.Head // of instances that are gone, and that may be there
	for _, h := range r.sameEffect(w) {
		switch {
		case !r.s.plan.Usable(w.step, h):
		case r.own(w, h):
			if r.claims.take(h, address) {
				return h
			}
		case r.gone(w, h):
			others[0] = append(others[0], h)
		default:
			others[1] = append(others[1], h)
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

// sameEffect lists the records of what does the same as w, whatever its number is: of
// the chain of runs all, of others those whose numbers follow each other. Where equal
// instances are numbered, what each finds by its number is left to it.
func (r *run) sameEffect(w *work) []*checkpoint.Head {
	hs := slices.Clone(r.s.past.done[w.numbered(0)])
	for n := 0; ; n++ {
		more := r.s.index.ContentHeads(w.numbered(n))
		if len(more) == 0 && n > w.in.Occurrence {
			break
		}
		hs = append(hs, more...)
	}
	if len(hs) == 0 || w.in.Paired {
		return hs
	}
	theirs := map[checkpoint.Seq]bool{}
	for k := range w.unit.among.in {
		if x := &w.unit.among.in[k]; x.Each == w.in.Each {
			if h := r.byNumber(w, x); h != nil {
				theirs[h.Data.Seq] = true
			}
		}
	}
	return slices.DeleteFunc(hs, func(h *checkpoint.Head) bool { return theirs[h.Data.Seq] })
}

// byNumber is the record that x finds by its number, which does the same as w and is
// among the same instances; nil if it finds none, or is asked for anew.
func (r *run) byNumber(w *work, x *recovery.Instance) *checkpoint.Head {
	if x.Rerun || x.Set {
		return nil
	}
	if h := r.s.plan.ResolveInstance(w.step, *x, w.lineage).Head; h != nil && h.Outcome == checkpoint.Succeeded {
		return h
	}
	return r.s.plan.ResolveContent(w.step, x.Name, w.numbered(x.Occurrence))
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

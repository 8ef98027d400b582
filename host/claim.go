package host

import (
	"cmp"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// claims are the effects of earlier runs that the instances of this one stand on. An
// effect that has happened once stands for one instance: two that do the same are two
// effects. It is safe for concurrent use.
type claims struct {
	mu    sync.Mutex
	by    map[checkpoint.Seq]string // by the record that has the answer: the address of the instance
	same  map[doers]*sameEffect
	names map[*fanout]map[string]bool
}

// doers are those that do the same: by content key, that of the first of equals, and
// where they are numbered their collection and what they name of each.
type doers struct {
	content checkpoint.Fingerprint
	among   *fanout
	each    sdk.Digest
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

// has reports whether f has an instance of this name.
func (c *claims) has(f *fanout, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names[f]
	if names == nil {
		names = make(map[string]bool, len(f.in))
		for k := range f.in {
			names[f.in[k].Name] = true
		}
		if c.names == nil {
			c.names = map[*fanout]map[string]bool{}
		}
		c.names[f] = names
	}
	return names[name]
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
	var gone, there []*checkpoint.Head // of instances, as far as that is known
	for _, h := range r.sameEffect(w) {
		switch {
		case !r.s.plan.Usable(w.step, h) || r.claims.others(h, address):
		case r.own(w, h):
			if r.claims.take(h, address) {
				return h
			}
		case r.gone(w, h):
			gone = append(gone, h)
		default:
			there = append(there, h)
		}
	}
	for _, h := range append(gone, there...) {
		if r.claims.take(h, address) {
			return h
		}
	}
	return nil
}

// sameEffect is the records of what does the same.
type sameEffect struct {
	records []*checkpoint.Head
	theirs  map[checkpoint.Seq]bool // what the equal instances find by their numbers
	numbers int                     // up to here they were looked for
}

// sameEffect lists the records of what does the same as w, whatever its number is: of
// the chain of runs all, of others those whose numbers follow each other. Where equal
// instances are numbered, what each finds by its number is left to it.
func (r *run) sameEffect(w *work) []*checkpoint.Head {
	key := doers{content: w.numbered(0)}
	if !w.in.Paired {
		key.among, key.each = w.unit.among, w.in.Each
	}
	c := &r.claims
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.same[key]
	if same == nil {
		same = &sameEffect{}
		if c.same == nil {
			c.same = map[doers]*sameEffect{}
		}
		c.same[key] = same
		r.addRecords(same, w, r.s.past.done[key.content])
	}
	for ; ; same.numbers++ {
		more := r.s.index.ContentHeads(w.numbered(same.numbers))
		if len(more) == 0 && same.numbers > w.in.Occurrence {
			return same.records
		}
		r.addRecords(same, w, more)
	}
}

// addRecords adds to what does the same as w those of hs that are not left to others.
func (r *run) addRecords(same *sameEffect, w *work, hs []*checkpoint.Head) {
	if len(hs) == 0 {
		return
	}
	if same.theirs == nil {
		same.theirs = map[checkpoint.Seq]bool{}
		for k := range w.unit.among.in {
			if x := &w.unit.among.in[k]; !w.in.Paired && x.Each == w.in.Each {
				if h := r.byNumber(w, x); h != nil {
					same.theirs[h.Data.Seq] = true
				}
			}
		}
	}
	records := slices.Clone(same.records) // who has the list reads on
	for _, h := range hs {
		if !same.theirs[h.Data.Seq] {
			records = append(records, h)
		}
	}
	slices.SortStableFunc(records, func(a, b *checkpoint.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	same.records = records
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
			return !r.claims.has(w.unit.around(d).among, name)
		}
	}
	return false
}

package checkpoint

import (
	"iter"
)

// Index is a loaded snapshot of one workflow's heads. It is immutable after
// the store has filled it and safe for concurrent reading.
type Index struct {
	heads   map[instanceKey]*Head
	plan    map[Fingerprint][]*Head // one per step instance, the newest
	content map[Fingerprint][]*Head
}

type instanceKey struct{ step, instance string }

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{heads: map[instanceKey]*Head{}, plan: map[Fingerprint][]*Head{}, content: map[Fingerprint][]*Head{}}
}

// Add puts a head into the index, in the order of Seq: of two heads of one step
// instance (under one key) the one with the larger Seq stays. For stores and
// tests; the head belongs to the index afterwards.
func (x *Index) Add(h *Head) {
	k := instanceKey{h.Step, h.Instance}
	if old := x.heads[k]; old == nil || old.Seq <= h.Seq {
		x.heads[k] = h
	}
	keep(x.plan, h.Plan, h)
	if !h.Content.IsZero() && h.HasData() {
		keep(x.content, h.Content, h)
	}
}

func keep(m map[Fingerprint][]*Head, f Fingerprint, h *Head) {
	hs := m[f]
	for i, o := range hs {
		if o.Step == h.Step && o.Instance == h.Instance {
			if o.Seq <= h.Seq {
				hs[i] = h
			}
			return
		}
	}
	m[f] = append(hs, h)
}

// Head returns the newest head of a step instance, or nil.
func (x *Index) Head(step, instance string) *Head { return x.heads[instanceKey{step, instance}] }

// Heads are the heads of all step instances, the newest under each key, in no
// order.
func (x *Index) Heads() iter.Seq[*Head] {
	return func(yield func(*Head) bool) {
		for _, hs := range x.plan {
			for _, h := range hs {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// Answer returns the newest output of a step instance that can be read back,
// under whatever keys, or nil. Unless it is the newest head, all are searched.
func (x *Index) Answer(step, instance string) *Head {
	best := x.Head(step, instance)
	if best == nil || best.Outcome == Succeeded && best.HasData() {
		return best
	}
	best = nil
	for _, hs := range x.content {
		for _, h := range hs {
			if h.Step == step && h.Instance == instance && h.Outcome == Succeeded && (best == nil || best.Seq < h.Seq) {
				best = h
			}
		}
	}
	return best
}

// Len is the number of step instances that have a head.
func (x *Index) Len() int { return len(x.heads) }

// ByPlan looks a plan key up for a step instance of run: its own newest head,
// else the newest of another step instance that was not committed by this run
// (otherwise the order in which steps happen to finish would change the
// result). nil if there is none.
func (x *Index) ByPlan(f Fingerprint, step, instance string, run RunID) *Head {
	return pick(x.plan[f], step, instance, run)
}

// ByContent looks a content key up, with the rule of ByPlan. Husks are not
// found: they hold nothing to reuse.
func (x *Index) ByContent(f Fingerprint, step, instance string, run RunID) *Head {
	if f.IsZero() {
		return nil
	}
	return pick(x.content[f], step, instance, run)
}

// PlanHeads lists the newest head of every step instance under a plan key, and
// ContentHeads those with data under a content key. The slices are the index's.
func (x *Index) PlanHeads(f Fingerprint) []*Head { return x.plan[f] }

// ContentHeads is explained at PlanHeads.
func (x *Index) ContentHeads(f Fingerprint) []*Head { return x.content[f] }

func pick(hs []*Head, step, instance string, run RunID) *Head {
	var best *Head
	for _, h := range hs {
		if h.Step == step && h.Instance == instance {
			return h
		}
		if h.Run != run && (best == nil || best.Seq < h.Seq) {
			best = h
		}
	}
	return best
}

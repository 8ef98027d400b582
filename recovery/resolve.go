package recovery

import (
	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Resolution is the decision for one step whose upstreams have ended.
type Resolution struct {
	Key  checkpoint.Fingerprint // its plan key
	Head *checkpoint.Head       // the record to take; nil: none under the plan key
	// Judge says that Head may be taken if its output holds before the
	// postconditions as they are now.
	Judge bool
	// Run says that the step runs whatever its content key says: it is due,
	// was asked for, or its output was not kept. Why is the reason.
	Run bool
	Why Why
	Due *checkpoint.Head // with Run, of an instance: the record that was found and does not count
}

// Resolve decides a needed step by its plan key. lineage holds the digests of
// the facets in Refs(i), in that order. When neither Head nor Run is set, the
// caller evaluates the input and asks ResolveContent.
func (p *Plan) Resolve(i int32, lineage []sdk.Digest) Resolution {
	def := &p.defs[i]
	r := Resolution{Key: checkpoint.PlanKey(def.Local, sdk.Digest{}, lineage)}
	if m := &p.marks[i]; m.action == Run {
		r.Run, r.Why = true, m.why
		return r
	}
	h := p.byPlan(i, r.Key)
	if h == nil {
		return r
	}
	if why, due := p.due(def, h); due {
		r.Run, r.Why = true, why
	} else if !p.hasData(h) {
		r.Run, r.Why = true, WhyHusk
	} else {
		r.Head, r.Judge = h, judges(def, h)
	}
	return r
}

// Instance is one instance of a step with for_each, or with the zero value the
// step itself.
type Instance struct {
	Name       string     // its key as it stands in brackets: 0, "k"
	Each       sdk.Digest // of the parts of `each` that it names
	Occurrence int        // among the instances with equal Each
	// Paired says that it follows an instance of another step, so that equal
	// ones were not numbered.
	Paired bool
	Rerun  bool // it was asked for
	Set    bool // a person gives its output
}

// ResolveInstance is Resolve for an instance. lineage holds the digests of
// Refs(i) without EachRefs(i): what the collection is made of does not count,
// only what it gave this instance.
func (p *Plan) ResolveInstance(i int32, in Instance, lineage []sdk.Digest) Resolution {
	def := &p.defs[i]
	r := Resolution{Key: checkpoint.PlanKey(checkpoint.Numbered(def.Instance, in.Occurrence), in.Each, lineage)}
	switch {
	case in.Set:
		r.Run, r.Why = true, WhySet
		return r
	case in.Rerun:
		r.Run, r.Why = true, WhyRerun
		return r
	}
	h := p.index.ByPlan(r.Key, p.g.addresses[i], in.Name, p.o.Run)
	if h == nil && !in.Paired {
		h = p.moved(i, p.index.PlanHeads(r.Key))
	}
	if h == nil {
		h = p.renamed(p.index.PlanHeads(r.Key))
	}
	if h == nil {
		return r
	}
	if why, due := p.due(def, h); due {
		r.Run, r.Why, r.Due = true, why, h
	} else if !p.hasData(h) {
		r.Run, r.Why, r.Due = true, WhyHusk, h
	} else {
		r.Head, r.Judge = h, judges(def, h)
	}
	return r
}

// Usable reports whether h, a record under a key of step i, holds an answer that may
// be taken, or judged anew.
func (p *Plan) Usable(i int32, h *checkpoint.Head) bool {
	return p.Counts(i, h) && p.hasData(h)
}

// Counts is Usable, whether or not the output is still kept.
func (p *Plan) Counts(i int32, h *checkpoint.Head) bool {
	_, due := p.due(&p.defs[i], h)
	return h.Outcome == checkpoint.Succeeded && !due
}

// moved is the newest record that an instance of step i made under another
// place. It may be of this very run, which was continued after its collection
// was edited: equal instances are numbered, so no other has this key.
func (p *Plan) moved(i int32, hs []*checkpoint.Head) (newest *checkpoint.Head) {
	for _, h := range hs {
		if h.Step == p.g.addresses[i] && (newest == nil || newest.Seq < h.Seq) {
			newest = h
		}
	}
	return newest
}

// InstanceHead is the newest record of an instance; nil if there is none.
func (p *Plan) InstanceHead(i int32, name string) *checkpoint.Head {
	return p.index.Head(p.g.addresses[i], name)
}

// LastAnswer is the newest answer of an instance, or with "" of the step, that
// can be read back, whatever it was made from; nil if there is none.
func (p *Plan) LastAnswer(i int32, name string) *checkpoint.Head {
	h := p.index.Answer(p.g.addresses[i], name)
	if h == nil || !p.hasData(h) {
		return nil
	}
	return h
}

// WhenKey is the plan key of a step, or of the instance with this digest of
// `each`, that its `when` skips. lineage holds the digests of WhenRefs(i).
func (p *Plan) WhenKey(i int32, each sdk.Digest, lineage []sdk.Digest) checkpoint.Fingerprint {
	return checkpoint.PlanKey(p.defs[i].When, each, lineage)
}

// ResolveContent decides a step, or the instance of this name, by its content
// key, after Resolve found nothing: the record of an equal computation, or nil.
// Taking it is committed like a result.
func (p *Plan) ResolveContent(i int32, name string, content checkpoint.Fingerprint) *checkpoint.Head {
	h := p.index.ByContent(content, p.g.addresses[i], name, p.o.Run)
	if h == nil {
		h = p.renamed(p.index.ContentHeads(content))
	}
	if h == nil || !p.hasData(h) {
		return nil
	}
	if _, due := p.due(&p.defs[i], h); due {
		return nil
	}
	return h
}

// Change is one difference between two identities.
type Change struct {
	Part string // "input.prompt", "var.topic", "plugin", "output of step.a"
	Old  string // digest before; "" = was not there
	New  string // digest now; "" = is not there any more
}

// Changes names the differences between the context of a record and the
// identity and lineage a step has now, identity first, each in the order of
// the new one. upstream may be nil while it is not known.
func Changes(old *checkpoint.Context, identity []checkpoint.NamedDigest, upstream []checkpoint.UpstreamDigest) []Change {
	cs := compare(old.Identity, identity)
	if upstream == nil {
		return cs
	}
	return append(cs, compare(facets(old.Upstream), facets(upstream))...)
}

func facets(us []checkpoint.UpstreamDigest) []checkpoint.NamedDigest {
	ns := make([]checkpoint.NamedDigest, 0, len(us))
	seen := map[string]bool{}
	for _, u := range us {
		if n := u.Facet.String() + " of " + u.Step; !seen[n] {
			seen[n] = true
			ns = append(ns, checkpoint.NamedDigest{Name: n, Digest: u.Digest.String()})
		}
	}
	return ns
}

func compare(old, now []checkpoint.NamedDigest) []Change {
	was := make(map[string]string, len(old))
	for _, o := range old {
		was[o.Name] = o.Digest
	}
	var cs []Change
	for _, n := range now {
		if o := was[n.Name]; o != n.Digest {
			cs = append(cs, Change{Part: n.Name, Old: o, New: n.Digest})
		}
		delete(was, n.Name)
	}
	for _, o := range old {
		if _, gone := was[o.Name]; gone {
			cs = append(cs, Change{Part: o.Name, Old: o.Digest})
		}
	}
	return cs
}

package recovery

import (
	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Resolution is the decision for one step whose upstreams have ended.
type Resolution struct {
	Key  checkpoint.Fingerprint // its plan key
	Head *checkpoint.Head       // the record to take; nil: none under the plan key
	// Run says that the step runs whatever its content key says: it is due,
	// was asked for, or its output was not kept. Why is the reason.
	Run bool
	Why Why
}

// Resolve decides a needed step by its plan key. lineage holds the digests of
// the facets in Refs(i), in that order. When neither Head nor Run is set, the
// caller evaluates the input and asks ResolveContent.
func (p *Plan) Resolve(i int32, lineage []sdk.Digest) Resolution {
	def := &p.defs[i]
	r := Resolution{Key: checkpoint.PlanKey(def.Local, sdk.Digest{}, lineage)}
	if s := &p.Steps[i]; s.Action == Run {
		r.Run, r.Why = true, s.Reason.Why
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
		r.Head = h
	}
	return r
}

// WhenKey is the plan key of a step that its `when` skips. lineage holds the
// digests of WhenRefs(i).
func (p *Plan) WhenKey(i int32, lineage []sdk.Digest) checkpoint.Fingerprint {
	return checkpoint.PlanKey(p.defs[i].When, sdk.Digest{}, lineage)
}

// ResolveContent decides a step by its content key, after Resolve found
// nothing: the record of an equal computation, or nil. Taking it is committed
// like a result.
func (p *Plan) ResolveContent(i int32, content checkpoint.Fingerprint) *checkpoint.Head {
	h := p.index.ByContent(content, p.g.addresses[i], "", p.o.Run)
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

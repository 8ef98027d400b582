package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// why says in words why step i is planned as it is, as a difference where there
// is one. lineage holds the digests of its facets when they are known, now gives its
// input as it may be shown, nil if that is not known; nil where nobody asks.
func (s *session) why(ctx context.Context, i int32, lineage []sdk.Digest, now func() json.RawMessage) string {
	p := s.plan.Step(i)
	h := p.Reason.Head
	switch p.Reason.Why {
	case recovery.WhyCurrent:
		if h != nil && h.Outcome == checkpoint.SkippedFailure {
			return s.failedBefore(i, "")
		}
		return cmp.Or(supplied(h), "unchanged")
	case recovery.WhyRenamed:
		return "renamed from " + h.Step
	case recovery.WhyNeverRan:
		return s.neverSucceeded(i)
	case recovery.WhyChanged:
		if lineage == nil {
			lineage = s.plannedLineage(i)
		}
		return s.changed(ctx, i, h, s.parts[i], s.f.graph.Refs(i), lineage, now)
	case recovery.WhyUpstream:
		switch {
		case h == nil:
			return s.neverSucceeded(i)
		case lineage != nil:
			return s.changed(ctx, i, h, s.parts[i], s.f.graph.Refs(i), lineage, now)
		}
		return "unknown until " + s.f.steps[p.Reason.Upstream].address + ": reused if its answer is the same"
	case recovery.WhyExpired, recovery.WhyNever, recovery.WhyOtherRun, recovery.WhyDegraded, recovery.WhyOperator, recovery.WhyFailed, recovery.WhyWithdrawn, recovery.WhyHusk, recovery.WhyLost:
		return s.due(p.Reason.Why, h)
	case recovery.WhyJudge:
		return "its postconditions changed: reused if its stored answer holds"
	case recovery.WhyRerun:
		return onlyOf(s.reruns[i], s.askedFor(i))
	case recovery.WhySet:
		return onlyOf(s.given[i], "its answer is given with --set")
	case recovery.WhySkipped:
		if p.Reason.Upstream >= 0 {
			return "upstream_skipped: " + s.f.steps[p.Reason.Upstream].address + " was skipped"
		}
		return "condition: when is false"
	}
	return ""
}

// onlyOf adds to a reason which instances it is for. Without names, or with the one
// of a step without for_each, it is for all there is.
func onlyOf[V any](names map[string]V, reason string) string {
	const most = 3
	var only []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == "" {
			return reason
		}
		only = append(only, "["+name+"]")
	}
	switch n := len(only); {
	case n == 0:
		return reason
	case n > most:
		only = append(only[:most], fmt.Sprintf("%d more", n-most))
	}
	return reason + " for " + strings.Join(only, ", ") + " alone"
}

// why says in words why a worker runs w, which res says was not found.
func (r *run) why(w *work, res *recovery.Resolution) string {
	s := r.s
	if w.unit.among == nil && res.Why != recovery.WhyLost {
		return s.why(w.ctx, w.step, w.lineage, func() json.RawMessage { return r.shown(w) })
	}
	if res.Run && res.Why == recovery.WhyRerun {
		return s.askedFor(w.step)
	}
	switch h := s.plan.InstanceHead(w.step, w.in.Name); {
	case h == nil && r.tried(w.unit) > 0:
		return notYet
	case h == nil:
		return neverRan
	case res.Run:
		return s.due(res.Why, cmp.Or(res.Due, h))
	default:
		return s.changed(w.ctx, w.step, h, r.parts(w), r.refs(w), w.lineage, func() json.RawMessage { return r.shown(w) })
	}
}

// due says in words why a record that was found does not count.
func (s *session) due(why recovery.Why, h *checkpoint.Head) string {
	switch why {
	case recovery.WhyExpired:
		ago, exact := time.Since(h.Expires), time.Second
		if ago < time.Second {
			exact = time.Millisecond
		}
		return fmt.Sprintf("due, expired %s ago (ttl %s)", ago.Round(exact), h.Expires.Sub(h.Created))
	case recovery.WhyNever:
		return "due, reuse = never"
	case recovery.WhyOtherRun:
		return fmt.Sprintf("due, its result belongs to the runs of %s and is not reused in another", h.Chain)
	case recovery.WhyDegraded:
		return "due, its result was degraded"
	case recovery.WhyOperator:
		return "due, " + supplied(h)
	case recovery.WhyFailed:
		return "due, it failed and was skipped"
	case recovery.WhyWithdrawn:
		return fmt.Sprintf("due, run %s was undone", h.Run)
	case recovery.WhyHusk:
		return "its output was not kept (mode = volatile) and a step below needs it"
	case recovery.WhyLost:
		return fmt.Sprintf("its stored output (%s) is missing or damaged and a step below needs it", h.ID)
	}
	return ""
}

// failure is the error of a step that was skipped after it.
func (s *session) failure(ctx context.Context, h *checkpoint.Head) *sdk.Error {
	rec, err := s.h.o.Store.Record(ctx, s.h.o.Tenant, h.Seq)
	if err != nil || rec.Context.Error == nil {
		return &sdk.Error{Class: sdk.ClassInternal, Message: "what it failed with is no longer stored"}
	}
	return rec.Context.Error
}

// The reasons of what has no record.
const (
	neverRan = "never ran"
	notYet   = "has not succeeded yet"
)

// neverSucceeded is the reason of a step without a record.
func (s *session) neverSucceeded(i int32) string {
	if s.policies != nil && s.policies[i].Attempt > 0 || s.past.open[s.f.steps[i].address] != nil {
		return notYet
	}
	return neverRan
}

// changed names the differences between the step's newest record and now.
// refs are those whose digests lineage holds; input is why's now.
func (s *session) changed(ctx context.Context, i int32, h *checkpoint.Head, now []checkpoint.NamedDigest, refs []recovery.Ref, lineage []sdk.Digest, input func() json.RawMessage) string {
	const unknown = "its definition changed"
	if h.Outcome == checkpoint.Withdrawn { // such a record tells nothing of what was undone
		return s.due(recovery.WhyWithdrawn, h)
	}
	rec, err := s.h.o.Store.Record(ctx, s.h.o.Tenant, h.Seq)
	if err != nil {
		return unknown
	}
	st := &s.f.steps[i]
	a, was := s.f.artifacts[st.Plugin], rec.Context
	var parts []string
	if was.Artifact != a.Digest {
		name, old, now := s.f.wf.Plugins[st.Plugin].Name, was.Version, version(s.f, st.Plugin)
		digests := fmt.Sprintf("%s → %s", was.Artifact.Short(), a.Digest.Short())
		if old == now {
			parts = append(parts, fmt.Sprintf("plugin %s changed (%s)", name, digests))
		} else {
			parts = append(parts, fmt.Sprintf("plugin %s %s → %s (%s)", name, orNone(old), orNone(now), digests))
		}
	}
	if was.StepType != st.StepType {
		parts = append(parts, fmt.Sprintf("step type %s → %s", was.StepType, st.StepType))
	}
	var up []checkpoint.UpstreamDigest
	if lineage != nil {
		up = s.upstream(refs, lineage)
	}
	for _, c := range recovery.Changes(&was, now, up) {
		switch {
		case c.Old == "":
			parts = append(parts, c.Part+" added")
		case c.New == "":
			parts = append(parts, c.Part+" removed")
		default:
			parts = append(parts, c.Part+" changed")
		}
	}
	if len(parts) == 0 {
		if st.reuse == recovery.ReuseRun && h.Chain != s.record.Chain {
			return s.due(recovery.WhyOtherRun, h)
		}
		if h.Outcome != checkpoint.Succeeded {
			return "it was skipped before"
		}
		return unknown
	}
	if len(parts) > 4 {
		parts = append(parts[:4], fmt.Sprintf("and %d more", len(parts)-4))
	}
	text := strings.Join(parts, ", ")
	if input != nil {
		if values := differences(was.InputHead, input()); values != "" {
			text += " (" + values + ")"
		}
	}
	return text
}

// plannedLineage is the lineage of a step whose upstreams are all current.
func (s *session) plannedLineage(i int32) []sdk.Digest {
	var ds []sdk.Digest
	for _, r := range s.f.graph.Refs(i) {
		if u := s.plan.Step(r.Step); u.Head != nil {
			ds = append(ds, u.Head.Facet(r.Facet))
		}
	}
	if len(ds) != len(s.f.graph.Refs(i)) {
		return nil
	}
	return ds
}

func (s *session) upstream(refs []recovery.Ref, lineage []sdk.Digest) []checkpoint.UpstreamDigest {
	if len(lineage) != len(refs) {
		return nil
	}
	up := make([]checkpoint.UpstreamDigest, len(refs))
	for k, r := range refs {
		up[k] = checkpoint.UpstreamDigest{Step: s.f.steps[r.Step].address, Facet: r.Facet, Digest: lineage[k]}
	}
	return up
}

// identity names the parts of a local key, for differences.
func identity(id *hcl.Identity) []checkpoint.NamedDigest {
	var few [12]checkpoint.NamedDigest // a run keeps the parts of every step: no room to spare in them
	ns := few[:0]
	add := func(name string, d sdk.Digest) {
		if !d.IsZero() {
			ns = append(ns, checkpoint.NamedDigest{Name: name, Digest: d.Short()})
		}
	}
	for _, a := range id.Attributes {
		add("input."+a.Name, a.Expression)
	}
	if len(id.Attributes) == 0 {
		add("input", id.Input)
	}
	for _, v := range id.Values {
		add(v.Name, v.Value)
	}
	add("when", id.When)
	add("for_each", id.ForEach)
	add("checks", id.Checks)
	add("output_type", id.Type)
	add("salt", id.Salt)
	for _, m := range id.ConfigMembers {
		add(m.Name, m.Value)
	}
	return slices.Clone(ns)
}

func version(f *Flow, plugin int) string {
	if m := f.artifacts[plugin].Manifest; m != nil {
		return m.Version
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "(no version)"
	}
	return s
}

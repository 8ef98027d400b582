package host

import (
	"context"
	"errors"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// Explanation is everything the plan knows of one step.
type Explanation struct {
	PlannedStep
	Workflow string             `json:"workflow"`
	Plugin   string             `json:"plugin"`
	StepType string             `json:"step_type"`
	Version  string             `json:"version,omitempty"` // of the plugin
	Artifact sdk.Digest         `json:"artifact"`
	Timeout  time.Duration      `json:"timeout_ns"` // of one attempt
	Volatile bool               `json:"volatile,omitempty"`
	Keys     Keys               `json:"keys"`
	Lineage  []ExplainedFacet   `json:"lineage"`
	Record   *checkpoint.Record `json:"record,omitempty"` // the step's newest; nil: it never ended
	HasData  bool               `json:"has_data"`         // of Record: its output can be read back
	Changes  []recovery.Change  `json:"changes"`          // between Record and now, as far as it is known
}

// Keys are the fingerprints of a step; Plan and Content are zero while an
// upstream is not known.
type Keys struct {
	Local   checkpoint.Fingerprint `json:"local"`
	Plan    checkpoint.Fingerprint `json:"plan,omitzero"`
	Content checkpoint.Fingerprint `json:"content,omitzero"`
}

// ExplainedFacet is one facet of another step that the step names.
type ExplainedFacet struct {
	Step   string     `json:"step"`
	Facet  sdk.Facet  `json:"facet"`
	Action string     `json:"action"`          // the plan's, of Step
	Now    sdk.Digest `json:"now,omitzero"`    // zero: not known before Step has ended
	Record sdk.Digest `json:"record,omitzero"` // what the record was made from; zero: no record, or it did not name the facet
}

// Explain says of one step, given by its address, what Plan decided and from
// what. It runs nothing. Errors are those of Plan.
func (h *Host) Explain(ctx context.Context, f *Flow, values *hcl.Values, o RunOptions, step string) (*Explanation, error) {
	return h.explain(ctx, f, f.inputs(values), o, step)
}

func (h *Host) explain(ctx context.Context, f *Flow, in inputs, o RunOptions, step string) (*Explanation, error) {
	is, err := f.nodes([]string{step})
	if err != nil {
		return nil, err
	}
	i := is[0]
	s, err := h.prepare(ctx, f, in, o)
	if err != nil {
		return nil, err
	}
	st := &f.steps[i]
	a := f.artifacts[st.Plugin]
	e := &Explanation{
		PlannedStep: s.plannedStep(ctx, i), Workflow: f.wf.Name, Plugin: f.wf.Plugins[st.Plugin].Name, StepType: st.StepType,
		Version: version(f, st.Plugin), Artifact: a.Digest, Timeout: st.timeout, Volatile: st.volatile,
		Keys: Keys{Local: s.defs[i].Local}, Lineage: []ExplainedFacet{}, Changes: []recovery.Change{},
	}
	lineage := s.plannedLineage(i)
	was := map[string]sdk.Digest{}
	if hd := s.heads[i]; hd != nil {
		rec, err := h.o.Store.Record(ctx, h.o.Tenant, hd.Seq)
		switch {
		case errors.Is(err, checkpoint.ErrNotFound), errors.Is(err, checkpoint.ErrCorrupt):
			rec = &checkpoint.Record{Head: *hd} // what made it is lost
		case err != nil:
			return nil, &storeError{err}
		}
		e.Record, e.HasData = rec, hd.HasData() && !s.options.Lost[hd.Data.Seq]
		for _, u := range rec.Context.Upstream {
			was[u.Step+" "+u.Facet.String()] = u.Digest
		}
	}
	for _, r := range f.graph.Refs(i) {
		x := ExplainedFacet{Step: f.steps[r.Step].address, Facet: r.Facet, Action: s.action(r.Step)}
		x.Record = was[x.Step+" "+x.Facet.String()]
		if hd := s.plan.Steps[r.Step].Head; hd != nil {
			x.Now = hd.Facet(r.Facet)
		}
		e.Lineage = append(e.Lineage, x)
	}
	if len(lineage) == len(f.graph.Refs(i)) {
		e.Keys.Plan = checkpoint.PlanKey(s.defs[i].Local, sdk.Digest{}, lineage)
		e.Keys.Content = s.content(ctx, i, lineage)
	}
	if e.Record != nil {
		e.Changes = append(e.Changes, recovery.Changes(&e.Record.Context, s.parts[i], s.upstream(f.graph.Refs(i), lineage))...)
		if c := e.Record.Context; c.Artifact != a.Digest {
			e.Changes = append([]recovery.Change{{Part: "plugin " + e.Plugin, Old: c.Artifact.String(), New: a.Digest.String()}}, e.Changes...)
		}
	}
	return e, nil
}

// content is the content key of a step whose upstreams are all current, zero if
// its input cannot be evaluated now.
func (s *session) content(ctx context.Context, i int32, lineage []sdk.Digest) checkpoint.Fingerprint {
	var none checkpoint.Fingerprint
	var lost error
	input, diags := s.eval.KeyInput(int(i), nil, hcl.Scope{Up: func(step int) hcl.Result {
		hd := s.plan.Steps[step].Head
		res := hcl.Result{State: hd.Outcome.State(), Attempts: hd.Attempts, Degraded: hd.Degraded}
		if hd.Outcome == checkpoint.Succeeded && hd.HasData() {
			data, err := s.h.o.Store.Data(ctx, s.h.o.Tenant, hd.Data)
			if err != nil {
				lost = err
			}
			res.Output = data
		} else if hd.Outcome == checkpoint.Succeeded {
			lost = checkpoint.ErrNotFound
		}
		return res
	}})
	if lost != nil || diags.HasErrors() {
		return none
	}
	digest, err := checkpoint.ValueDigest(input)
	if err != nil {
		return none
	}
	var order []sdk.Digest
	for k, ref := range s.f.graph.Refs(i) {
		if ref.Order {
			order = append(order, lineage[k])
		}
	}
	return checkpoint.ContentKey(s.bases[i], digest, order, 0)
}

package host

import (
	"context"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// Explanation is everything the plan knows of one step or instance.
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

// Explain says of one step or instance, given by its address, what Plan decided and from
// what. It runs nothing. Errors are those of Plan.
func (h *Host) Explain(ctx context.Context, f *Flow, values *hcl.Values, o RunOptions, step string) (*Explanation, error) {
	return h.explain(ctx, f, f.inputs(values), o, step)
}

func (h *Host) explain(ctx context.Context, f *Flow, in inputs, o RunOptions, step string) (*Explanation, error) {
	i, name, err := f.only(step)
	if err != nil {
		return nil, err
	}
	s, err := h.prepare(ctx, f, in, o)
	if err != nil {
		return nil, err
	}
	r := s.foresee()
	defer r.close()
	st := &f.steps[i]
	a := f.artifacts[st.Plugin]
	e := &Explanation{
		PlannedStep: s.plannedStep(ctx, i), Workflow: f.wf.Name, Plugin: f.wf.Plugins[st.Plugin].Name, StepType: st.StepType,
		Version: version(f, st.Plugin), Artifact: a.Digest, Timeout: st.timeout, Volatile: st.volatile,
		Keys: Keys{Local: s.defs[i].Local}, Lineage: []ExplainedFacet{}, Changes: []recovery.Change{},
	}
	if name != "" {
		return e, r.explainInstance(ctx, i, name, e)
	}
	r.instances(ctx, i, &e.PlannedStep)
	hd := s.heads[i]
	if p := s.plan.Step(i).Head; p != nil && p.Seq > 0 { // what is reused need not be the newest
		hd = p
	}
	if err := s.explainRecord(ctx, e, hd); err != nil {
		return nil, err
	}
	refs, lineage := f.graph.Refs(i), s.plannedLineage(i)
	s.explainLineage(e, refs)
	if len(lineage) == len(refs) {
		e.Keys.Plan = checkpoint.PlanKey(s.defs[i].Local, sdk.Digest{}, lineage)
		if !st.ForEach { // its instances have inputs, it has none
			e.Keys.Content = s.content(ctx, i, lineage)
		}
	}
	if e.Record != nil {
		s.explainChanges(e, i, s.parts[i], refs, lineage)
	}
	return e, nil
}

// foreseen is the scope of a step as the plan knows it. missing is set when something
// that the plan lacks was asked for.
func (s *session) foreseen(ctx context.Context, missing *error) hcl.Scope {
	return hcl.Scope{Attempt: 1, Up: func(step int) hcl.Result {
		hd := s.plan.Step(int32(step)).Head
		if hd == nil {
			*missing = checkpoint.ErrNotFound
			return hcl.Result{}
		}
		res := hcl.Result{State: hd.Outcome.State(), Attempts: hd.Attempts, Degraded: hd.Degraded}
		if hd.Outcome == checkpoint.Succeeded && hd.HasData() {
			data, err := s.h.o.Store.Data(ctx, s.h.o.Tenant, hd.Data)
			if err != nil {
				*missing = err
			}
			res.Output = data
		} else if hd.Outcome == checkpoint.Succeeded {
			*missing = checkpoint.ErrNotFound
		}
		return res
	}}
}

// content is the content key of a step whose upstreams are all current, zero if
// its input cannot be evaluated now.
func (s *session) content(ctx context.Context, i int32, lineage []sdk.Digest) checkpoint.Fingerprint {
	var none checkpoint.Fingerprint
	var missing error
	input, diags := s.eval.KeyInput(int(i), nil, s.foreseen(ctx, &missing))
	if missing != nil || diags.HasErrors() {
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

package host

import (
	"context"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// Plan is what Apply would do. It is an upper bound: a step with action
// "decide" is reused if its upstreams give the answers they gave before.
type Plan struct {
	Workflow  string           `json:"workflow"`
	Continues checkpoint.RunID `json:"continues,omitempty"` // the run Apply would go on with
	Follows   checkpoint.RunID `json:"follows,omitempty"`   // the run a new one would follow
	Steps     []PlannedStep    `json:"steps"`               // in topological order
	Run       int              `json:"run"`                 // steps that will run
	Decide    int              `json:"decide"`              // steps decided while running
	Reuse     int              `json:"reuse"`
	Skip      int              `json:"skip"`
	Saved     time.Duration    `json:"saved_ns"`
	Tokens    int64            `json:"saved_tokens"`
}

// PlannedStep is the plan for one step.
type PlannedStep struct {
	Step       string        `json:"step"`
	Action     string        `json:"action"` // run, decide, reuse, skip, none (nothing needs it)
	Reason     string        `json:"reason"`
	Read       bool          `json:"read,omitempty"` // its output is read back: one of the recovery set
	Checkpoint checkpoint.ID `json:"checkpoint,omitempty"`
	Saved      time.Duration `json:"saved_ns,omitempty"`
	Tokens     int64         `json:"saved_tokens,omitempty"`
	Effects    sdk.Effects   `json:"effects"`
	Native     bool          `json:"native,omitempty"` // its plugin is not sandboxed
}

// Plan decides what Apply would do and runs nothing. Errors are those of
// Apply.
func (h *Host) Plan(ctx context.Context, f *Flow, values *hcl.Values, o RunOptions) (*Plan, error) {
	s, err := h.prepare(ctx, f, f.inputs(values), o)
	if err != nil {
		return nil, err
	}
	p := &Plan{Workflow: f.wf.Name, Steps: make([]PlannedStep, 0, len(f.steps))}
	if s.continued {
		p.Continues = s.record.ID
	} else {
		p.Follows = s.record.Follows
	}
	for _, i := range f.graph.Order() {
		sp := &s.plan.Steps[i]
		st := &f.steps[i]
		ps := PlannedStep{Step: st.address, Reason: s.why(ctx, i, nil), Effects: st.effects, Native: f.artifacts[st.Plugin].Kind == "native"}
		switch {
		case sp.Head != nil && sp.Head.Outcome != checkpoint.Succeeded:
			ps.Action, ps.Checkpoint = "skip", sp.Head.ID
			p.Skip++
		case sp.Head != nil:
			ps.Action, ps.Checkpoint, ps.Saved, ps.Tokens = "reuse", sp.Head.ID, sp.Head.Took, sp.Head.Tokens
			ps.Read = sp.Action == recovery.Take
			p.Reuse++
			p.Saved += sp.Head.Took
			p.Tokens += sp.Head.Tokens
		case sp.Action == recovery.Untouched:
			ps.Action, ps.Reason = "none", "nothing that runs needs it"
		case sp.Action == recovery.Run, s.mustRun(int(i)):
			ps.Action = "run"
			p.Run++
		default:
			ps.Action = "decide"
			p.Decide++
		}
		p.Steps = append(p.Steps, ps)
	}
	return p, nil
}

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// Plan is what Apply would do. It is an upper bound: a step with action
// "decide" is reused if its upstreams give the answers they gave before.
type Plan struct {
	Workflow  string           `json:"workflow"`
	Undo      []string         `json:"undo,omitempty"`      // what Apply undoes, of a run that failed; it runs nothing then
	Continues checkpoint.RunID `json:"continues,omitempty"` // the run Apply would go on with
	Follows   checkpoint.RunID `json:"follows,omitempty"`   // the run a new one would follow
	// Unfinished is the newest run, if the one to be opened is the first with its values
	// of the variables and that one, with others, has not succeeded. It is gone on with
	// under its own values alone, and what it did to the world is its own.
	Unfinished checkpoint.RunID `json:"unfinished,omitempty"`
	Steps      []PlannedStep    `json:"steps"`             // in topological order
	Secrets    []PlannedSecret  `json:"secrets,omitempty"` // that something names
	Limiters   []PlannedLimiter `json:"limiters,omitempty"`
	Models     []MovedModel     `json:"models,omitempty"` // that have changed under their name
	Grants     []PlannedGrant   `json:"grants,omitempty"` // what the flow gives plugins, and steps that narrow it
	Run        int              `json:"run"`              // steps that will run
	Decide     int              `json:"decide"`           // steps decided while running
	Reuse      int              `json:"reuse"`
	Skip       int              `json:"skip"`
	Saved      time.Duration    `json:"saved_ns"`
	Tokens     int64            `json:"saved_tokens"`
	Cost       checkpoint.Cost  `json:"saved_cost,omitzero"`
}

// PlannedStep is the plan for one step.
type PlannedStep struct {
	Step       string           `json:"step"`
	Action     string           `json:"action"` // run, decide, reuse, skip, none (nothing needs it), blocked (it waits for a person)
	Reason     string           `json:"reason"`
	Read       bool             `json:"read,omitempty"` // its output is read back: one of the recovery set
	Checkpoint checkpoint.ID    `json:"checkpoint,omitempty"`
	Saved      time.Duration    `json:"saved_ns,omitempty"`
	Tokens     int64            `json:"saved_tokens,omitempty"`
	Cost       checkpoint.Cost  `json:"saved_cost,omitzero"`
	Effects    sdk.Effects      `json:"effects"`
	Native     bool             `json:"native,omitempty"`           // a plugin that it uses is not sandboxed: its own, or that of a fallback, check, undo or action
	Isolation  loader.Isolation `json:"isolation,omitempty"`        // "process" if its attempts run in worker processes; else ""
	Instances  *int             `json:"instances,omitempty"`        // of a step with for_each, if they are known
	Reused     int              `json:"instances_reused,omitempty"` // of Instances, as far as that is known
	KnownAfter string           `json:"known_after,omitempty"`      // the step that must end before they are
}

// PlannedSecret says who gets a secret, and that it is part of no identity.
type PlannedSecret struct {
	Name        string   `json:"name"`
	Hosts       []string `json:"hosts,omitempty"`       // where it may be sent; without them, steps see it
	Steps       []string `json:"steps,omitempty"`       // that name it, in the order of the plan
	Fingerprint bool     `json:"fingerprint,omitempty"` // a keyed hash of it is part of their identity
}

// PlannedLimiter is what the calls of a plugin wait for.
type PlannedLimiter struct {
	Plugin      string   `json:"plugin"`
	Requests    int64    `json:"requests_per_minute,omitempty"`
	Tokens      int64    `json:"tokens_per_minute,omitempty"`
	Concurrency int      `json:"concurrency,omitempty"`
	Steps       []string `json:"steps,omitempty"` // that use the plugin, in the order of the plan
}

// Plan decides what Apply would do and runs nothing. Errors are those of
// Apply.
func (h *Host) Plan(ctx context.Context, f *Flow, values *hcl.Values, o RunOptions) (*Plan, error) {
	s, err := h.prepare(ctx, f, f.inputs(values), o)
	if err != nil {
		return nil, err
	}
	p := &Plan{Workflow: f.wf.Name, Grants: f.grants(), Steps: make([]PlannedStep, 0, len(f.steps))}
	if s.undoing() {
		p.Undo = s.previous.NotUndone
	}
	if s.continued {
		p.Continues = s.record.ID
	} else {
		p.Follows = s.record.Follows
	}
	if s.unfinished != nil {
		p.Unfinished = s.unfinished.ID
	}
	r := s.foresee()
	defer r.close()
	reused := map[string]bool{}
	for _, i := range f.graph.Order() {
		ps := s.plannedStep(ctx, i)
		ps.Isolation = h.isolation(f, i)
		r.instances(ctx, i, &ps)
		switch ps.Action {
		case "skip":
			p.Skip++
		case "reuse":
			reused[ps.Step] = true
			p.Reuse++
			p.Saved += ps.Saved
			p.Tokens += ps.Tokens
			p.Cost = p.Cost.Plus(ps.Cost)
		case "run", "blocked": // apply tries, and says why it cannot
			p.Run++
		case "decide":
			reused[ps.Step] = true
			p.Decide++
		}
		p.Steps = append(p.Steps, ps)
	}
	for _, i := range f.namedSecrets() {
		x := &f.wf.Secrets[i]
		ps := PlannedSecret{Name: x.Name, Hosts: x.Hosts, Fingerprint: x.Fingerprint}
		for _, k := range f.graph.Order() {
			if slices.Contains(f.steps[k].Secrets, i) {
				ps.Steps = append(ps.Steps, f.steps[k].address)
			}
		}
		p.Secrets = append(p.Secrets, ps)
	}
	if p.Models, err = s.movedModels(ctx, reused); err != nil {
		return nil, err
	}
	for k := range f.wf.Plugins {
		x := &f.wf.Plugins[k]
		if x.Limiter == nil {
			continue
		}
		pl := PlannedLimiter{Plugin: x.Name, Requests: x.Limiter.Requests, Tokens: x.Limiter.Tokens, Concurrency: x.Limiter.Concurrency}
		for _, i := range f.graph.Order() {
			uses := append(others(f.steps[i].Step), f.steps[i].use())
			if slices.ContainsFunc(uses, func(u hcl.Use) bool { return u.Plugin == k }) {
				pl.Steps = append(pl.Steps, f.steps[i].address)
			}
		}
		p.Limiters = append(p.Limiters, pl)
	}
	return p, nil
}

// native: something that runs for st is not sandboxed.
func (f *Flow) native(st *flowStep) bool {
	uses := append(others(st.Step), st.use())
	for k := range st.Retry {
		if b := st.Retry[k].Before; b >= 0 {
			uses = append(uses, f.wf.Actions[b].Use)
		}
	}
	for _, x := range st.Secrets {
		if a := f.wf.Secrets[x].Action; a >= 0 {
			uses = append(uses, f.wf.Actions[a].Use)
		}
	}
	return slices.ContainsFunc(uses, func(u hcl.Use) bool { return f.artifacts[u.Plugin].Kind == loader.Native })
}

// isolation is the level at which step i runs, "" for that of the engine's own
// process and for what is native.
func (h *Host) isolation(f *Flow, i int32) loader.Isolation {
	st := &f.steps[i]
	if f.artifacts[st.Plugin].Kind == loader.Wasm && (h.o.Isolation == loader.Process || st.grant.limits.Isolation == loader.Process) {
		return loader.Process
	}
	return ""
}

// plannedStep is what Plan says of step i.
func (s *session) plannedStep(ctx context.Context, i int32) PlannedStep {
	st, sp := &s.f.steps[i], s.plan.Step(i)
	ps := PlannedStep{Step: st.address, Action: s.action(i), Reason: s.why(ctx, i, nil, func() json.RawMessage { return s.shown(ctx, i) }), Effects: st.effects, Native: s.f.native(st)}
	switch ps.Action {
	case "skip":
		ps.Checkpoint = sp.Head.ID
	case "reuse":
		ps.Checkpoint, ps.Saved, ps.Tokens, ps.Cost = sp.Head.ID, sp.Head.Took, sp.Head.Tokens, sp.Head.Cost
		ps.Read = sp.Action == recovery.Take
	case "blocked":
		ps.Reason = s.blocked[i].Message
	case "none":
		ps.Reason = "nothing that runs needs it"
	case "run", "decide":
		if in := s.unsettled(); in != nil && st.effects == sdk.EffectsOnce {
			ps.Reason += "; waits for a person if it does what may have happened: " + notSeen(st.address, in)
		} else if hd := s.heads[i]; st.effects == sdk.EffectsOnce && hd != nil && hd.Chain == s.record.Chain && !s.rerun(i, "") && s.plan.Counts(i, hd) {
			ps.Reason += fmt.Sprintf("; waits for a person if it would do again what it did in run %s", hd.Run)
		}
	}
	return ps
}

// action is the word for what is planned for step i.
func (s *session) action(i int32) string {
	sp := s.plan.Step(i)
	switch {
	case sp.Head != nil && sp.Head.Outcome != checkpoint.Succeeded:
		return "skip"
	case sp.Head != nil:
		return "reuse"
	case sp.Action == recovery.Untouched:
		return "none"
	case s.blocked[i] != nil:
		return "blocked"
	case sp.Action == recovery.Run, s.mustRun(int(i)):
		return "run"
	}
	return "decide"
}

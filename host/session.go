package host

import (
	"context"
	"encoding/json"
	"errors"
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

// RunOptions are the options of Plan and Apply.
type RunOptions struct {
	Rerun []string // addresses of steps that run even if current
	From  []string // addresses of steps that run even if current, with everything below them
	// Set gives the output of steps and instances, by address, in place of an
	// attempt. It counts in this run; in another one the step is due, unless
	// its results are those of a chain of runs (reuse = run).
	Set     map[string]json.RawMessage
	Targets []string         // addresses; nil = the default targets
	New     bool             // a run that continues and follows none
	Run     checkpoint.RunID // continue this run instead of the newest
	// Replay answers in place of models, networks and native plugins. The run has
	// the id and the start of the recorded one, its effects do not happen, no
	// secret is needed and no delay is waited for: give it a store of its own.
	Replay *Recording
	// Ended is told how the steps ended, before Apply returns; what it is given
	// answers for every step, while it runs. nil: nobody asks.
	Ended func(hcl.Upstream)
}

// evaluator is what a run needs of hcl.Evaluator.
type evaluator interface {
	Identity(step int) (hcl.Identity, hcl.Diagnostics)
	ForEach(step, loop int, s hcl.Scope) (hcl.Expansion, hcl.Diagnostics)
	EachIdentity(step int, each []hcl.Each) (sdk.Digest, hcl.Diagnostics)
	When(step int, s hcl.Scope) (bool, hcl.Diagnostics)
	Input(step int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	KeyInput(step int, input json.RawMessage, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	KeyCheck(step, k int, input json.RawMessage, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	KeyFallback(step, k int, input json.RawMessage, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	Stored(step int, input json.RawMessage) json.RawMessage
	Shown(step int, input json.RawMessage) json.RawMessage
	Config(plugin int) (json.RawMessage, hcl.Diagnostics)
	ActionInput(action int) (json.RawMessage, hcl.Diagnostics)
	CompensateInput(step int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	Salt(step int, each []hcl.Each) (sdk.Digest, hcl.Diagnostics)
	Precondition(step int, s hcl.Scope) (string, hcl.Diagnostics)
	Postcondition(step int, s hcl.Scope) (string, hcl.Diagnostics)
	CheckInput(step, k int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	FallbackOutput(step, k int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	FallbackInput(step, k int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics)
	CheckOutput(step int, out json.RawMessage) error
	FileBlob(d sdk.Digest) []byte
	Output(i int, up hcl.Upstream) (json.RawMessage, hcl.Diagnostics)
}

var _ evaluator = (*hcl.Evaluator)(nil)

// session is one flow with values, the run it belongs to, and the plan: what
// Plan shows and Apply carries out.
type session struct {
	h           *Host
	f           *Flow
	eval        evaluator
	secrets     *secrets              // nil: the flow has none
	record      *checkpoint.RunRecord // the run to be opened or continued
	previous    *checkpoint.RunRecord // the newest run with these values; nil = none
	unfinished  *checkpoint.RunRecord // the newest run, if it has other values and has not ended well; nil = none
	continued   bool
	defs        []recovery.Definition
	bases       []checkpoint.Fingerprint       // of the content keys
	parts       [][]checkpoint.NamedDigest     // of the local keys, so that a difference can be named
	expressions [][]checkpoint.AttributeDigest // of the attributes of the inputs, without their values
	configs     []json.RawMessage              // by plugin; nil where a secret is not known yet
	trees       trees                          // what lies in mounts
	index       *checkpoint.Index
	heads       []*checkpoint.Head
	options     recovery.Options
	plan        *recovery.Plan
	policies    []stepPolicy
	chain       []checkpoint.RunID // the runs of the chain, this one included, oldest first
	past        past
	tries       map[string]int32          // by address: attempts already made in the run
	reruns      map[int32]map[string]bool // by step: the instances that were asked for; nil = all
	narrowed    map[int32]map[string]bool // by step of which only some instances are to end: those
	below       map[int32]string          // by step that --from makes run: the step it named
	given       given
	ended       func(hcl.Upstream)
	replay      *Recording
	blocked     map[int32]*sdk.Error // steps that must not start again without a person
}

// inputs are the values of a flow's variables, and what evaluates with them.
type inputs struct {
	values    map[string]json.RawMessage
	evaluator func(hcl.RunInfo) evaluator
}

func (f *Flow) inputs(values *hcl.Values) inputs {
	return inputs{values.JSON(), func(run hcl.RunInfo) evaluator { return f.wf.Evaluator(values, run) }}
}

// prepare chooses the run and makes the plan. Outputs of reused steps are read
// and verified; one that is missing or damaged counts as not kept.
func (h *Host) prepare(ctx context.Context, f *Flow, in inputs, o RunOptions) (_ *session, err error) {
	if f.keyed && len(h.o.Key) == 0 {
		return nil, errors.New("options: no key, and the flow has sensitive values")
	}
	s := &session{h: h, f: f, ended: o.Ended, replay: o.Replay, trees: trees{log: h.o.Logger}}
	var missing hcl.Diagnostics
	s.secrets, missing = newSecrets(f, &h.o)
	if o.Replay != nil {
		if err := s.secrets.pretend(); err != nil {
			return nil, err
		}
	} else if missing.HasErrors() {
		return nil, missing
	}
	defer func() { err = s.secrets.masked(err) }()
	if err := s.chooseRun(ctx, in.values, o); err != nil {
		return nil, err
	}
	s.eval = in.evaluator(h.runInfo(s.record, s.secrets))
	if err := s.define(); err != nil {
		return nil, err
	}
	if err := s.give(o.Set); err != nil {
		return nil, err
	}
	if err := s.load(ctx, o); err != nil {
		return nil, err
	}
	if err := s.resume(ctx); err != nil {
		return nil, err
	}
	return s, s.checkNames()
}

// chooseRun decides which run is continued, followed or opened.
func (s *session) chooseRun(ctx context.Context, vs map[string]json.RawMessage, o RunOptions) error {
	h, wf := s.h, s.f.wf
	digests := make(map[string]sdk.Digest, len(vs))
	kept := make(map[string]json.RawMessage, len(vs))
	for name, v := range vs {
		d, err := checkpoint.ValueDigest(v)
		if err != nil {
			return fmt.Errorf("variable %q: %w", name, err)
		}
		digests[name], kept[name] = d, s.secrets.redactor().JSON(v)
		switch {
		case slices.ContainsFunc(wf.Variables, func(x hcl.Variable) bool { return x.Name == name && x.Sensitive }):
			digests[name] = h.keyed(d)
			kept[name], _ = sdk.Marshal(map[string]any{"$sensitive": digests[name]})
		case len(v) > 4<<10:
			kept[name], _ = sdk.Marshal(map[string]any{"$digest": d, "size": len(v)})
		}
	}
	variables := checkpoint.ObjectDigest(digests)
	runs, err := h.o.Store.Runs(ctx, h.o.Tenant, wf.Name)
	if err != nil {
		return &storeError{err}
	}
	i := slices.IndexFunc(runs, func(r *checkpoint.RunRecord) bool {
		if o.Run != "" {
			return r.ID == o.Run
		}
		return r.Variables == variables
	})
	switch {
	case o.Run != "" && i < 0:
		return &UsageError{fmt.Sprintf("workflow %q has no run %s; see: engine runs", wf.Name, o.Run)}
	case o.Run != "" && runs[i].Variables != variables:
		return &UsageError{fmt.Sprintf("run %s was started with other variable values; give the same --var and --var-file, or leave out --run", o.Run)}
	case i >= 0:
		s.previous = runs[i]
	case len(runs) > 0 && runs[0].Status != checkpoint.RunSucceeded && runs[0].Status != checkpoint.RunCompensated:
		s.unfinished = runs[0]
	}
	if p := s.previous; p != nil && o.New && p.Undoing() {
		return &UsageError{fmt.Sprintf("run %s is not undone yet (%s); run the same command without --new to finish that first", p.ID, strings.Join(p.NotUndone, ", "))}
	}
	if p := s.previous; p != nil && p.Status == checkpoint.RunCompensated {
		o.New = true // what it did is taken back: nothing follows it
	}
	if p := s.previous; p != nil && !o.New && p.Status != checkpoint.RunSucceeded {
		r := *p
		r.Continued++
		s.record, s.continued = &r, true
	} else {
		id := checkpoint.NewRunID()
		s.record = &checkpoint.RunRecord{ID: id, Chain: id, Created: time.Now().UTC()}
		if p != nil && !o.New {
			s.record.Follows, s.record.Chain, s.record.Reruns = p.ID, p.Chain, maps.Clone(p.Reruns)
		}
	}
	if rec := o.Replay; rec != nil {
		if rec.run.Workflow != wf.Name {
			return &UsageError{fmt.Sprintf("run %s is one of workflow %q, not of %q", rec.run.ID, rec.run.Workflow, wf.Name)}
		}
		s.record = &checkpoint.RunRecord{ID: rec.run.ID, Chain: rec.run.Chain, Created: rec.run.Created}
	}
	for _, p := range slices.Backward(runs) {
		if p.Chain == s.record.Chain {
			s.chain = append(s.chain, p.ID)
		}
	}
	r := s.record
	r.Workflow, r.Version, r.Variables, r.Values, r.Engine = wf.Name, wf.Version, variables, kept, h.o.Version
	r.Status, r.Error, r.Ended, r.Used, r.Outputs, r.Counts = checkpoint.RunRunning, nil, time.Time{}, sdk.Digest{}, sdk.Digest{}, nil
	r.Files, r.Artifacts, r.Reused = nil, nil, nil
	for _, f := range wf.Files {
		r.Files = append(r.Files, checkpoint.FileDigest{Path: f.Path, Digest: f.Digest})
	}
	for p, a := range s.f.artifacts {
		r.Artifacts = append(r.Artifacts, checkpoint.NamedDigest{Name: wf.Plugins[p].Name, Digest: a.Digest.String()})
	}
	return nil
}

// open adds what is recorded when the run opens: the texts of the flow, so that
// runs can be compared, and the run.
func (s *session) open(b *checkpoint.Batch) {
	for i := range s.f.wf.Files {
		b.PutFile(s.f.wf.Files[i].Bytes)
	}
	b.PutRun(s.record)
}

// UsageError says that a command names something that does not exist.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// load reads the index and plans, again if outputs turn out to be lost.
func (s *session) load(ctx context.Context, o RunOptions) (err error) {
	h := s.h
	s.options = recovery.Options{Run: s.record.ID, Chain: s.record.Chain, Now: time.Now(), Targets: s.f.targets, Lost: map[checkpoint.Seq]bool{}}
	if err = s.demand(o); err != nil {
		return err
	}
	if len(o.Targets) > 0 {
		var names map[int32]map[string]bool
		if s.options.Targets, names, err = s.f.units(o.Targets); err != nil {
			return err
		}
		s.narrow(names)
	}
	if s.index, err = h.o.Store.Snapshot(ctx, h.o.Tenant, s.f.wf.Name); err != nil {
		return &storeError{err}
	}
	s.heads = recovery.Bind(s.f.graph, s.index)
	for {
		s.plan = recovery.NewPlan(s.f.graph, s.defs, s.heads, s.index, s.options)
		lost, err := s.verify(ctx)
		if err != nil || !lost {
			return err
		}
	}
}

// verify reads the outputs of the recovery set and notes those that are lost.
func (s *session) verify(ctx context.Context) (again bool, err error) {
	h := s.h
	for i := range s.plan.Len() {
		p := s.plan.Step(int32(i))
		if p.Action != recovery.Take {
			continue
		}
		_, err := h.o.Store.Data(ctx, h.o.Tenant, p.Head.Data)
		switch {
		case lost(err):
			h.o.Logger.Warn("the output of a checkpoint cannot be read", "step", s.f.steps[i].address, "checkpoint", p.Head.ID, "cause", err)
			s.options.Lost[p.Head.Data.Seq] = true
			again = true
		case err != nil:
			return false, &storeError{err}
		}
	}
	return again, nil
}

// rerun: the step, or the instance of this name, was asked for. Without a name
// it says whether anything of the step was.
func (s *session) rerun(step int32, name string) bool {
	names, asked := s.reruns[step]
	return asked && (name == "" || names == nil || holds(names, name))
}

// holds: the instance of a name, or one that it is in, is among those named.
func holds(names map[string]bool, name string) bool {
	if len(names) == 0 || names[name] {
		return names[name]
	}
	keys := hcl.InstanceKeys(name)
	for n := 1; n < len(keys); n++ {
		if names[strings.Join(keys[:n], ",")] {
			return true
		}
	}
	return false
}

// touches: the instance of a name, one that it is in or one in it is among those
// named.
func touches(names map[string]bool, name string) bool {
	if holds(names, name) {
		return true
	}
	for n := range names {
		if hcl.InstanceIn(name, n) {
			return true
		}
	}
	return false
}

// toRun counts the steps that will run, and those that run unless their
// upstreams give the answers they gave before.
func (s *session) toRun() (run, decide int) {
	for i := range s.plan.Len() {
		switch s.plan.Step(int32(i)).Action {
		case recovery.Run:
			run++
		case recovery.Decide:
			if s.mustRun(i) {
				run++
			} else {
				decide++
			}
		}
	}
	return run, decide
}

// mustRun: step i is to be decided, but nothing is known that could be reused.
// (Another step's record of the same computation may still turn up.)
func (s *session) mustRun(i int) bool {
	p := s.plan.Step(int32(i))
	return p.Verdict == recovery.Missing || p.Reason.Head == nil
}

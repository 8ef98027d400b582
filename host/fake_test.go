package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a small workflow whose evaluation and plugin are Go functions: what
// is tested is the host between them. Step i reads the outputs of its
// references; its answer is made by run.
type fake struct {
	tb       testing.TB
	steps    []fakeStep
	run      func(ctx context.Context, req *sdk.Request) (*sdk.Response, error)
	calls    atomic.Int64
	artifact *loader.Artifact // nil: fakeArtifact
	quiet    bool             // do not count by step
	keyed    bool             // each.key counts in the identity of an instance, as it does in its input
	paid     bool             // its step type reaches the network
	budget   *hcl.Budget      // of the workflow
	config   string           // of the plugin; default {}

	mu     sync.Mutex
	counts map[string]int // attempts by step
	keys   map[string][]string
}

type fakeStep struct {
	name     string
	def      string // what identifies it; default its name
	refs     []hcl.FacetRef
	when     int
	cond     func(up hcl.Upstream) bool // nil: true
	retry    []hcl.Retry
	effects  sdk.Effects
	volatile bool
	ttl      time.Duration
	reuse    hcl.Reuse
	each     func(up hcl.Upstream) hcl.Expansion // makes it a step with for_each
	eachRefs int                                 // how many of refs, after those of when, belong to for_each
	eachWhen func(e *hcl.Each) bool
	pair     bool // for_each is the output of the first ref, whose instances it follows
	limit    int  // instances at once
	skip     bool // on_failure = skip
	fallback []hcl.Fallback
	post     func(out json.RawMessage) string
	undo     bool // it has a compensate block; its undo is the step type "undo"
}

func hard(is ...int) (rs []hcl.FacetRef) {
	for _, i := range is {
		rs = append(rs, hcl.FacetRef{Step: i})
	}
	return rs
}

var fakeArtifact = &loader.Artifact{Kind: loader.Wasm, Path: "fake.wasm", Digest: sdk.Sum([]byte("fake")), Manifest: &sdk.Manifest{ABI: 1, Name: "fake", Version: "1.0.0", Steps: map[string]sdk.StepType{"run": {}}}}

// flow compiles the fake into a Flow.
func (k *fake) flow() *Flow {
	wf := &hcl.Workflow{Name: "fake", Plugins: []hcl.Plugin{{Name: "fake"}}}
	for i := range k.steps {
		s := &k.steps[i]
		retry := slices.Clone(s.retry)
		for n := range retry {
			retry[n].Before-- // 0 is none here
		}
		st := hcl.Step{Name: s.name, StepType: "run", Facets: s.refs, KeyFacets: len(s.refs), WhenFacets: s.when, EachFacets: s.eachRefs,
			HasWhen: s.when > 0 || s.cond != nil || s.eachWhen != nil, ForEach: s.each != nil || s.pair,
			Concurrency: s.limit, SkipOnFailure: s.skip, Fallbacks: s.fallback, Retry: retry, Effects: s.effects, Volatile: s.volatile, TTL: s.ttl, Reuse: s.reuse}
		if st.ForEach {
			st.Loops = []hcl.Loop{{Facets: s.eachRefs}}
		}
		if s.eachWhen != nil {
			st.WhenDepth = 1
		}
		if first := 0; s.pair && !slices.ContainsFunc(s.refs[1:], func(r hcl.FacetRef) bool { return r.Step == s.refs[first].Step }) {
			st.Facets = slices.Clone(s.refs)
			st.Facets[first].Follows = 1
		}
		if s.undo {
			st.Compensate = &hcl.Compensate{Use: hcl.Use{StepType: "undo"}}
			wf.CompensateOnFailure = true
		}
		if s.post != nil {
			st.Postconditions = 1
		}
		wf.Steps = append(wf.Steps, st)
	}
	a := fakeArtifact
	if k.artifact != nil {
		a = k.artifact
	}
	f := &Flow{wf: wf, artifacts: []*loader.Artifact{a}, loaders: []loader.Loader{k}, configs: make([]*jsonschema.Schema, 1)}
	st := &stepType{}
	if k.paid {
		st.Ops = []string{"http"}
	}
	wf.Budget = k.budget
	st.sanitizer, _ = checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	f.types = map[stepTypeKey]*stepType{{0, "run"}: st}
	if diags := f.grant(); diags.HasErrors() {
		k.tb.Fatal(diags)
	}
	f.types[stepTypeKey{0, "undo"}] = st
	if err := f.link(); err != nil {
		k.tb.Fatal(err)
	}
	return f
}

func (k *fake) inputs() inputs {
	return inputs{map[string]json.RawMessage{}, func(hcl.RunInfo) evaluator { return k }}
}

func (k *fake) apply(ctx context.Context, o Options, ro RunOptions) (*Result, error) {
	k.tb.Helper()
	h, err := New(o)
	if err != nil {
		k.tb.Fatal(err)
	}
	return h.apply(ctx, k.flow(), k.inputs(), ro)
}

func (k *fake) mustApply(o Options) *Result {
	k.tb.Helper()
	res, err := k.apply(context.Background(), o, RunOptions{})
	if err != nil {
		k.tb.Fatal(err)
	}
	return res
}

// Evaluator.

func (k *fake) Identity(i int) (hcl.Identity, hcl.Diagnostics) {
	def := k.steps[i].def
	if def == "" {
		def = k.steps[i].name
	}
	id := hcl.Identity{Input: sdk.Sum([]byte(def)), Attributes: []hcl.AttributeIdentity{{Name: "def", Expression: sdk.Sum([]byte(def))}}}
	if k.steps[i].cond != nil || k.steps[i].eachWhen != nil {
		id.When = sdk.Sum([]byte("when " + k.steps[i].name))
	}
	if k.steps[i].each != nil || k.steps[i].pair {
		id.ForEach = sdk.Sum([]byte("for_each " + k.steps[i].name))
	}
	return id, nil
}

func (k *fake) ForEach(i, _ int, s hcl.Scope) (hcl.Expansion, hcl.Diagnostics) {
	if k.steps[i].each != nil {
		return k.steps[i].each(s.Up), nil
	}
	var x hcl.Expansion
	out := s.Up(k.steps[i].refs[0].Step).Output
	var list []json.RawMessage
	if x.List = json.Unmarshal(out, &list) == nil; x.List {
		for n, v := range list {
			x.Each = append(x.Each, hcl.Each{Key: json.RawMessage(strconv.Itoa(n)), Value: v})
		}
		return x, nil
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(out, &members); err != nil {
		return x, hcl.Diagnostics{{Summary: err.Error()}}
	}
	for _, key := range objectKeys(out) {
		var name string
		_ = json.Unmarshal(key, &name)
		x.Each = append(x.Each, hcl.Each{Key: key, Value: members[name]})
	}
	return x, nil
}

func (k *fake) EachIdentity(i int, e []hcl.Each) (sdk.Digest, hcl.Diagnostics) {
	if k.keyed {
		return sdk.Sum(append(slices.Clone(e[0].Key), e[0].Value...)), nil
	}
	return sdk.Sum(e[0].Value), nil
}

func (k *fake) Salt(int, []hcl.Each) (sdk.Digest, hcl.Diagnostics)    { return sdk.Digest{}, nil }
func (k *fake) Precondition(int, hcl.Scope) (string, hcl.Diagnostics) { return "", nil }
func (k *fake) Postcondition(i int, s hcl.Scope) (string, hcl.Diagnostics) {
	return k.steps[i].post(s.Output), nil
}
func (k *fake) CheckInput(int, int, hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return json.RawMessage("{}"), nil
}
func (k *fake) FallbackOutput(int, int, hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return json.RawMessage(`{"h":"fallback"}`), nil
}
func (k *fake) ActionInput(int) (json.RawMessage, hcl.Diagnostics) { return json.RawMessage("{}"), nil }
func (k *fake) CompensateInput(i int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return json.RawMessage(`{"undo":` + string(s.Output) + `}`), nil
}
func (k *fake) FallbackInput(int, int, hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return json.RawMessage(`{}`), nil
}

func (k *fake) When(i int, s hcl.Scope) (bool, hcl.Diagnostics) {
	if w := k.steps[i].eachWhen; w != nil {
		return w(&s.Each[0]), nil
	}
	return k.steps[i].cond(s.Up), nil
}

func (k *fake) Input(i int, s hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	def := k.steps[i].def
	if def == "" {
		def = k.steps[i].name
	}
	in := map[string]any{"def": def}
	if s.Each != nil {
		in["key"], in["value"] = s.Each[0].Key, s.Each[0].Value
	}
	var ups []json.RawMessage
	for n, r := range k.steps[i].refs {
		if n >= k.steps[i].when && n < k.steps[i].when+k.steps[i].eachRefs {
			continue
		}
		res := s.Up(r.Step)
		switch {
		case r.Facet == sdk.FacetStatus:
			ups = append(ups, json.RawMessage(`"`+res.State.String()+`"`))
		case res.State == sdk.Succeeded:
			if res.Output == nil {
				return nil, hcl.Diagnostics{{Summary: "output of " + k.steps[r.Step].name + " is missing"}}
			}
			ups = append(ups, res.Output)
		}
	}
	in["up"] = ups
	b, err := sdk.Marshal(in)
	if err != nil {
		return nil, hcl.Diagnostics{{Summary: err.Error()}}
	}
	return b, nil
}

func (k *fake) Config(int) (json.RawMessage, hcl.Diagnostics) {
	if k.config != "" {
		return json.RawMessage(k.config), nil
	}
	return json.RawMessage(`{}`), nil
}
func (k *fake) CheckOutput(int, json.RawMessage) error                      { return nil }
func (k *fake) Output(int, hcl.Upstream) (json.RawMessage, hcl.Diagnostics) { return nil, nil }

// Loader and plugin.

func (k *fake) Open(string) (*loader.Artifact, error)                         { return fakeArtifact, nil }
func (k *fake) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return k, nil }
func (k *fake) Close() error                                                  { return nil }
func (k *fake) Step(string, loader.Limits) (sdk.Step, error) {
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		k.calls.Add(1)
		if k.quiet {
			return k.run(ctx, req)
		}
		k.mu.Lock()
		if k.counts == nil {
			k.counts, k.keys = map[string]int{}, map[string][]string{}
		}
		name := strings.TrimPrefix(req.Step, "step.")
		k.counts[name]++
		if req.Instance != "" {
			k.counts[hcl.InstanceAddress(name, req.Instance)]++
		}
		k.keys[name] = append(k.keys[name], req.IdempotencyKey)
		k.mu.Unlock()
		if k.run != nil {
			return k.run(ctx, req)
		}
		return hashAnswer(req)
	}), nil
}

// hashAnswer is a pure answer that depends on the whole input.
func hashAnswer(req *sdk.Request) (*sdk.Response, error) {
	return sdk.Output(map[string]string{"h": sdk.Sum(req.Input).Short()})
}

func (k *fake) count(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts[name]
}

// recorder keeps the events of a run.
type recorder struct {
	mu     sync.Mutex
	events []Event
	hook   func(Event)
}

func (r *recorder) Observe(es []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, es...)
	if r.hook != nil {
		for _, e := range es {
			r.hook(e)
		}
	}
}

func (r *recorder) steps(t EventType) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Type == t {
			names = append(names, strings.TrimPrefix(e.Step, "step."))
		}
	}
	slices.Sort(names)
	return names
}

var errBoom = errors.New("boom")

func unavailable(format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassUnavailable, Message: fmt.Sprintf(format, args...)}
}

// states reads how the steps of a finished run stand from its events.
func (r *recorder) states() map[string]string {
	m := map[string]string{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		switch e.Type {
		case EventSucceeded, EventReused, EventFailed, EventSkipped, EventCancelled:
			m[strings.TrimPrefix(e.Step, "step.")] = string(e.Type)
		}
	}
	return m
}

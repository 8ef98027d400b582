package host

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// scene is a store and a plugin in this process against which flows are
// applied one after the other: real expressions, real records, no module.
type scene struct {
	artifact *loader.Artifact // nil: sceneArtifact
	t        *testing.T
	store    checkpoint.Store
	run      func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) // nil: echo

	mu   sync.Mutex
	ran  []string            // addresses of the calls since the last look
	keys map[string][]string // idempotency keys by address
}

func newScene(t *testing.T) *scene { return &scene{t: t, store: checkpoint.NewMemoryStore()} }

var sceneArtifact = &loader.Artifact{Kind: loader.Wasm, Path: "p.wasm", Digest: sdk.Sum([]byte("scene")), Manifest: &sdk.Manifest{ABI: 1, Name: "p", Version: "1.0.0", Steps: map[string]sdk.StepType{
	"echo": {}, "other": {}, "judge": {}, "pay": {Effects: sdk.EffectsOnce}, "mail": {Effects: sdk.EffectsWrite},
}}}

func (s *scene) Open(string) (*loader.Artifact, error) {
	if s.artifact != nil {
		return s.artifact, nil
	}
	return sceneArtifact, nil
}
func (s *scene) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return s, nil }
func (s *scene) Close() error                                                  { return nil }
func (s *scene) Step(name string, _ loader.Limits) (sdk.Step, error) {
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		address := strings.TrimPrefix(hcl.InstanceAddress(req.Step, req.Instance), "step.")
		if name == "other" || name == "judge" {
			address += "/" + name
		}
		s.mu.Lock()
		s.ran = append(s.ran, address)
		if s.keys == nil {
			s.keys = map[string][]string{}
		}
		s.keys[address] = append(s.keys[address], req.IdempotencyKey)
		s.mu.Unlock()
		if s.run != nil {
			if resp, err := s.run(ctx, req); resp != nil || err != nil {
				return resp, err
			}
		}
		return echo(req)
	}), nil
}

// echo answers with the attribute "v" of the input.
func echo(req *sdk.Request) (*sdk.Response, error) {
	var in struct {
		V json.RawMessage `json:"v"`
	}
	if err := sdk.Unmarshal(req.Input, &in); err != nil {
		return nil, err
	}
	return &sdk.Response{Output: in.V}, nil
}

// flow compiles a flow: text without the blocks that all of them share.
func (s *scene) flow(text string) (*Flow, *hcl.Values) {
	s.t.Helper()
	if !strings.Contains(text, "workflow ") {
		text = "workflow \"w\" {}\n" + text
	}
	return compiled(s.t, text+"\nplugin \"p\" { source = \"./p.wasm\" }\n", s)
}

func (s *scene) try(text string, o Options, ro RunOptions) (*Result, error) {
	s.t.Helper()
	f, v := s.flow(text)
	if o.Store == nil {
		o.Store = s.store
	}
	h, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return h.Apply(context.Background(), f, v, ro)
}

// apply applies a flow that is expected to end with status.
func (s *scene) apply(text string, status checkpoint.RunStatus, rerun ...string) *Result {
	s.t.Helper()
	res, err := s.try(text, Options{}, RunOptions{Rerun: rerun})
	if err != nil {
		s.t.Fatal(err)
	}
	if res.Run.Status != status {
		s.t.Fatalf("the run %s: %+v", res.Run.Status, res.Failures)
	}
	return res
}

func (s *scene) succeeds(text string, rerun ...string) *Result {
	s.t.Helper()
	return s.apply(text, checkpoint.RunSucceeded, rerun...)
}

func (s *scene) fails(text string, rerun ...string) *Result {
	s.t.Helper()
	return s.apply(text, checkpoint.RunFailed, rerun...)
}

// called are the addresses of the calls since it was asked last, sorted.
func (s *scene) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran := s.ran
	s.ran = nil
	slices.Sort(ran)
	return ran
}

func (s *scene) wantCalls(what string, want ...string) {
	s.t.Helper()
	if d := cmp.Diff(want, s.called()); d != "" {
		s.t.Fatalf("%s: calls (-want +got):\n%s", what, d)
	}
}

// wantOutput compares an output of the flow, as JSON text.
func wantOutput(t *testing.T, res *Result, name, want string) {
	t.Helper()
	for _, o := range res.Outputs {
		if o.Name == name {
			if string(o.Value) != want {
				t.Fatalf("output %s is %s %s, want %s", name, o.Value, o.Unavailable, want)
			}
			return
		}
	}
	t.Fatalf("no output %s", name)
}

// failing answers like echo but for the named addresses, which fail with class.
func (s *scene) failing(class sdk.Class, addresses ...string) {
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.StepType != "other" && req.StepType != "judge" && slices.Contains(addresses, strings.TrimPrefix(hcl.InstanceAddress(req.Step, req.Instance), "step.")) {
			return nil, &sdk.Error{Class: class, Message: "the model answers 不行 🙅"}
		}
		return nil, nil
	}
}

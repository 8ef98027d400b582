package host

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// An attempt with effects starts only when everything it stands on is durable,
// its own intent included, and with the same key each time.
func TestBarrierAndIdempotencyKey(t *testing.T) {
	t.Parallel()
	store := checkpoint.NewMemoryStore()
	store.Hold()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "mail", refs: hard(0), effects: sdk.EffectsWrite}, {name: "after", refs: hard(1)}}}
	var crashed *checkpoint.MemoryStore
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.mail" && crashed == nil {
			crashed = store.Crash() // the machine stops in the middle of the effect
			in, err := crashed.Intents(context.Background(), "default", checkpoint.RunID(req.Run))
			if err != nil || len(in) != 1 || in[0].IdempotencyKey != req.IdempotencyKey {
				t.Errorf("the intent was not durable when the effect began: %v %v", in, err)
			}
		}
		return hashAnswer(req)
	}
	lateDisk := keepSyncing(store)
	k.mustApply(Options{Store: store})
	lateDisk()
	res := k.mustApply(Options{Store: crashed})
	if res.Run.Status != checkpoint.RunSucceeded || k.count("a") != 1 || k.count("mail") != 2 {
		t.Fatalf("%s, a %d, mail %d", res.Run.Status, k.count("a"), k.count("mail"))
	}
	if keys := k.keys["mail"]; keys[0] != keys[1] || keys[0] == "" {
		t.Errorf("the effect was repeated under another key: %q", keys)
	}
	// Effects are not repeated by apply after success; asked for, with a new key.
	k.mustApply(Options{Store: crashed})
	if k.count("mail") != 2 {
		t.Fatal("apply after success repeated an effect")
	}
	if _, err := k.apply(context.Background(), Options{Store: crashed}, RunOptions{Rerun: []string{"mail"}}); err != nil {
		t.Fatal(err)
	}
	if keys := k.keys["mail"]; len(keys) != 3 || keys[2] == keys[1] {
		t.Errorf("--rerun: %q", keys)
	}
}

// A step that must happen once and was interrupted is not started again
// without a person.
func TestOnceIsNotRepeated(t *testing.T) {
	t.Parallel()
	store := checkpoint.NewMemoryStore()
	k := &fake{tb: t, steps: []fakeStep{{name: "pay", effects: sdk.EffectsOnce, retry: []hcl.Retry{{On: []sdk.Class{sdk.ClassPluginCrash}, MaxAttempts: 5}}}}}
	var crashed *checkpoint.MemoryStore
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if crashed == nil {
			crashed = store.Crash()
			return nil, &sdk.Error{Class: sdk.ClassPluginCrash, Message: "signal: killed"}
		}
		return hashAnswer(req)
	}
	check := func(res *Result) {
		t.Helper()
		if res.Run.Status != checkpoint.RunFailed || len(res.Failures) != 1 || res.Failures[0].Error.Code != CodeOutcomeUnknown || k.count("pay") != 1 {
			t.Fatalf("%s, %d calls, %+v", res.Run.Status, k.count("pay"), res.Failures)
		}
	}
	check(k.mustApply(Options{Store: store})) // a crash of the plugin
	check(k.mustApply(Options{Store: store})) // and apply again
	check(k.mustApply(Options{Store: crashed}))
	res, err := k.apply(context.Background(), Options{Store: crashed}, RunOptions{Rerun: []string{"step.pay"}})
	if err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v %+v", err, res)
	}
}

// The unknown outcome of a step that must happen once outlives the end of the
// run: a run with other targets, an edit, the step taken out and put back.
func TestUnknownOutcomeOutlivesTheRun(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(k *fake, o Options){
		"another target": func(k *fake, o Options) {
			if _, err := k.apply(context.Background(), o, RunOptions{Targets: []string{"w"}}); err != nil {
				k.tb.Fatal(err)
			}
		},
		"taken out and put back": func(k *fake, o Options) {
			whole := k.steps
			k.steps = whole[:1]
			k.mustApply(o)
			k.steps = whole
		},
		"renamed": func(k *fake, o Options) { k.steps[1].name = "renamed" },
	} {
		k, store := interrupted(t, sdk.EffectsOnce)
		o := Options{Store: store}
		between(k, o)
		res := k.mustApply(o)
		if len(res.Failures) != 1 || res.Failures[0].Error.Code != CodeOutcomeUnknown || k.count("pay")+k.count("renamed") != 1 {
			t.Errorf("%s: %+v, pay was started %d times", name, res.Failures, k.count("pay")+k.count("renamed"))
		}
	}
}

// interrupted is a flow w → pay, killed in the middle of pay.
func interrupted(t *testing.T, effects sdk.Effects) (*fake, *checkpoint.MemoryStore) {
	store := checkpoint.NewMemoryStore()
	k := &fake{tb: t, steps: []fakeStep{{name: "w"}, {name: "pay", def: "pay", refs: hard(0), effects: effects}}}
	var crashed *checkpoint.MemoryStore
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.pay" && crashed == nil {
			crashed = store.Crash()
		}
		return hashAnswer(req)
	}
	k.mustApply(Options{Store: store})
	k.run = nil
	return k, crashed
}

// The refusal's advice works: with when = false the run goes on without it.
func TestUnknownOutcomeIsSettledByWhen(t *testing.T) {
	t.Parallel()
	k, store := interrupted(t, sdk.EffectsOnce)
	k.steps[1].cond = func(hcl.Upstream) bool { return false }
	res := k.mustApply(Options{Store: store})
	if res.Run.Status != checkpoint.RunSucceeded || res.Counts.Skipped != 1 || k.count("pay") != 1 {
		t.Fatalf("%s, %+v, pay was started %d times", res.Run.Status, res.Failures, k.count("pay"))
	}
}

// A step that may be repeated keeps its key: after an interruption, under
// another name, and with a rebuilt plugin.
func TestKeyOutlivesRenamesAndRebuilds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(k *fake){
		"renamed": func(k *fake) { k.steps[1].name = "other" },
		"rebuilt": func(k *fake) {
			a := *fakeArtifact
			a.Digest = sdk.Sum([]byte("rebuilt"))
			k.artifact = &a
		},
	} {
		k, store := interrupted(t, sdk.EffectsWrite)
		change(k)
		k.mustApply(Options{Store: store})
		keys := append(k.keys["pay"], k.keys["other"]...)
		if len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("%s: %q", name, keys)
		}
	}
	// A step that is persisted and then renamed in the same run is not repeated.
	k, _ := interrupted(t, sdk.EffectsWrite)
	k.steps = append(k.steps, fakeStep{name: "last", refs: hard(1)})
	store := checkpoint.NewMemoryStore()
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.last" && k.count("last") == 1 {
			return nil, errBoom
		}
		return hashAnswer(req)
	}
	k.counts = nil
	k.mustApply(Options{Store: store})
	k.steps[1].name = "other"
	if res := k.mustApply(Options{Store: store}); res.Run.Status != checkpoint.RunSucceeded || k.count("other") != 0 {
		t.Errorf("%s, the renamed step ran %d times", res.Run.Status, k.count("other"))
	}
}

// TestWhatHappenedOnceIsNotDoneForItsAnswer: a step that must happen once and whose
// answer was lost waits for a person, however its record is found; one that may be
// repeated is, under its key.
func TestWhatHappenedOnceIsNotDoneForItsAnswer(t *testing.T) {
	t.Parallel()
	const below = "\noutput \"more\" { value = 1 }\nstep \"more\" {\n uses = plugin.p.echo\n input = { v = [step.x.output, 1] }\n}\n"
	for name, c := range map[string]struct {
		before, after string
		calls, again  []string
		lost          string
	}{
		"as it was": {one(`"v"`, "effects = \"once\"\n"), one(`"v"`, "effects = \"once\"\n") + below,
			nil, []string{"below", "more", "x"}, "step.x"},
		"under another plan key": {one(`"v"`, "effects = \"once\"\n"), one(`lower("v")`, "effects = \"once\"\n") + below,
			nil, []string{"below", "more", "x"}, "step.x"},
		"an instance": {over(`["a", "b"]`, "effects = \"once\"\n"), over(`["b", "a"]`, "effects = \"once\"\n"),
			nil, nil, `step.x[`},
		"reuse = always": {one(`"v"`, "effects = \"once\"\ncheckpoint {\n reuse = \"always\"\n}\n"), one(`lower("v")`, "effects = \"once\"\ncheckpoint {\n reuse = \"always\"\n}\n") + below,
			nil, []string{"below", "more", "x"}, "step.x"},
		"one that may be repeated": {one(`"v"`, "effects = \"write\"\n"), one(`lower("v")`, "effects = \"write\"\n") + below,
			[]string{"below", "more", "x"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			store := &lossy{MemoryStore: checkpoint.NewMemoryStore()}
			s.store = store
			s.succeeds(c.before)
			s.called()
			store.lose = true
			status := checkpoint.RunFailed
			if c.lost == "" {
				status = checkpoint.RunSucceeded
			}
			for range 2 { // that it was refused once settles nothing
				res := s.apply(c.after, status)
				s.wantCalls("its answer is lost", c.calls...)
				if c.lost == "" {
					if keys := s.keys["x"]; keys[0] != keys[1] {
						t.Errorf("repeated under another key: %q", keys)
					}
					return
				}
				if f := res.Failures[0]; !strings.HasPrefix(f.Step, c.lost) || f.Error.Code != CodeOutcomeUnknown || !strings.Contains(f.Error.Message, "it has happened, but its stored output") {
					t.Errorf("%s: %+v", f.Step, f.Error)
				}
			}
			if c.again == nil {
				return
			}
			s.succeeds(c.after, "x")
			s.wantCalls("a person has asked for it", c.again...)
		})
	}
}

// TestARebuiltPluginRepeatsNoEffect: what has happened once and would do the same with
// another build waits for a person; with another input it is another effect. One that
// may be repeated is, under its key.
func TestARebuiltPluginRepeatsNoEffect(t *testing.T) {
	t.Parallel()
	rebuilt := *sceneArtifact
	rebuilt.Digest = sdk.Sum([]byte("another build"))
	for _, effects := range []string{"once", "write"} {
		t.Run(effects, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			flow := one(`"v"`, "effects = \""+effects+"\"\n")
			s.succeeds(flow)
			s.called()
			s.artifact = &rebuilt
			if effects == "write" {
				s.succeeds(flow)
				if keys := s.keys["x"]; len(keys) != 2 || keys[0] != keys[1] {
					t.Errorf("repeated under another key: %q", keys)
				}
				return
			}
			f, v := s.flow(flow)
			h, err := New(Options{Store: s.store})
			if err != nil {
				t.Fatal(err)
			}
			p, err := h.Plan(t.Context(), f, v, RunOptions{})
			if err != nil || !strings.Contains(p.Steps[0].Reason, "plugin p changed") || !strings.Contains(p.Steps[0].Reason, "waits for a person if it would do again what it did in run r_") {
				t.Errorf("%v: %+v", err, p)
			}
			res := s.fails(flow)
			s.wantCalls("it has happened")
			if e := res.Failures[0].Error; e.Code != CodeOutcomeUnknown || !strings.Contains(e.Message, "would do the same again: plugin p changed") {
				t.Errorf("%+v", e)
			}
			s.succeeds(flow, "x")
			s.wantCalls("a person has asked for it", "below", "x")
			s.succeeds(one(`"w"`, "effects = \"once\"\n"))
			s.wantCalls("another effect", "below", "x")

			// Nor what a person has said to have happened.
			s = newScene(t)
			if res, err := s.try(flow, Options{}, RunOptions{Set: map[string]json.RawMessage{"x": json.RawMessage(`"v"`)}}); err != nil || res.Run.Status != checkpoint.RunSucceeded {
				t.Fatalf("%v: %+v", err, res)
			}
			s.called()
			s.artifact = &rebuilt
			s.fails(flow)
			s.wantCalls("a person has said that it happened")
			s.succeeds(flow, "x")
			s.wantCalls("and asks for it now", "below", "x")
		})
	}
}

package host

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// one is a flow of a step x and one below it.
func one(value, more string) string {
	return `step "x" {
  uses  = plugin.p.echo
  input = { v = ` + value + ` }
  ` + more + `
}
step "below" {
  uses  = plugin.p.echo
  input = { v = [step.x.output, step.x.degraded] }
}
output "below" { value = step.below.output }
`
}

// Fallbacks are tried in their order after the retries; what they answer is
// degraded, good for this run, and due in the next.
func TestFallbackChain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	down := true
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch {
		case req.Step == "step.x" && req.StepType == "echo" && down:
			return nil, &sdk.Error{Class: sdk.ClassUnavailable, Message: "down"}
		case req.StepType == "other":
			if !strings.Contains(string(req.Input), `"class":"unavailable"`) {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "the fallback does not see why: " + string(req.Input)}
			}
			return nil, &sdk.Error{Class: sdk.ClassUnavailable, Message: "down as well"}
		}
		return nil, nil
	}
	text := one(`"答案"`, `
  retry {
    max_attempts = 2
    delay        = "1ms"
  }
  fallback {
    on     = [timeout]
    output = "not for this class"
  }
  fallback {
    uses  = plugin.p.other
    input = { v = self.input.v, error = self.error }
  }
  fallback { last = true }
  fallback { output = "后备" }`)
	res := s.succeeds(text)
	wantOutput(t, res, "below", `["后备",true]`)
	s.wantCalls("first run", "below", "x", "x", "x/other")
	if d := cmp.Diff([]string{"step.x"}, res.Degraded); d != "" || len(res.Skipped) != 0 {
		t.Error(d, res.Skipped)
	}
	// The next run asks again; a good answer replaces it.
	down = false
	res = s.succeeds(text)
	s.wantCalls("next run", "below", "x")
	wantOutput(t, res, "below", `["答案",false]`)
	if len(res.Degraded) != 0 || s.succeeds(text).Opened {
		t.Error("a good answer is current", res.Degraded)
	}
	// Now there is an earlier answer, whatever it was made from.
	down = true
	res = s.succeeds(strings.Replace(text, "答案", "新", 1))
	wantOutput(t, res, "below", `["答案",true]`)
	s.wantCalls("edited, and down", "below", "x", "x", "x/other")
	// It is still found behind a run in which the step was skipped.
	s.succeeds(strings.Replace(text, "答案\" }", "新\" }\n  when = false", 1))
	s.called()
	res = s.succeeds(strings.Replace(text, "答案", "更新", 1))
	wantOutput(t, res, "below", `["答案",true]`)
}

// A refusal is caught only where it is listed; what nobody catches fails the
// step, with what became of its fallbacks.
func TestFallbackCatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class    sdk.Class
		fallback string
		caught   bool
	}{
		{sdk.ClassRefused, "fallback {\n output = 1\n }", false},
		{sdk.ClassRefused, "fallback {\n on = [refused]\n output = 1\n }", true},
		{sdk.ClassInternal, "fallback {\n output = 1\n }", true},
		{sdk.ClassInternal, "fallback {\n on = [refused, timeout]\n output = 1\n }", false},
		{sdk.ClassUnavailable, "fallback {\n last = true\n }", false},
	} {
		s := newScene(t)
		s.failing(c.class, "x")
		want := checkpoint.RunFailed
		if c.caught {
			want = checkpoint.RunSucceeded
		}
		res := s.apply(one(`"v"`, c.fallback), want)
		if !c.caught && (len(res.Failures) != 1 || res.Failures[0].Error.Class != c.class || !strings.Contains(res.Failures[0].Error.Message, "不行 🙅")) {
			t.Errorf("%s with %s: %+v", c.class, c.fallback, res.Failures)
		}
	}
}

// on_failure = skip: the run goes on without the step, says so, and asks it
// again in the next run; while the same run goes on it is not asked again.
func TestSkippedAfterFailure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := `step "x" {
  uses       = plugin.p.echo
  on_failure = "skip"
  input      = { v = "x" }
}
step "hard" {
  uses  = plugin.p.echo
  input = { v = step.x.output }
}
step "soft" {
  uses  = plugin.p.echo
  input = { v = [try(step.x.output, "none"), step.x.status, step.x.error] }
}
step "last" {
  uses  = plugin.p.echo
  input = { v = step.soft.output }
}
output "soft" { value = step.soft.output }
`
	s.failing(sdk.ClassInternal, "x", "last")
	rec := &recorder{}
	res, err := s.try(text, Options{Observer: rec}, RunOptions{})
	if err != nil || res.Run.Status != checkpoint.RunFailed {
		t.Fatalf("%v %+v", err, res)
	}
	soft := `["none","skipped",{"class":"internal","message":"the model answers 不行 🙅"}]`
	wantOutput(t, res, "soft", soft)
	s.wantCalls("first", "last", "soft", "x")
	skipped := func(res *Result) {
		t.Helper()
		if len(res.Skipped) != 1 || res.Skipped[0].Step != "step.x" || res.Skipped[0].Error == nil || !strings.Contains(res.Skipped[0].Error.Message, "不行 🙅") {
			t.Errorf("skipped after a failure: %+v", res.Skipped)
		}
	}
	skipped(res)
	// The run goes on: x stays skipped, with its error.
	s.failing(sdk.ClassInternal, "x")
	rec = &recorder{}
	res, err = s.try(text, Options{Observer: rec}, RunOptions{})
	if err != nil || res.Run.Status != checkpoint.RunSucceeded || !res.Continued {
		t.Fatalf("%v %+v", err, res)
	}
	s.wantCalls("continued", "last")
	wantOutput(t, res, "soft", soft)
	skipped(res)
	for _, e := range rec.events {
		switch {
		case e.Type == EventSkipped && e.Step == "step.x" && e.Reason != "failed earlier in this run, and on_failure = skip":
			t.Errorf("x: %s", e.Reason)
		case e.Type == EventSkipped && e.Step == "step.hard" && !strings.HasPrefix(e.Reason, "upstream_"):
			t.Errorf("hard: %s", e.Reason)
		}
	}
	// The next run asks again: it fails as before, and nothing below changes.
	res = s.succeeds(text)
	s.wantCalls("next run", "x")
	skipped(res)
	s.run = nil
	res = s.succeeds(text)
	s.wantCalls("mended", "hard", "last", "soft", "x")
	wantOutput(t, res, "soft", `["x","succeeded",null]`)
	if len(res.Skipped) != 0 || s.succeeds(text).Opened {
		t.Errorf("%+v", res.Skipped)
	}
}

// An instance that failed and was skipped keeps its error when the run goes on
// before its collection was put together, and the collection stays due.
func TestSkippedInstanceKeepsItsError(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := `step "x" {
  uses       = plugin.p.echo
  for_each   = ["a", "b", "c"]
  on_failure = "skip"
  input      = { v = each.value }
}
step "below" {
  uses  = plugin.p.echo
  input = { v = [step.x.output, step.x.status, [for e in step.x.error : try(e.message, "")]] }
}
output "below" { value = step.below.output }
`
	store := checkpoint.NewMemoryStore()
	s.store = store
	var crashed *checkpoint.MemoryStore
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Instance == "1" {
			return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "不行"}
		}
		return nil, nil
	}
	seen := observerFunc(func(es []Event) {
		for _, e := range es {
			if e.Type == EventSkipped && e.Step == "step.x[1]" && crashed == nil {
				crashed = store.Crash()
			}
		}
	})
	want := `[["a",null,"c"],["succeeded","skipped","succeeded"],["","不行",""]]`
	res, err := s.try("workflow \"w\" { concurrency = 1 }\n"+text, Options{Observer: seen}, RunOptions{})
	if err != nil || crashed == nil {
		t.Fatal(err)
	}
	wantOutput(t, res, "below", want)
	s.called()
	s.store = crashed
	res = s.succeeds("workflow \"w\" { concurrency = 1 }\n" + text)
	if !res.Continued || slices.Contains(s.called(), "x[1]") {
		t.Errorf("continued %v, and the skipped instance ran again", res.Continued)
	}
	wantOutput(t, res, "below", want)
	if len(res.Skipped) != 1 || res.Skipped[0].Step != "step.x[1]" {
		t.Errorf("%+v", res.Skipped)
	}
	s.succeeds("workflow \"w\" { concurrency = 1 }\n" + text)
	s.wantCalls("next run", "x[1]")
}

// A fan-out with a degraded instance is due as a whole and runs that one.
func TestDegradedInstance(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := over(`["a", "b", "c"]`, "fallback {\n output = \"后备\"\n }")
	s.failing(sdk.ClassUnavailable, "x[1]")
	res := s.succeeds(text)
	wantOutput(t, res, "all", `["a","后备","c"]`)
	if d := cmp.Diff([]string{"step.x[1]"}, res.Degraded); d != "" {
		t.Error(d)
	}
	s.called()
	res = s.succeeds(text)
	s.wantCalls("still down", "x[1]")
	wantOutput(t, res, "all", `["a","后备","c"]`)
	s.run = nil
	res = s.succeeds(text)
	s.wantCalls("up again", "all", "x[1]")
	wantOutput(t, res, "all", `["a","b","c"]`)
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}
}

// A changed postcondition judges the stored answer again: what holds is taken
// without a run, what does not runs.
func TestPostconditionJudgesAgain(t *testing.T) {
	t.Parallel()
	post := func(condition string) string {
		return "postcondition {\n condition = " + condition + "\n error_message = \"太短: ${self.output}\"\n }"
	}
	s := newScene(t)
	s.succeeds(one(`"four"`, post(`length(self.output) > 1`)))
	s.called()
	s.succeeds(one(`"four"`, post(`length(self.output) > 2`)))
	s.wantCalls("the stored answer holds")
	if s.succeeds(one(`"four"`, post(`length(self.output) > 2`))).Opened {
		t.Error("judged once more although nothing changed")
	}
	rec := &recorder{}
	res, err := s.try(one(`"four"`, post(`length(self.output) > 8`)), Options{Observer: rec}, RunOptions{})
	if err != nil || res.Run.Status != checkpoint.RunFailed {
		t.Fatalf("%v %+v", err, res)
	}
	s.wantCalls("the stored answer fails", "x")
	if e := res.Failures[0].Error; e.Class != sdk.ClassValidation || e.Code != "postcondition" || e.Message != "太短: four" {
		t.Errorf("%+v", e)
	}
	if !slices.ContainsFunc(rec.events, func(e Event) bool {
		return e.Type == EventStarted && strings.Contains(e.Reason, "the stored answer fails them: 太短: four")
	}) {
		t.Error("the reason of the new attempt does not say what the stored answer lacked")
	}

	// An effect that is found by what the step receives is judged, and not repeated.
	s = newScene(t)
	s.succeeds(one(`"four"`, "effects = \"write\"\n"+post(`length(self.output) > 1`)))
	s.called()
	res = s.fails(one(`lower("four")`, "effects = \"write\"\n"+post(`length(self.output) > 8`)))
	s.wantCalls("the effect was made")
	if e := res.Failures[0].Error; e.Code != "postcondition" || !strings.Contains(e.Message, "does not run again for that") {
		t.Errorf("%+v", e)
	}

	// Of a collection, only the instances that fail run.
	s = newScene(t)
	s.succeeds(over(`["four", "nine days", "x"]`, post(`length(self.output) > 0`)))
	s.called()
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Instance == "2" {
			return sdk.Output("longer")
		}
		return nil, nil
	}
	res = s.succeeds(over(`["four", "nine days", "x"]`, post(`length(self.output) > 3`)))
	s.wantCalls("one of three", "all", "x[2]")
	wantOutput(t, res, "all", `["four","nine days","longer"]`)
}

// A precondition is judged before the step is paid for.
func TestPrecondition(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pre := "precondition {\n condition = local.n > 3\n error_message = \"n is ${local.n}\"\n }\n retry {\n max_attempts = 5\n }"
	res := s.fails(one(`"v"`, pre) + "locals { n = 2 }\n")
	s.wantCalls("it does not hold")
	if e := res.Failures[0].Error; e.Class != sdk.ClassInvalidInput || e.Message != "n is 2" || res.Failures[0].Attempts != 0 {
		t.Errorf("%+v", res.Failures)
	}
	s.succeeds(one(`"v"`, pre) + "locals { n = 4 }\n")
	s.wantCalls("it holds", "below", "x")
}

// A check that says no is a failed validation: the attempt is tried again and
// sees what was wrong; a check that answers nonsense is a mistake of its own.
func TestCheckRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch {
		case req.StepType == "judge":
			if strings.Contains(string(req.Input), "better") {
				return sdk.Output(map[string]any{"ok": true})
			}
			return sdk.Output(map[string]any{"ok": false, "reason": "太平淡"})
		case req.Step == "step.x" && req.Attempt > 1:
			if !strings.Contains(string(req.Input), "the check says no: 太平淡") {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "not told: " + string(req.Input)}
			}
			return sdk.Output("better")
		}
		return nil, nil
	}
	text := strings.Replace(one(`"plain"`, `
  check {
    uses  = plugin.p.judge
    input = { answer = self.output, asked = self.input.v }
  }
  retry {
    on           = [validation]
    max_attempts = 3
    delay        = "1ms"
  }`), `input = { v = "plain" }`, `input = { v = "plain", wrong = try(attempt.last_error.message, "") }`, 1)
	res := s.succeeds(text)
	wantOutput(t, res, "below", `["better",false]`)
	s.wantCalls("twice", "below", "x", "x", "x/judge", "x/judge")
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}

	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.StepType == "judge" {
			return sdk.Output("yes")
		}
		return nil, nil
	}
	res = s.fails(strings.Replace(text, "plain", "plainer", 1))
	if e := res.Failures[0].Error; e.Class != sdk.ClassProtocol || !strings.Contains(e.Message, `a check answers {"ok": true}`) {
		t.Errorf("%+v", e)
	}
}

// Instances with effects have keys of their own, the same when they are
// repeated; one whose outcome is unknown waits for a person, alone.
func TestInstancesWithEffects(t *testing.T) {
	t.Parallel()
	for _, use := range []string{"mail", "pay"} {
		s := newScene(t)
		text := "workflow \"w\" { concurrency = 1 }\n" + strings.Replace(over(`["a", "b", "c"]`, ""), "plugin.p.echo", "plugin.p."+use, 1)
		store := checkpoint.NewMemoryStore()
		s.store = store
		var crashed *checkpoint.MemoryStore
		s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			if req.Instance == "1" && crashed == nil {
				crashed = store.Crash()
			}
			return nil, nil
		}
		s.succeeds(text)
		first := s.keys
		all := slices.Concat(first["x[0]"], first["x[1]"], first["x[2]"])
		slices.Sort(all)
		if len(all) != 3 || len(slices.Compact(all)) != 3 {
			t.Fatalf("%s: keys %q", use, first)
		}
		s.called()
		s.store, s.keys = crashed, nil
		if use == "mail" {
			s.succeeds(text)
			s.wantCalls("mail, after the crash", "all", "x[1]", "x[2]")
			if d := cmp.Diff(first["x[1]"], s.keys["x[1]"]); d != "" {
				t.Errorf("the effect was repeated under another key: %s", d)
			}
			s.succeeds(text, "step.x[1]")
			if s.wantCalls("mail, asked for", "x[1]"); s.keys["x[1]"][1] == first["x[1]"][0] {
				t.Error("--rerun used the old key")
			}
			continue
		}
		res := s.fails(text)
		s.wantCalls("pay, after the crash", "x[2]")
		if len(res.Failures) != 1 || res.Failures[0].Step != "step.x[1]" || res.Failures[0].Error.Code != CodeOutcomeUnknown {
			t.Fatalf("%+v", res.Failures)
		}
		// In another place it is the same payment.
		res = s.fails(strings.Replace(text, `"a", "b", "c"`, `"z", "a", "b", "c"`, 1))
		s.wantCalls("pay, moved", "x[0]")
		if len(res.Failures) != 1 || res.Failures[0].Step != "step.x[2]" || res.Failures[0].Error.Code != CodeOutcomeUnknown {
			t.Fatalf("moved: %+v", res.Failures)
		}
		s.succeeds(text, "step.x[1]")
		s.wantCalls("pay, settled", "all", "x[1]")
	}
}

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

// told is a flow of which nearly everything reaches beyond the sandbox.
const told = `workflow "w" {}
variable "topic" { default = "猫" }
secret "key" { env = "KEY" }
step "pure" {
  uses  = plugin.p.echo
  input = { v = "about ${var.topic}" }
}
step "ask" {
  uses    = plugin.p.echo
  effects = "read"
  input   = { v = step.pure.output, key = secret.key }
  retry {
    on           = [unavailable, validation]
    max_attempts = 5
    delay        = "1h"
  }
  postcondition {
    condition     = self.output != "no good"
    error_message = "不行"
  }
  fallback { output = "a fallback" }
}
step "fan" {
  uses     = plugin.p.echo
  effects  = "read"
  for_each = ["a", "b"]
  input    = { v = [each.value, step.ask.output] }
  fallback {
    on    = [unavailable]
    uses  = plugin.p.other
    input = self.input
  }
}
step "pay" {
  uses  = plugin.p.pay
  input = { v = step.ask.output }
}
output "all" { value = [step.ask.output, step.fan.output, step.pay.output, run.id] }
`

// script answers as the world did when the run was recorded.
func script(attempts *int) func(context.Context, *sdk.Request) (*sdk.Response, error) {
	return func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch {
		case req.Step == "step.ask":
			switch *attempts++; *attempts {
			case 1:
				return nil, unavailable("away")
			case 2:
				return &sdk.Response{Output: []byte(`"no good"`)}, nil
			}
		case req.Step == "step.fan" && req.StepType == "echo" && strings.Contains(string(req.Input), `"b"`):
			return nil, unavailable("b is away")
		}
		return nil, nil
	}
}

// record applies a flow in a scene and reads what it was answered.
func record(t *testing.T, s *scene, text string) (*Result, *recorder, *Recording) {
	t.Helper()
	rec := &recorder{}
	res, err := s.try(text, Options{Observer: rec, Environ: []string{"KEY=k3y-of-the-world"}, NoWait: true}, RunOptions{})
	if err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v %+v", err, res)
	}
	var seqs []checkpoint.Seq
	for _, e := range rec.events {
		if e.Seq > 0 && (e.Type == EventSucceeded || e.Type == EventReused) {
			seqs = append(seqs, e.Seq)
		}
	}
	answers, err := ReadRecording(context.Background(), s.store, DefaultTenant, res.Run.ID, seqs)
	if err != nil {
		t.Fatal(err)
	}
	return res, rec, answers
}

// replayed applies a flow with what was recorded, without a secret.
func replayed(t *testing.T, s *scene, text string, answers *Recording) (*Result, *recorder) {
	t.Helper()
	rec := &recorder{}
	res, err := s.try(text, Options{Store: checkpoint.NewMemoryStore(), Observer: rec, NoWait: true}, RunOptions{Replay: answers})
	if err != nil {
		t.Fatal(err)
	}
	return res, rec
}

// What a run was answered, failures and fallbacks too, is answered again; only
// pure steps are called.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := 0
	s.run = script(&n)
	first, was, answers := record(t, s, told)
	s.called()
	res, is := replayed(t, s, told, answers)
	s.wantCalls("replayed", "pure")
	if d := cmp.Diff(first.Outputs, res.Outputs); d != "" || res.Run.Status != checkpoint.RunSucceeded || !res.Replayed || res.Run.ID != first.Run.ID {
		t.Errorf("%s %+v", d, res)
	}
	if d := cmp.Diff(first.Degraded, res.Degraded); d != "" {
		t.Error(d)
	}
	facts := func(r *recorder) (all []string) {
		for _, step := range []string{"step.ask", "step.fan[0]", "step.fan[1]", "step.pay"} {
			for _, e := range r.events {
				if e.Step == step && e.Type != EventPersisted {
					all = append(all, e.String())
				}
			}
		}
		return all
	}
	if d := cmp.Diff(facts(was), facts(is)); d != "" {
		t.Errorf("events (-recorded +replayed):\n%s", d)
	}
	if is.events[0].Reason == "" {
		t.Error("it does not say that it is a replay")
	}
	// A later run replaces records; what this one was answered stays.
	s.run = nil
	if res, err := s.try(told, Options{Environ: []string{"KEY=k3y-of-the-world"}}, RunOptions{Rerun: []string{"ask", "fan"}}); err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v %+v", err, res)
	}
	s.called()
	if res, _ := replayed(t, s, told, answers); cmp.Diff(first.Outputs, res.Outputs) != "" {
		t.Errorf("after a later run: %+v", res)
	}
}

// A question that was not asked has no answer: neither the world nor a fallback
// gives one.
func TestReplayOfAnotherQuestion(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	n := 0
	s.run = script(&n)
	_, _, answers := record(t, s, told)
	s.called()
	res, _ := replayed(t, s, strings.Replace(told, "about ${", "of ${", 1), answers)
	s.wantCalls("another prompt", "pure")
	if res.Run.Status != checkpoint.RunFailed || len(res.Failures) != 1 || res.Failures[0].Step != "step.ask" {
		t.Fatalf("%s %+v", res.Run.Status, res.Failures)
	}
	if e := res.Failures[0].Error; e.Code != CodeNotRecorded || !strings.Contains(e.Message, "step.ask was never asked this: its input, its plugin or the flow has changed since") {
		t.Error(e)
	}
	// The answer that was refused then holds under other postconditions; with it,
	// what is below asks something else. Refused once more often, there is no
	// other answer.
	for refused, failed := range map[string][]string{"about 猫": {"step.fan[0]", "step.fan[1]", "step.pay"}, `${"no good"}", "about 猫`: {"step.ask"}} {
		text := strings.Replace(told, `self.output != "no good"`, `!contains(["`+refused+`"], self.output)`, 1)
		res, _ := replayed(t, s, text, answers)
		var names []string
		for _, f := range res.Failures {
			if names = append(names, f.Step); f.Error.Code != CodeNotRecorded {
				t.Errorf("%s: %v", f.Step, f.Error)
			}
		}
		slices.Sort(names)
		if d := cmp.Diff(failed, names); d != "" {
			t.Errorf("refusing %s (-want +failed):\n%s", refused, d)
		}
	}
	other := strings.Replace(told, `workflow "w"`, `workflow "other"`, 1)
	if _, err := s.try(other, Options{Store: checkpoint.NewMemoryStore()}, RunOptions{Replay: answers}); err == nil || !strings.Contains(err.Error(), `is one of workflow "w"`) {
		t.Error(err)
	}
	if _, err := ReadRecording(context.Background(), s.store, DefaultTenant, "r_none", nil); err == nil || !strings.Contains(err.Error(), "not in the store any more") {
		t.Error(err)
	}
}

package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
)

// The plan says how many instances there will be, or which step that waits for;
// explain looks at one of them.
func TestForeseenInstances(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := `step "a" {
  uses  = plugin.p.echo
  input = { v = ["p", "q", "r"] }
}
step "known" {
  uses     = plugin.p.echo
  for_each = ["一", "二"]
  input    = { v = each.value }
}
step "chained" {
  uses     = plugin.p.echo
  for_each = step.known.output
  input    = { v = "${each.value}~" }
}
step "later" {
  uses     = plugin.p.echo
  for_each = step.a.output
  input    = { v = "${each.value}!" }
}
step "below" {
  uses     = plugin.p.echo
  for_each = step.later.output
  input    = { v = each.value }
}
`
	plan := func(text string) map[string]PlannedStep {
		t.Helper()
		f, v := s.flow(text)
		h, err := New(Options{Store: s.store})
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.Plan(context.Background(), f, v, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]PlannedStep{}
		for _, ps := range p.Steps {
			m[strings.TrimPrefix(ps.Step, "step.")] = ps
		}
		return m
	}
	want := func(m map[string]PlannedStep, step string, n int, after string) {
		t.Helper()
		ps := m[step]
		if (ps.Instances == nil) != (n < 0) || n >= 0 && *ps.Instances != n || ps.KnownAfter != after {
			t.Errorf("%s: %v instances, known after %q", step, ps.Instances, ps.KnownAfter)
		}
	}
	m := plan(text)
	want(m, "a", -1, "")
	want(m, "known", 2, "")
	want(m, "chained", 2, "")
	want(m, "later", -1, "step.a")
	want(m, "below", -1, "step.a")
	s.succeeds(text)
	m = plan(text)
	want(m, "later", 3, "")
	edited := strings.Replace(text, "!", "?", 1)
	m = plan(edited) // a is current, so the collection can be evaluated
	want(m, "later", 3, "")
	want(m, "below", 3, "")

	explain := func(text, address string) (*Explanation, error) {
		t.Helper()
		f, v := s.flow(text)
		h, _ := New(Options{Store: s.store})
		return h.Explain(context.Background(), f, v, RunOptions{}, address)
	}
	e, err := explain(text, "later[1]")
	if err != nil || e.Step != "step.later[1]" || e.Action != "reuse" || e.Record == nil || e.Keys.Plan != e.Record.Plan || e.Keys.Local != e.Record.Local {
		t.Fatalf("%v %+v", err, e)
	}
	e, err = explain(edited, "later[1]")
	if err != nil || e.Action != "run" || !strings.Contains(e.Reason, "input.v changed") || len(e.Changes) == 0 || e.Keys.Content == (checkpoint.Fingerprint{}) {
		t.Fatalf("%v %+v", err, e)
	}
	if e, err = explain(edited, "below[1]"); err != nil || e.Action != "decide" || !strings.Contains(e.Reason, "unknown until step.later") {
		t.Fatalf("%v %+v", err, e)
	}
	// One more in front: what is there has moved.
	if e, err = explain(strings.Replace(text, `["一"`, `["零", "一"`, 1), "known[1]"); err != nil || e.Action != "reuse" || e.Reason != "moved from step.known[0]" {
		t.Fatalf("%v %+v", err, e)
	}
	var usage *UsageError
	for _, address := range []string{"later[3]", `later["x"]`, "later[", "later[0", "a[0]"} {
		if _, err = explain(text, address); !errors.As(err, &usage) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

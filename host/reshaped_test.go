package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// cutOff is a scene after a crash in the middle of the first attempt of a flow.
func cutOff(t *testing.T, flow string) *scene {
	t.Helper()
	s := newScene(t)
	var crashed *checkpoint.MemoryStore
	var once sync.Once
	s.run = func(context.Context, *sdk.Request) (*sdk.Response, error) {
		once.Do(func() { crashed = s.store.(*checkpoint.MemoryStore).Crash() })
		return nil, nil
	}
	if _, err := s.try(flow, Options{}, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	s.store = crashed
	return s
}

// What may have happened outlives that its step is renamed and another step is given
// its name.
func TestEffectsOutliveTheirName(t *testing.T) {
	t.Parallel()
	step := func(name, uses string, v int) string {
		return fmt.Sprintf("step %q {\n  uses  = plugin.p.%s\n  input = { v = %d }\n}\n", name, uses, v)
	}
	once := cutOff(t, step("o", "pay", 1))
	flow := step("p", "pay", 1) + step("o", "pay", 2)
	f, v := once.flow(flow)
	h, err := New(Options{Store: once.store})
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Plan(t.Context(), f, v, RunOptions{})
	if err != nil || !strings.Contains(fmt.Sprint(p.Steps), "never ran; waits for a person if it does what may have happened: as step.o, attempt 1 of run ") {
		t.Fatalf("%v %+v", err, p)
	}
	for range 2 {
		if res, err := once.try(flow, Options{}, RunOptions{}); err != nil || len(res.Failures) != 2 || len(once.ran) != 1 {
			t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
		}
	}
	for range 2 { // settling the one does not settle the other
		if res, err := once.try(flow, Options{}, RunOptions{Rerun: []string{"o"}}); err != nil || len(res.Failures) != 1 || res.Failures[0].Step != "step.p" {
			t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
		}
	}
	if res, err := once.try(flow, Options{}, RunOptions{Rerun: []string{"p"}}); err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
	}
	again := cutOff(t, step("o", "mail", 1))
	if res, err := again.try(step("p", "mail", 1)+step("o", "mail", 2), Options{}, RunOptions{}); err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v, %+v", err, res)
	}
	if o, p := again.keys["o"], again.keys["p"]; len(o) != 2 || len(p) != 1 || o[0] != p[0] || o[0] == o[1] {
		t.Errorf("keys of o %q, of p %q", o, p)
	}
	// Steps that do the same are two, whichever was cut off.
	twins := step("a", "mail", 1) + step("b", "mail", 1)
	both := cutOff(t, twins)
	if res, err := both.try(twins, Options{}, RunOptions{}); err != nil || res.Run.Status != checkpoint.RunSucceeded {
		t.Fatalf("%v, %+v", err, res)
	}
	a, b := both.keys["a"], both.keys["b"]
	if slices.Contains(a, b[0]) || len(slices.Compact(a)) != 1 || len(slices.Compact(b)) != 1 {
		t.Errorf("keys of a %q, of b %q", a, b)
	}
}

// What may have happened outlives that its step gets a for_each, or loses it: what
// must happen once waits for a person, whatever its input is by then, and what may
// be repeated is repeated under its key.
func TestEffectsOutliveALoop(t *testing.T) {
	t.Parallel()
	const loop = `for_each = ["x"]`
	step := func(uses, loop string, v int) string {
		return fmt.Sprintf("step \"o\" {\n  uses  = plugin.p.%s\n  %s\n  input = { v = %d }\n}\n", uses, loop, v)
	}
	for name, c := range map[string]struct{ before, after, address string }{"new": {"", loop, "step.o[0]"}, "gone": {loop, "", "step.o"}} {
		for _, v := range []int{1, 2} {
			t.Run(fmt.Sprint(name, v), func(t *testing.T) {
				t.Parallel()
				once := cutOff(t, step("pay", c.before, 1))
				res, err := once.try(step("pay", c.after, v), Options{}, RunOptions{})
				if err != nil || len(res.Failures) == 0 || res.Failures[0].Error.Code != CodeOutcomeUnknown || len(once.ran) != 1 {
					t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
				}
				// A person settles it, and then it is settled.
				if res, err = once.try(step("pay", c.after, v), Options{}, RunOptions{Rerun: []string{c.address}}); err != nil || res.Run.Status != checkpoint.RunSucceeded || len(once.ran) != 2 {
					t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
				}
				if res, err = once.try(step("pay", c.after, v+5), Options{}, RunOptions{}); err != nil || res.Run.Status != checkpoint.RunSucceeded || len(once.ran) != 3 {
					t.Fatalf("%v, ran %q, %+v", err, once.ran, res)
				}
				again := cutOff(t, step("mail", c.before, 1))
				if _, err := again.try(step("mail", c.after, 1), Options{}, RunOptions{}); err != nil {
					t.Fatal(err)
				}
				if keys := slices.Concat(again.keys["o"], again.keys["o[0]"]); len(keys) != 2 || keys[0] != keys[1] {
					t.Errorf("keys %q", keys)
				}
			})
		}
	}
}

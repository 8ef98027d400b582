package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// saga has two steps with effects and undos, and one below that fails while
// broken.
type saga struct {
	*fake
	mu     sync.Mutex
	done   []string // steps and undos that succeeded, in order
	broken bool
	refuse string // the step whose undo fails
	keys   map[string]map[string]bool
}

func newSaga(t *testing.T) *saga {
	s := &saga{broken: true, keys: map[string]map[string]bool{}}
	s.fake = &fake{tb: t, steps: []fakeStep{
		{name: "hotel", effects: sdk.EffectsWrite, undo: true},
		{name: "flight", refs: hard(0), effects: sdk.EffectsWrite, undo: true},
		{name: "pure", refs: hard(1)},
		{name: "pay", refs: hard(2)},
	}}
	s.fake.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := strings.TrimPrefix(req.Step, "step.")
		if req.StepType == "undo" {
			name = "undo " + strings.TrimPrefix(req.Step, "undo of step.")
			if s.keys[name] == nil {
				s.keys[name] = map[string]bool{}
			}
			s.keys[name][req.IdempotencyKey] = true
			if name == "undo "+s.refuse {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "no"}
			}
			if !strings.Contains(string(req.Input), name[len("undo "):]) {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "not its input: " + string(req.Input)}
			}
		} else if name == "pay" && s.broken {
			return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "declined"}
		}
		s.done = append(s.done, name)
		return &sdk.Response{Output: []byte(`"` + name + ` done"`)}, nil
	}
	return s
}

func (s *saga) expect(t *testing.T, what string, res *Result, status checkpoint.RunStatus, done ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if res.Run.Status != status || !slices.Equal(s.done, done) {
		t.Fatalf("%s: run is %s, done was %q, want %s and %q", what, res.Run.Status, s.done, status, done)
	}
	s.done = nil
}

// TestCompensation: a failed run takes back what it has done, newest first, and
// the next one begins anew.
func TestCompensation(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	o := Options{Store: checkpoint.NewMemoryStore()}
	first := s.mustApply(o)
	s.expect(t, "failed run", first, checkpoint.RunCompensated, "hotel", "flight", "pure", "undo flight", "undo hotel")
	if len(first.Failures) != 1 || first.Failures[0].Step != "step.pay" {
		t.Fatalf("failures are %v", first.Failures)
	}
	s.broken = false
	next := s.mustApply(o)
	s.expect(t, "run after it", next, checkpoint.RunSucceeded, "hotel", "flight", "pay")
	if next.Run.Follows != "" || next.Run.ID == first.Run.ID {
		t.Fatalf("the next run %s follows %q", next.Run.ID, next.Run.Follows)
	}
	if again := s.mustApply(o); again.Opened {
		t.Fatal("a third apply ran something")
	}
}

// TestCompensationGoesOn: an undo that fails is tried again by the next apply,
// which does nothing else, under the same idempotency key.
func TestCompensationGoesOn(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	s.refuse = "flight"
	o := Options{Store: checkpoint.NewMemoryStore()}
	res := s.mustApply(o)
	s.expect(t, "failed undo", res, checkpoint.RunFailed, "hotel", "flight", "pure", "undo hotel")
	if !slices.Equal(res.Run.NotUndone, []string{"step.flight"}) {
		t.Fatalf("not undone: %q", res.Run.NotUndone)
	}
	var usage *UsageError
	if _, err := s.apply(context.Background(), o, RunOptions{New: true}); !errors.As(err, &usage) || !strings.Contains(usage.Message, "step.flight") {
		t.Fatalf("what is not undone was abandoned: %v", err)
	}
	s.broken, s.refuse = false, ""
	s.expect(t, "second try", s.mustApply(o), checkpoint.RunCompensated, "undo flight")
	if len(s.keys["undo flight"]) != 1 {
		t.Fatalf("the undo had the keys %v", s.keys["undo flight"])
	}
	s.expect(t, "afterwards", s.mustApply(o), checkpoint.RunSucceeded, "hotel", "flight", "pay")
}

// TestCompensationSurvives: an apply that ends in the middle of the undo is
// carried on by the next, and nothing is undone twice.
func TestCompensationSurvives(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	o := Options{Store: checkpoint.NewMemoryStore(), Observer: watch(func(e *Event) {
		if e.Type == EventUndone {
			cancel(errors.New("killed"))
		}
	})}
	res, err := s.apply(ctx, o, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.expect(t, "cancelled undo", res, checkpoint.RunCompensating, "hotel", "flight", "pure", "undo flight")
	o.Observer = nil
	s.expect(t, "carried on", s.mustApply(o), checkpoint.RunCompensated, "undo hotel")
}

// TestCompensationOfTheWholeChain: what earlier runs of the chain did is taken
// back too, also what an edit has replaced since.
func TestCompensationOfTheWholeChain(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	s.broken = false
	o := Options{Store: checkpoint.NewMemoryStore()}
	s.expect(t, "first run", s.mustApply(o), checkpoint.RunSucceeded, "hotel", "flight", "pure", "pay")
	s.steps[0].def, s.steps[3].def, s.broken = "another hotel", "another payment", true
	s.expect(t, "failed run", s.mustApply(o), checkpoint.RunCompensated, "hotel", "undo hotel", "undo flight", "undo hotel")
	if len(s.keys["undo hotel"]) != 2 {
		t.Fatalf("two bookings were cancelled under %d keys", len(s.keys["undo hotel"]))
	}
}

// TestCancelDoesNotCompensate: what a cancelled run has done stays.
func TestCancelDoesNotCompensate(t *testing.T) {
	t.Parallel()
	s := newSaga(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	o := Options{Store: checkpoint.NewMemoryStore(), Observer: watch(func(e *Event) {
		if e.Type == EventSucceeded && e.Step == "step.flight" {
			cancel(errors.New("enough"))
		}
	})}
	res, err := s.apply(ctx, o, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Run.Status != checkpoint.RunCancelled || slices.ContainsFunc(s.done, func(d string) bool { return strings.HasPrefix(d, "undo") }) {
		t.Fatalf("run is %s, done was %q", res.Run.Status, s.done)
	}
}

type watch func(e *Event)

func (w watch) Observe(events []Event) {
	for i := range events {
		w(&events[i])
	}
}

// TestNothingIsUndoneWhileAQuestionIsOpen: where nobody knows whether a step without an
// undo has happened, the run is not compensated: it would be forgotten with that.
func TestNothingIsUndoneWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	flow := `workflow "w" { on_failure = compensate }
step "it" {
  uses    = plugin.p.mail
  input   = { v = 1 }
  compensate {
    uses  = plugin.p.echo
    input = { v = "undo" }
  }
}
step "o" {
  uses  = plugin.p.pay
  input = { v = step.it.output }
}
`
	s := newScene(t)
	var crashed *checkpoint.MemoryStore
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.StepType == "pay" && crashed == nil {
			crashed = s.store.(*checkpoint.MemoryStore).Crash()
		}
		return nil, nil
	}
	s.succeeds(flow)
	s.store = crashed
	s.called()
	for range 2 {
		res := s.fails(flow)
		if res.Failures[0].Error.Code != CodeOutcomeUnknown {
			t.Fatalf("%+v", res.Failures)
		}
		s.wantCalls("a question is open")
	}
	s.succeeds(flow, "o")
	s.wantCalls("it is answered", "o")
}

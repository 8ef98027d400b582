package host

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// The breaker opens after so many calls in a row without an answer, and closes
// with one; while it is open one call in each cooldown is made.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &breaker{}
		b.set(hcl.Breaker{Failures: 3, Cooldown: time.Minute})
		away, slow := &sdk.Error{Class: sdk.ClassUnavailable}, &sdk.Error{Class: sdk.ClassTimeout}
		closed := func(want bool, when string) {
			t.Helper()
			if err := b.ask("ai"); (err == nil) != want {
				t.Errorf("%s: %v", when, err)
			}
		}
		for _, told := range []*sdk.Error{nil, {Class: sdk.ClassRateLimited}, {Class: sdk.ClassRefused}, {Class: sdk.ClassAPIError}, {Class: sdk.ClassValidation}} {
			b.ended(away)
			b.ended(slow)
			b.ended(told) // whatever it says, it is there
		}
		b.ended(away)
		b.ended(slow)
		closed(true, "two in a row")
		b.ended(&sdk.Error{Class: sdk.ClassCancelled}) // says nothing of the server
		b.ended(away)
		closed(false, "three in a row")
		if err := b.ask("ai"); err.Class != sdk.ClassUnavailable || err.Code != CodeCircuitOpen || !strings.Contains(err.Message, "plugin ai was not asked: its last 3 calls were not answered, and it is tried again in 1m0s") {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		closed(true, "after the cooldown")
		closed(false, "beside the one that tries")
		b.ended(slow)
		time.Sleep(59 * time.Second)
		closed(false, "tried in vain")
		time.Sleep(time.Second)
		closed(true, "a cooldown later")
		b.ended(nil)
		closed(true, "answered")
		closed(true, "answered, and another")
	})
}

// With a fallback a plugin that does not answer is asked a few times, not by
// each step: attempts are calls, and why the fallback answers is recorded.
// Without one it is asked all the same.
func TestBreakerInARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		var asked, bare atomic.Int32
		var down atomic.Bool
		down.Store(true)
		s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			switch {
			case req.StepType == "other":
				return nil, nil
			case req.Step == "step.bare":
				bare.Add(1)
			default:
				asked.Add(1)
			}
			if down.Load() {
				return nil, unavailable("gone")
			}
			return nil, nil
		}
		text := `workflow "w" { concurrency = 1 }
plugin "first" {
  source = "./p.wasm"
  config = { url = "first" }
  breaker { failures = 3 }
}
step "fan" {
  uses     = plugin.first.echo
  for_each = range(20)
  input    = { v = each.value }
  retry {
    max_attempts = 2
    delay        = "0s"
  }
  fallback {
    uses  = plugin.p.other
    input = self.input
  }
}
step "bare" {
  uses       = plugin.first.echo
  depends_on = [step.fan]
  on_failure = skip
  input      = { v = 1 }
  retry {
    max_attempts = 2
    delay        = "0s"
  }
}
`
		rec := &recorder{}
		res, err := s.try(text, Options{Observer: rec}, RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded || len(res.Degraded) != 20 {
			t.Fatalf("%v %+v", err, res)
		}
		if asked.Load() != 3 || bare.Load() != 2 {
			t.Errorf("it was asked %d times, and %d times without a fallback", asked.Load(), bare.Load())
		}
		n := map[EventType]int{}
		for _, e := range rec.events {
			if strings.HasPrefix(e.Step, "step.fan[") {
				n[e.Type]++
				if e.Type == EventBypassed && (e.Error.Code != CodeCircuitOpen || e.Reason != "falls back to plugin.p.other" || e.Attempt != 0) {
					t.Errorf("%+v", e)
				}
			}
		}
		// Of 23 attempts 3 asked the first plugin, none a second time; the other 20 the
		// other one.
		if n[EventStarted] != 23 || n[EventAttemptFailed] != 3 || n[EventBypassed] != 20 || n[EventSucceeded] != 20 {
			t.Errorf("events: %v", n)
		}
		attempts, err := s.store.Attempts(context.Background(), DefaultTenant, res.Run.ID)
		if err != nil || len(attempts) != 3+2 {
			t.Errorf("%d failed attempts are recorded, %v", len(attempts), err)
		}
		ix, err := s.store.Snapshot(context.Background(), DefaultTenant, "w")
		if err != nil {
			t.Fatal(err)
		}
		for hd := range ix.Heads() {
			if hd.Step != "step.fan" || hd.Instance == "" {
				continue
			}
			r, err := s.store.Record(context.Background(), DefaultTenant, hd.Seq)
			if err != nil || !r.Degraded || r.Context.Error == nil || !slices.Contains([]string{CodeCircuitOpen, ""}, r.Context.Error.Code) {
				t.Errorf("%s: %+v, %v", hd.Instance, r, err)
			}
		}
		// It is back: the next run asks it.
		down.Store(false)
		asked.Store(0)
		if res := s.succeeds(text); asked.Load() != 20 || len(res.Degraded) != 0 {
			t.Errorf("it was asked %d times, %v", asked.Load(), res.Degraded)
		}
	})
}

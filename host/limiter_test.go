package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// traffic is what a server of models sees: when each call began and ended.
type traffic struct {
	took   time.Duration // of a call
	tokens int64         // that each uses
	answer func(n int, req *sdk.Request) *sdk.Error

	mu     sync.Mutex
	began  time.Time
	starts []time.Duration
	who    []string
	under  int
	most   int
}

func (x *traffic) run(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if strings.HasPrefix(req.Step, "step.free") {
		return nil, nil
	}
	x.mu.Lock()
	n := len(x.starts)
	x.starts = append(x.starts, time.Since(x.began))
	x.who = append(x.who, hcl.InstanceAddress(req.Step, req.Instance))
	x.under++
	x.most = max(x.most, x.under)
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.under--
		x.mu.Unlock()
	}()
	select {
	case <-time.After(x.took):
	case <-ctx.Done():
		return nil, sdk.Ended(ctx)
	}
	if x.answer != nil {
		if err := x.answer(n, req); err != nil {
			return nil, err
		}
	}
	return &sdk.Response{Output: []byte(`"x"`), Usage: []sdk.Usage{{Model: "m", Calls: 1, Counted: 1, OutputTokens: x.tokens}}}, nil
}

// busiest is the most calls that began in any minute.
func (x *traffic) busiest() (most int) {
	for i := range x.starts {
		n := 0
		for _, s := range x.starts[i:] {
			if s-x.starts[i] < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// limited is a fan-out of n calls through a plugin with a limiter, and a step
// beside it.
func limited(n int, limiter, more string) string {
	return fmt.Sprintf(`workflow "w" { concurrency = 4 }
plugin "q" {
  source = "./p.wasm"
  limiter { %s }
}
step "fan" {
  uses     = plugin.q.echo
  for_each = range(%d)
  input    = { v = each.value }
  %s
}
step "free" {
  uses  = plugin.p.echo
  input = { v = 1 }
}
step "free2" {
  uses       = plugin.p.echo
  depends_on = [step.free]
  input      = { v = 2 }
}
`, limiter, n, more)
}

// throttled applies a limited flow in virtual time.
func throttled(t *testing.T, x *traffic, text string, check func(t *testing.T, res *Result, rec *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		x.began = time.Now()
		s.run = x.run
		rec := &recorder{}
		res, err := s.try(text, Options{Observer: rec}, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		check(t, res, rec)
	})
}

// when is the time of the first event of a type about a step, since the run
// began.
func (r *recorder) when(t EventType, step string) time.Duration {
	for _, e := range r.events {
		if e.Type == t && e.Step == step {
			return e.Time.Sub(r.events[0].Time)
		}
	}
	return -1
}

// TestOneAtATime: a native plugin whose manifest does not say that it is concurrent
// takes one attempt at a time. The others have not begun: no clock runs, and of an
// attempt with effects nothing says that it may have happened.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		native := *sceneArtifact
		native.Kind = loader.Native
		s.artifact = &native
		x := &traffic{took: 300 * time.Millisecond, began: time.Now()}
		s.run = x.run
		rec := &recorder{}
		res, err := s.try(`step "o" {
  uses     = plugin.p.pay
  for_each = range(5)
  input    = { v = each.value }
  timeout  = "700ms"
}`, Options{Observer: rec}, RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded || x.most != 1 {
			t.Fatalf("%v, %d at once: %+v", err, x.most, res)
		}
		var last time.Duration
		for i := range 5 {
			last = max(last, rec.when(EventStarted, fmt.Sprintf("step.o[%d]", i)))
		}
		if last < 1200*time.Millisecond {
			t.Errorf("the last began %s after the run", last)
		}
	})
}

// What a plugin may be asked holds in any minute and at any time, and those who
// wait are in nobody's way.
func TestLimiter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limiter string
		x       *traffic
		n       int
		minute  int // calls in any minute at most
		most    int // calls at once
		took    time.Duration
		why     string
	}{
		"requests":           {"requests_per_minute = 10", &traffic{took: time.Second}, 35, 10, 4, 3*time.Minute + 2*time.Second, "requests_per_minute = 10"},
		"slow calls":         {"requests_per_minute = 2", &traffic{took: 90 * time.Second}, 4, 2, 4, 150 * time.Second, "requests_per_minute = 2"},
		"calls at once":      {"concurrency = 2", &traffic{took: time.Minute}, 6, 4, 2, 3 * time.Minute, "concurrency = 2"},
		"tokens, at first":   {"tokens_per_minute = 2200", &traffic{took: 10 * time.Second, tokens: 1020}, 4, 2, 2, 70 * time.Second, "tokens_per_minute = 2200"},
		"tokens, settled":    {"tokens_per_minute = 2200", &traffic{took: 10 * time.Second, tokens: 10}, 4, 4, 2, 20 * time.Second, "tokens_per_minute = 2200"},
		"more than a minute": {"tokens_per_minute = 100", &traffic{took: time.Second, tokens: 500}, 3, 1, 1, 2*time.Minute + time.Second, "tokens_per_minute = 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			throttled(t, c.x, limited(c.n, c.limiter, ""), func(t *testing.T, res *Result, rec *recorder) {
				if res.Run.Status != checkpoint.RunSucceeded || len(c.x.starts) != c.n {
					t.Fatalf("%s after %d calls: %+v", res.Run.Status, len(c.x.starts), res.Failures)
				}
				if n := c.x.busiest(); n > c.minute || c.x.most > c.most {
					t.Errorf("%d calls in a minute, %d at once", n, c.x.most)
				}
				if res.Run.Live != c.took {
					t.Errorf("it took %s, want %s", res.Run.Live, c.took)
				}
				if at := rec.when(EventSucceeded, "step.free2"); at > 2*time.Second { // in the second after two rounds of calls
					t.Errorf("steps of another plugin waited until %s", at)
				}
				if i := slices.IndexFunc(rec.events, func(e Event) bool { return e.Type == EventWaiting }); i < 0 || rec.events[i].Reason != "limiter of plugin q: "+c.why {
					t.Errorf("the first that waits says %+v", rec.events[max(i, 0)])
				}
				for _, e := range rec.events {
					if e.Type == EventStarted && e.Attempt != 1 {
						t.Errorf("%s began with attempt %d", e.Step, e.Attempt)
					}
				}
			})
		})
	}
}

// The wait that is told is the one that happens, where it can be foreseen.
func TestLimiterForesees(t *testing.T) {
	t.Parallel()
	x := &traffic{took: time.Second}
	throttled(t, x, limited(30, "requests_per_minute = 7", ""), func(t *testing.T, res *Result, rec *recorder) {
		n := 0
		for _, e := range rec.events {
			if e.Type != EventWaiting {
				continue
			}
			n++
			if at := rec.when(EventStarted, e.Step); at != e.Time.Add(e.Delay).Sub(rec.events[0].Time) {
				t.Errorf("%s: told %s, started after %s", e.Step, e.Delay, at)
			}
		}
		if n == 0 {
			t.Error("nobody waited")
		}
	})
}

// One call is told to come later: all wait, as long as the server says or else as
// long as that step's own delay.
func TestLimiterPauses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hint int64
		want time.Duration
	}{"as the server says": {20_000, 21 * time.Second}, "as the policy says": {0, 8 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &traffic{took: time.Second, answer: func(n int, _ *sdk.Request) *sdk.Error {
				if n == 0 {
					return &sdk.Error{Class: sdk.ClassRateLimited, RetryAfterMS: c.hint}
				}
				return nil
			}}
			text := limited(9, "concurrency = 1", "retry {\n delay = \"7s\"\n }")
			throttled(t, x, text, func(t *testing.T, res *Result, rec *recorder) {
				if res.Run.Status != checkpoint.RunSucceeded || len(x.starts) != 10 {
					t.Fatalf("%s after %d calls: %+v", res.Run.Status, len(x.starts), res.Failures)
				}
				if x.starts[1] != c.want {
					t.Errorf("the next call began after %s, want %s", x.starts[1], c.want)
				}
				told := 0
				for _, e := range rec.events {
					if e.Type == EventLog && strings.HasPrefix(e.Message, "rate limited: all calls of plugin q wait for") {
						told++
					}
				}
				if told != 1 {
					t.Errorf("it was told %d times", told)
				}
			})
		})
	}
}

// A pause that comes while a call has leave to go, but has not gone, holds that
// too, and it stays the first.
func TestLimiterTakesLeaveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{limits: hcl.Limiter{Requests: 1}}
		first := l.ask(1, func() {})
		woken := make(chan string, 9)
		second := l.ask(1, func() { woken <- "second" })
		third := l.ask(1, func() { woken <- "third" })
		if !first.goes() || second.goes() || third.goes() {
			t.Fatal("one may go")
		}
		first.done(0, false) // it was never made
		if !second.goes() {
			t.Fatal("what was given back is not used")
		}
		l.hold(time.Hour)
		if second.goes() {
			t.Fatal("it goes in the pause")
		}
		time.Sleep(2 * time.Hour)
		for _, want := range []string{"second", "second", "third"} {
			if who := <-woken; who != want {
				t.Errorf("woken is %s, want %s", who, want)
			}
		}
		if !second.goes() || !third.goes() {
			t.Error("the pause is over")
		}
		second.done(1, true)
		third.done(1, true)
		third.done(7, true)
		if l.under != 0 || l.tokens != 0 || len(l.queue) != 0 || l.timer != nil {
			t.Errorf("left behind: %+v", l)
		}
	})
}

// Whoever asks first goes first, however much it asks for; who gives up is no
// obstacle.
func TestLimiterOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := newRand(seed)
			l := &limiter{limits: hcl.Limiter{Requests: 1 + r.Int64N(9), Tokens: 1 + r.Int64N(900), Concurrency: 1 + r.IntN(5)}}
			var went []*ticket
			var wg sync.WaitGroup
			for range 60 {
				woken := make(chan struct{}, 1)
				asked := l.ask(r.Int64N(300), func() { woken <- struct{}{} })
				if !asked.goes() && r.IntN(8) == 0 {
					asked.done(0, false)
					continue
				}
				went = append(went, asked)
				used, took := r.Int64N(400), time.Duration(r.IntN(90))*time.Second
				wg.Go(func() {
					if !asked.goes() {
						<-woken
					}
					time.Sleep(took)
					asked.done(used, true)
				})
			}
			wg.Wait()
			if !slices.IsSortedFunc(went, func(a, b *ticket) int { return a.at.Compare(b.at) }) {
				t.Errorf("seed %d: %+v: the order of asking is not that of going", seed, l.limits)
			}
		})
	}
}

// A run that is cancelled, or that fail_fast ends, does not wait for the limiter.
func TestLimiterEnds(t *testing.T) {
	t.Parallel()
	failing := func(n int, _ *sdk.Request) *sdk.Error {
		if n == 1 {
			return &sdk.Error{Class: sdk.ClassInternal, Message: "no"}
		}
		return nil
	}
	x := &traffic{took: time.Second, answer: failing}
	text := strings.Replace(limited(9, "requests_per_minute = 2", ""), "concurrency = 4", "fail_fast = true", 1)
	throttled(t, x, text, func(t *testing.T, res *Result, _ *recorder) {
		if res.Run.Status != checkpoint.RunFailed || res.Run.Live != time.Second || len(x.starts) != 2 {
			t.Errorf("fail_fast: %s after %s, %d calls", res.Run.Status, res.Run.Live, len(x.starts))
		}
	})
	y := &traffic{took: time.Second}
	text = strings.Replace(limited(9, "requests_per_minute = 2", ""), "concurrency = 4", "timeout = \"30s\"", 1)
	throttled(t, y, text, func(t *testing.T, res *Result, _ *recorder) {
		if res.Run.Error == nil || res.Run.Error.Class != sdk.ClassTimeout || res.Run.Live != 30*time.Second || len(y.starts) != 2 {
			t.Errorf("timeout: %v after %s, %d calls", res.Run.Error, res.Run.Live, len(y.starts))
		}
	})
}

// A Host's runs share what a plugin may be asked; an effect is not announced
// before its turn has come.
func TestLimiterAcrossRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		x := &traffic{took: time.Second, began: time.Now()}
		s.run = x.run
		h, err := New(Options{Store: s.store})
		if err != nil {
			t.Fatal(err)
		}
		for k, workflow := range []string{"one", "two"} {
			text := `workflow "` + workflow + `" {}
plugin "q" {
  source = "./p.wasm"
  limiter { requests_per_minute = 1 }
}
step "pay" {
  uses  = plugin.q.pay
  input = { v = 1 }
}`
			f, v := s.flow(text)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			res, err := h.Apply(ctx, f, v, RunOptions{})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if want := []checkpoint.RunStatus{checkpoint.RunSucceeded, checkpoint.RunCancelled}[k]; res.Run.Status != want {
				t.Errorf("run %d is %s: %+v", k, res.Run.Status, res.Failures)
			}
			intents, err := s.store.Intents(context.Background(), DefaultTenant, res.Run.ID)
			if err != nil || len(intents) != 1-k {
				t.Errorf("run %d: %d intents, %v", k, len(intents), err)
			}
		}
	})
}

// A limiter and a breaker are part of no identity, and a run that must not wait
// has none.
func TestLimiterIsNoIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		x := &traffic{took: time.Second, began: time.Now()}
		s.run = x.run
		if res, err := s.try(limited(9, "requests_per_minute = 1", ""), Options{NoWait: true}, RunOptions{}); err != nil || res.Run.Live != 3*time.Second {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, other := range []string{"concurrency = 2", ""} {
			if res := s.succeeds(limited(9, other, "")); res.Opened {
				t.Errorf("with %q %d steps ran", other, res.Counts.Ran)
			}
		}
		if res := s.succeeds(strings.Replace(limited(9, "", ""), "limiter {  }", "breaker { failures = 1 }", 1)); res.Opened {
			t.Errorf("with a breaker %d steps ran", res.Counts.Ran)
		}
	})
}

// A judge waits in its place, and its calls count.
func TestLimiterOfCheck(t *testing.T) {
	t.Parallel()
	x := &traffic{took: time.Second}
	text := `plugin "q" {
  source = "./p.wasm"
  limiter { requests_per_minute = 1 }
}
step "a" {
  uses  = plugin.p.echo
  input = { v = 1 }
  check { uses = plugin.q.judge }
}
step "b" {
  uses  = plugin.p.echo
  input = { v = 2 }
  check { uses = plugin.q.judge }
}`
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		x.began = time.Now()
		s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
			if req.StepType != "judge" {
				return nil, nil
			}
			if _, err := x.run(ctx, req); err != nil {
				return nil, err
			}
			return &sdk.Response{Output: []byte(`{"ok":true}`)}, nil
		}
		if res := s.succeeds(text); res.Run.Live != 61*time.Second || x.busiest() != 1 {
			t.Errorf("%s, %v", res.Run.Live, x.starts)
		}
	})
}

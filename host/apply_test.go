package host

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

func TestApplyAgainRunsNothing(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}, {name: "c", refs: hard(0, 1)}}}
	store := checkpoint.NewMemoryStore()
	first := k.mustApply(Options{Store: store})
	if first.Run.Status != checkpoint.RunSucceeded || !first.Opened || first.Counts.Ran != 3 {
		t.Fatalf("first run: %+v", first)
	}
	again := k.mustApply(Options{Store: store})
	if again.Opened || again.Run.ID != first.Run.ID || again.Counts.Reused != 3 || k.calls.Load() != 3 {
		t.Fatalf("second apply: opened %v, run %s, %d calls", again.Opened, again.Run.ID, k.calls.Load())
	}
	// An edit runs what it changes; taken back, a run follows with nothing to run.
	k.steps[1].def = "b2"
	edited := k.mustApply(Options{Store: store})
	if edited.Run.Follows != first.Run.ID || edited.Counts.Ran != 2 || edited.Counts.Reused != 1 {
		t.Fatalf("after an edit: %+v", edited.Counts)
	}
	k.steps[1].def = "b"
	rec := &recorder{}
	back := k.mustApply(Options{Store: store, Observer: rec})
	if !back.Opened || back.Counts.Ran != 0 || back.Run.Follows != edited.Run.ID {
		t.Fatalf("edit taken back: opened %v, %+v", back.Opened, back.Counts)
	}
	if last := k.mustApply(Options{Store: store}); last.Opened || last.Run.ID != back.Run.ID {
		t.Fatalf("and again: opened %v, run %s", last.Opened, last.Run.ID)
	}
}

// A step that fails, five times over: what succeeded is reused each time, with
// its producer kept, and the run goes on under its id.
func TestResumeIsTransitive(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}, {name: "c", refs: hard(1)}}}
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.c" && broken.Load() {
			return nil, errBoom
		}
		return hashAnswer(req)
	}
	broken.Store(true)
	store := checkpoint.NewMemoryStore()
	var id checkpoint.RunID
	for n := range 5 {
		res := k.mustApply(Options{Store: store})
		if res.Run.Status != checkpoint.RunFailed || len(res.Failures) != 1 || res.Failures[0].Attempts != n+1 || n > 0 && res.Run.ID != id {
			t.Fatalf("apply %d: %s %s %+v", n, res.Run.ID, res.Run.Status, res.Failures)
		}
		id = res.Run.ID
	}
	broken.Store(false)
	res := k.mustApply(Options{Store: store})
	if res.Run.Status != checkpoint.RunSucceeded || res.Run.ID != id || k.count("a") != 1 || k.count("b") != 1 {
		t.Fatalf("%s, a ran %d times, b %d times", res.Run.Status, k.count("a"), k.count("b"))
	}
}

func TestEarlyCutOff(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}}}
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.a" {
			return sdk.Output("same answer")
		}
		return hashAnswer(req)
	}
	store := checkpoint.NewMemoryStore()
	k.mustApply(Options{Store: store})
	k.steps[0].def = "a2"
	rec := &recorder{}
	res := k.mustApply(Options{Store: store, Observer: rec})
	if res.Counts.Ran != 1 || k.count("b") != 1 || res.Counts.Reused != 1 {
		t.Fatalf("%+v, b ran %d times", res.Counts, k.count("b"))
	}
	if again := k.mustApply(Options{Store: store}); again.Opened {
		t.Fatal("apply after success opened a run")
	}
}

// A condition is looked at before inputs; what hangs on a skipped step is
// skipped, what asks softly is not.
func TestSkip(t *testing.T) {
	t.Parallel()
	soft := func(i int) []hcl.FacetRef {
		return []hcl.FacetRef{{Step: i, Facet: sdk.FacetStatus, Kind: hcl.Soft}}
	}
	var open atomic.Bool
	slow := make(chan struct{})
	k := &fake{tb: t, steps: []fakeStep{
		{name: "flag"}, {name: "slow"},
		{name: "s", refs: hard(0, 1), when: 1, cond: func(hcl.Upstream) bool { return open.Load() }},
		{name: "below", refs: hard(2)}, {name: "asks", refs: soft(2)},
	}}
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.slow" {
			<-slow // s is skipped although this has not ended
		}
		return hashAnswer(req)
	}
	rec := &recorder{hook: func(e Event) {
		if e.Type == EventSkipped && e.Step == "step.below" {
			close(slow)
		}
	}}
	store := checkpoint.NewMemoryStore()
	res := k.mustApply(Options{Store: store, Observer: rec})
	if d := cmp.Diff([]string{"below", "s"}, rec.steps(EventSkipped)); d != "" || res.Run.Status != checkpoint.RunSucceeded || k.count("asks") != 1 {
		t.Fatalf("%s %s", res.Run.Status, d)
	}
	if again := k.mustApply(Options{Store: store}); again.Opened {
		t.Fatal("apply after a run with skipped steps opened a run")
	}
}

// Nine steps fail once and wait a minute with three slots: a waiting retry
// holds no slot, so all nine first attempts start without delay.
func TestWaitingRetryHoldsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &fake{tb: t}
		for i := range 9 {
			k.steps = append(k.steps, fakeStep{name: fmt.Sprint("s", i), retry: []hcl.Retry{{On: []sdk.Class{sdk.ClassUnavailable}, MaxAttempts: 2, Delay: time.Minute}}})
		}
		begin := time.Now()
		var late atomic.Int32
		k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			if req.Attempt == 1 {
				if time.Since(begin) > 0 {
					late.Add(1)
				}
				return nil, unavailable("try later")
			}
			return hashAnswer(req)
		}
		res := k.mustApply(Options{Store: checkpoint.NewMemoryStore(), Concurrency: 3})
		if late.Load() != 0 || res.Run.Status != checkpoint.RunSucceeded || time.Since(begin) != time.Minute {
			t.Errorf("%d first attempts were late, the run %s after %s", late.Load(), res.Run.Status, time.Since(begin))
		}
	})
}

// The run's timeout is live time over its continuations.
func TestRunTimeoutIsLiveTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		work := 40 * time.Second
		k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}}}
		var broken atomic.Bool
		broken.Store(true)
		k.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
			select {
			case <-time.After(work):
			case <-ctx.Done():
				return nil, sdk.Ended(ctx)
			}
			if req.Step == "step.a" || !broken.Load() {
				return hashAnswer(req)
			}
			return nil, errBoom
		}
		store := checkpoint.NewMemoryStore()
		apply := func() (*Result, time.Duration) {
			f := k.flow()
			f.wf.Timeout = 100 * time.Second
			h, _ := New(Options{Store: store})
			begin := time.Now()
			res, err := h.apply(context.Background(), f, k.inputs(), RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return res, time.Since(begin)
		}
		if res, took := apply(); res.Run.Status != checkpoint.RunFailed || took != 80*time.Second {
			t.Fatalf("%s after %s", res.Run.Status, took)
		}
		time.Sleep(time.Hour) // down time costs nothing
		broken.Store(false)
		res, took := apply()
		if took != 20*time.Second || res.Run.Status != checkpoint.RunFailed || res.Run.Error == nil || res.Run.Error.Class != sdk.ClassTimeout {
			t.Fatalf("%s after %s: %v", res.Run.Status, took, res.Run.Error)
		}
	})
}

// An attempt ends with its timeout, whose message names step and limit.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &fake{tb: t, steps: []fakeStep{{name: "slow"}}}
		k.run = func(ctx context.Context, _ *sdk.Request) (*sdk.Response, error) {
			<-ctx.Done()
			return nil, sdk.Ended(ctx)
		}
		f := k.flow()
		f.steps[0].timeout = 3 * time.Second
		h, _ := New(Options{Store: checkpoint.NewMemoryStore()})
		res, err := h.apply(context.Background(), f, k.inputs(), RunOptions{})
		if err != nil || len(res.Failures) != 1 || res.Failures[0].Error.Class != sdk.ClassTimeout {
			t.Fatalf("%v %+v", err, res)
		}
		if m := res.Failures[0].Error.Message; m != "step.slow did not end within its timeout of 3s; raise timeout if it needs longer" {
			t.Error(m)
		}
	})
}

// Ctrl-C: what runs is cancelled, what has finished is kept and durable, what
// has not begun is cancelled and not skipped; apply goes on.
func TestCancelKeepsWhatIsFinished(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}, {name: "c", refs: hard(1)}}}
	ctx, cancel := context.WithCancel(context.Background())
	var again atomic.Bool
	k.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.b" && !again.Load() {
			cancel()
			<-ctx.Done()
			return nil, sdk.Ended(ctx)
		}
		return hashAnswer(req)
	}
	store := checkpoint.NewMemoryStore()
	rec := &recorder{}
	res, err := k.apply(ctx, Options{Store: store, Observer: rec}, RunOptions{})
	if err != nil || res.Run.Status != checkpoint.RunCancelled {
		t.Fatalf("%v %+v", err, res)
	}
	if d := cmp.Diff(map[string]string{"a": "succeeded", "b": "cancelled", "c": "cancelled"}, rec.states()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a"}, rec.steps(EventPersisted)); d != "" {
		t.Error(d)
	}
	again.Store(true)
	if res = k.mustApply(Options{Store: store.Crash()}); res.Run.Status != checkpoint.RunSucceeded || k.count("a") != 1 {
		t.Fatalf("%s, a ran %d times", res.Run.Status, k.count("a"))
	}
}

// A damaged output is as good as absent: the step runs again, never null.
func TestLostOutputRunsAgain(t *testing.T) {
	t.Parallel()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}}}
	store := &lossy{MemoryStore: checkpoint.NewMemoryStore()}
	k.mustApply(Options{Store: store})
	k.steps[1].def = "b2"
	store.lose = true
	res := k.mustApply(Options{Store: store})
	if res.Run.Status != checkpoint.RunSucceeded || k.count("a") != 2 || k.count("b") != 2 {
		t.Fatalf("%s, a %d, b %d", res.Run.Status, k.count("a"), k.count("b"))
	}
}

// lossy loses everything that was stored before lose was set.
type lossy struct {
	*checkpoint.MemoryStore
	lose bool
	last checkpoint.Seq
}

func (l *lossy) Commit(ctx context.Context, b *checkpoint.Batch) (checkpoint.Seq, error) {
	seq, err := l.MemoryStore.Commit(ctx, b)
	if !l.lose {
		l.last = seq
	}
	return seq, err
}

func (l *lossy) Data(ctx context.Context, tenant string, ref checkpoint.DataRef) (json.RawMessage, error) {
	if l.lose && ref.Seq <= l.last {
		return nil, fmt.Errorf("record %d: %w", ref.Seq, checkpoint.ErrCorrupt)
	}
	return l.MemoryStore.Data(ctx, tenant, ref)
}

// A store that fails ends the run with its error: no false success.
func TestStoreFailureEndsTheRun(t *testing.T) {
	t.Parallel()
	store := checkpoint.NewMemoryStore()
	k := &fake{tb: t, steps: []fakeStep{{name: "a"}, {name: "b", refs: hard(0)}}}
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.a" {
			store.Hold()
			store.Fail(errBoom)
		}
		return hashAnswer(req)
	}
	if _, err := k.apply(context.Background(), Options{Store: store}, RunOptions{}); !IsStoreError(err) {
		t.Fatalf("got %v", err)
	}
}

// Two steps fail in the same moment, each with tries left: each uses its own.
func TestSimultaneousFailuresUseTheirOwnRetries(t *testing.T) {
	t.Parallel()
	for range 100 {
		k := &fake{tb: t, steps: []fakeStep{
			{name: "a", retry: []hcl.Retry{{On: []sdk.Class{sdk.ClassUnavailable}, MaxAttempts: 2}}},
			{name: "b", retry: []hcl.Retry{{On: []sdk.Class{sdk.ClassUnavailable}, MaxAttempts: 2}}},
		}}
		k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			if req.Attempt == 1 {
				return nil, unavailable("both at once")
			}
			return hashAnswer(req)
		}
		f := k.flow()
		f.wf.FailFast = true
		h, _ := New(Options{Store: checkpoint.NewMemoryStore()})
		res, err := h.apply(context.Background(), f, k.inputs(), RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded {
			t.Fatalf("%v %+v", err, res)
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(5, seed)) }

// keepSyncing lets the disk of a held store answer late, until the result is
// called.
func keepSyncing(store *checkpoint.MemoryStore) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				store.Sync()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// randomFake is a random workflow of pure steps, some of them over collections,
// some of which fail, always on the same input.
func randomFake(t testing.TB, r *rand.Rand) *fake {
	k := &fake{tb: t}
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		for i := range k.steps {
			if s := &k.steps[i]; req.Step == "step."+s.name && (s.skip || s.fallback != nil) && sdk.Sum(req.Input)[0]%3 == 0 {
				return nil, unavailable("it fails on this input")
			}
		}
		return hashAnswer(req)
	}
	for i := range 2 + r.IntN(9) {
		s := fakeStep{name: fmt.Sprint("s", i), volatile: r.IntN(4) == 0}
		for u := range i {
			if r.IntN(3) == 0 {
				s.refs = append(s.refs, hcl.FacetRef{Step: u, Kind: hcl.RefKind(r.IntN(2))})
			}
		}
		if !s.volatile {
			s.skip = r.IntN(6) == 0
			if r.IntN(6) == 0 {
				s.fallback = []hcl.Fallback{{On: []sdk.Class{sdk.ClassUnavailable}, Kind: hcl.FallbackOutput}}
			}
		}
		if r.IntN(3) == 0 {
			randomFan(k, &s, r)
			k.steps = append(k.steps, s)
			continue
		}
		if len(s.refs) > 0 && r.IntN(4) == 0 {
			s.when = 1
			first, odd := s.refs[0].Step, byte(r.IntN(2))
			s.cond = func(up hcl.Upstream) bool {
				out := up(first).Output
				return len(out) == 0 || sdk.Sum(out)[0]%2 == odd
			}
		}
		k.steps = append(k.steps, s)
	}
	return k
}

// randomFan makes s a fan-out: over the instances of another one, or over a
// list or an object whose size and values, equal ones among them, follow from
// the output of its first reference.
func randomFan(k *fake, s *fakeStep, r *rand.Rand) {
	s.limit = r.IntN(3)
	if r.IntN(3) == 0 {
		s.eachWhen = func(e *hcl.Each) bool { return sdk.Sum(e.Value)[0]%4 != 0 }
	}
	for n := range s.refs {
		if u := &k.steps[s.refs[n].Step]; (u.each != nil || u.pair) && r.IntN(2) == 0 {
			s.refs[0], s.refs[n] = s.refs[n], s.refs[0]
			s.refs[0].Kind = hcl.Hard
			s.pair, s.eachRefs = true, 1
			return
		}
	}
	s.eachRefs = min(len(s.refs), 1)
	refs, object, extra := s.refs, r.IntN(2) == 0, byte(r.IntN(5))
	s.each = func(up hcl.Upstream) hcl.Expansion {
		seed := sdk.Sum(nil)
		if len(refs) > 0 {
			seed = sdk.Sum(up(refs[0].Step).Output)
		}
		x := hcl.Expansion{List: !object}
		for n := range (seed[0] + extra) % 5 {
			key := fmt.Sprint(n)
			if object {
				key = fmt.Sprintf("%q", "键"+key)
			}
			x.Each = append(x.Each, hcl.Each{Key: json.RawMessage(key), Value: json.RawMessage(fmt.Sprint(seed[1+n] % 3))})
		}
		return x
	}
}

// uncertain are the steps that a later run asks again although nothing changed,
// because a failure may have been covered.
func (k *fake) uncertain(step string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(step, "step."), "[")
	i := slices.IndexFunc(k.steps, func(s fakeStep) bool { return s.name == name })
	return i >= 0 && (k.steps[i].skip || k.steps[i].fallback != nil)
}

// answers reads the newest stored outputs of a workflow.
func answers(t testing.TB, store checkpoint.Store, k *fake) map[string]string {
	m := map[string]string{}
	ix, err := store.Snapshot(context.Background(), "default", "fake")
	if err != nil {
		t.Fatal(err)
	}
	for i := range k.steps {
		h := ix.Head("step."+k.steps[i].name, "")
		switch {
		case h == nil || k.steps[i].volatile: // its record depends on what was stored below it
		case h.Outcome != checkpoint.Succeeded:
			m[k.steps[i].name] = h.Outcome.String()
		default:
			m[k.steps[i].name] = h.Output.Short()
		}
	}
	return m
}

// Laws on random graphs: one slot gives what many give; killed at any event and
// applied again gives what an undisturbed run gives; nothing persisted runs
// twice.
func TestLaws(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		r := newRand(seed)
		k := randomFake(t, r)
		whole := checkpoint.NewMemoryStore()
		rec := &recorder{}
		k.mustApply(Options{Store: whole, Concurrency: 1, Observer: rec})
		want := answers(t, whole, k)
		wantStates := rec.states()

		many := checkpoint.NewMemoryStore()
		k.mustApply(Options{Store: many, Concurrency: 7})
		if d := cmp.Diff(want, answers(t, many, k)); d != "" {
			t.Fatalf("seed %d: one slot and seven differ:\n%s", seed, d)
		}

		// Kill after the n-th event: the store keeps a prefix that holds at
		// least what was announced as persisted.
		store := checkpoint.NewMemoryStore()
		persisted := map[string]bool{}
		for round := range 3 {
			store.Hold()
			n := r.IntN(3 * len(k.steps))
			ctx, cancel := context.WithCancel(context.Background())
			var crashed *checkpoint.MemoryStore
			k.counts = nil
			rec := &recorder{}
			sync := r.IntN(4)
			rec.hook = func(e Event) {
				if r.IntN(4) <= sync {
					store.Sync()
				}
				if crashed != nil {
					return
				}
				if e.Type == EventPersisted && !k.uncertain(e.Step) {
					persisted[e.Step] = true
				}
				if n--; n < 0 {
					crashed = store.Crash()
					store.Sync()
					cancel()
				}
			}
			lateDisk := keepSyncing(store) // a barrier must not wait for ever
			before := map[string]bool{}
			for s := range persisted {
				before[s] = true
			}
			if _, err := k.apply(ctx, Options{Store: store, Observer: rec, Concurrency: 1 + r.IntN(4)}, RunOptions{}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			lateDisk()
			cancel()
			for s := range before {
				if k.count(s[len("step."):]) > 0 {
					t.Fatalf("seed %d, round %d: %s was persisted and ran again", seed, round, s)
				}
			}
			if crashed != nil {
				store = crashed
			}
		}
		rec = &recorder{}
		k.counts = nil
		store.Sync()
		store = store.Crash() // a store that holds nothing back
		k.mustApply(Options{Store: store, Observer: rec})
		calls := k.calls.Load()
		k.counts = nil
		if again := k.mustApply(Options{Store: store}); (again.Opened || k.calls.Load() != calls) && len(again.Degraded)+len(again.Skipped) == 0 {
			t.Fatalf("seed %d: apply after success opened %v, ran %d steps", seed, again.Opened, k.calls.Load()-calls)
		}
		for step := range k.counts {
			if i := slices.IndexFunc(k.steps, func(s fakeStep) bool { return s.name == step }); i >= 0 && !k.uncertain(step) && !k.steps[i].volatile {
				t.Fatalf("seed %d: apply after success ran %s", seed, step)
			}
		}
		got := answers(t, store, k)
		for name, a := range want {
			if g, ok := got[name]; ok && g != a {
				t.Fatalf("seed %d: %s is %s after kills, %s undisturbed", seed, name, g, a)
			}
		}
		for name, s := range rec.states() {
			if (s == "skipped") != (wantStates[name] == "skipped") {
				t.Fatalf("seed %d: %s %s after kills, %s undisturbed", seed, name, s, wantStates[name])
			}
		}
		for i := range k.steps {
			w := want[k.steps[i].name]
			if w != "" && w != checkpoint.SkippedCondition.String() && got[k.steps[i].name] == "" && slices.Contains(k.flow().targets, int32(i)) {
				t.Fatalf("seed %d: target %s has no answer", seed, k.steps[i].name)
			}
		}
	}
}

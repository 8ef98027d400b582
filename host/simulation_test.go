package host

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// simulation is the life of one state directory: a random flow that is applied,
// killed, cancelled, given answers and left alone for days, by a clock that may go
// back. Everything is drawn from the seed, times included, so the seed replays it
// (but for the milliseconds of the disk).
type simulation struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	k     *fake
	store *checkpoint.MemoryStore
	round int
	trace []string
}

// draw is a number below n that depends on seed, round and name alone, for
// decisions of workers, whose order is not drawn.
func (s *simulation) draw(n uint64, round int, name string) uint64 {
	h := sdk.Sum(fmt.Appendf(nil, "%d %d %s", s.seed, round, name))
	return binary.BigEndian.Uint64(h[:]) % n
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, seed: seed, r: newRand(seed)}
	s.k = randomFake(t, s.r)
	s.k.keyed = true
	for i := range s.k.steps {
		if s.r.IntN(4) == 0 {
			s.k.steps[i].ttl = time.Duration(1+s.r.IntN(48)) * time.Hour
		}
	}
	answer := s.k.run
	s.k.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		// To the nanosecond, so that no two attempts end together.
		work := time.NewTimer(time.Second + time.Duration(s.draw(uint64(4*time.Second), 0, req.Step+req.Instance)))
		defer work.Stop()
		select {
		case <-work.C:
		case <-ctx.Done():
			return nil, sdk.Ended(ctx)
		}
		if s.round >= 0 && s.draw(8, s.round, "fault "+req.Step) == 0 && !s.k.uncertain(req.Step) {
			return nil, errBoom
		}
		return answer(ctx, req)
	}
	return s
}

// apply is one command. It may be killed or cancelled in the middle of a second,
// when nothing else happens.
func (s *simulation) apply(o RunOptions, kill, cancel time.Duration) *Result {
	s.t.Helper()
	s.store.Hold()
	stop := keepSyncing(s.store)
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	rec := &recorder{}
	var crashed *checkpoint.MemoryStore
	if kill > 0 {
		defer time.AfterFunc(kill, func() {
			crashed = s.store.Crash()
			end(nil)
		}).Stop()
	}
	if cancel > 0 {
		defer time.AfterFunc(cancel, func() { end(context.Canceled) }).Stop()
	}
	begin := time.Now()
	res, err := s.k.apply(ctx, Options{Store: s.store, Observer: rec, Concurrency: 1 + int(s.draw(4, s.round, "slots"))}, o)
	if err != nil {
		s.t.Fatalf("seed %d, round %d: %v", s.seed, s.round, err)
	}
	stop()
	states := rec.states()
	line := fmt.Sprintf("%d %v: %s in %s, killed %v:", s.round, o, res.Run.Status, time.Since(begin).Truncate(100*time.Millisecond), crashed != nil)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		line += " " + name + " " + states[name]
	}
	s.trace = append(s.trace, line)
	if crashed != nil {
		s.store = crashed
		return res
	}
	if res.Run.Live < 0 {
		s.t.Fatalf("seed %d, round %d: a negative time", s.seed, s.round)
	}
	s.oneAnswer(rec)
	return res
}

// oneAnswer: whatever a run used of a step, it used the same everywhere.
func (s *simulation) oneAnswer(rec *recorder) {
	s.t.Helper()
	used := map[string]sdk.Digest{}
	seqs := map[string]checkpoint.Seq{}
	for _, e := range rec.events {
		if (e.Type == EventSucceeded || e.Type == EventReused) && e.Seq > 0 {
			seqs[e.Step] = e.Seq
		}
	}
	read := func(step string) *checkpoint.Record {
		rec, err := s.store.Record(context.Background(), "default", seqs[step])
		if err != nil {
			s.t.Fatalf("seed %d, round %d: record of %s: %v", s.seed, s.round, step, err)
		}
		return rec
	}
	for step := range seqs {
		used[step] = read(step).Output
	}
	for step := range seqs {
		for _, up := range read(step).Context.Upstream {
			if out, known := used[up.Step]; known && up.Facet == sdk.FacetOutput && out != up.Digest {
				s.t.Fatalf("seed %d, round %d: %s was made of another answer of %s than the run used\n%s", s.seed, s.round, step, up.Step, strings.Join(s.trace, "\n"))
			}
		}
	}
}

// disturbed draws one command and what befalls it.
func (s *simulation) disturbed() {
	var o RunOptions
	middle := func() time.Duration { return time.Duration(s.r.IntN(12))*time.Second + 500*time.Millisecond }
	plain := slices.DeleteFunc(slices.Clone(s.k.steps), func(f fakeStep) bool { return f.each != nil || f.pair })
	if len(plain) > 0 && s.r.IntN(3) == 0 {
		o.Set = map[string]json.RawMessage{"step." + plain[s.r.IntN(len(plain))].name: json.RawMessage(fmt.Sprintf(`{"h":"given %d"}`, s.r.IntN(3)))}
	}
	if s.r.IntN(4) == 0 {
		o.Rerun = []string{"step." + s.k.steps[s.r.IntN(len(s.k.steps))].name}
	}
	var kill, cancel time.Duration
	switch s.r.IntN(4) {
	case 0:
		kill = middle()
	case 1:
		cancel = middle()
	}
	s.apply(o, kill, cancel)
	if s.r.IntN(2) == 0 {
		time.Sleep(time.Duration(s.r.IntN(72)) * time.Hour)
	}
}

// stands are the answers that the next run would take, by step. (The newest record
// of a step need not be among them: an answer that was taken back lies before it.)
func (s *simulation) stands() map[string]string {
	s.t.Helper()
	h, err := New(Options{Store: s.store})
	if err != nil {
		s.t.Fatal(err)
	}
	next, err := h.prepare(context.Background(), s.k.flow(), s.k.inputs(), RunOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[string]string{}
	for i := range s.k.steps {
		if hd := next.plan.Step(int32(i)).Head; hd != nil {
			m[s.k.steps[i].name] = hd.Outcome.String() + " " + hd.Output.Short()
		}
	}
	return m
}

// live is the whole of it. Each bubble begins at the same time, so a new one is a
// clock that goes back.
func (s *simulation) live() (want, got map[string]string) {
	t := s.t
	synctest.Test(t, func(t *testing.T) {
		s.t, s.k.tb, s.store, s.round = t, t, checkpoint.NewMemoryStore(), -1
		s.apply(RunOptions{}, 0, 0)
		want = s.stands()
	})
	for era := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s.t, s.k.tb = t, t
			if era == 0 {
				s.store = checkpoint.NewMemoryStore()
			} else {
				s.store = s.store.Crash() // its channels are of this bubble
			}
			for range 4 {
				s.round++
				s.disturbed()
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s.t, s.k.tb, s.store = t, t, s.store.Crash()
		s.round = -1
		time.Sleep(1000 * time.Hour) // beyond all that was stored by whatever clock
		s.apply(RunOptions{}, 0, 0)  // ends the run that goes on, with what it was given
		s.apply(RunOptions{}, 0, 0)  // and one for which that is due
		res := s.apply(RunOptions{}, 0, 0)
		if res.Run.Status != checkpoint.RunSucceeded || res.Opened && len(res.Degraded)+len(res.Skipped) == 0 {
			t.Fatalf("seed %d: after success the run is %s, opened %v\n%s", s.seed, res.Run.Status, res.Opened, strings.Join(s.trace, "\n"))
		}
		got = s.stands()
	})
	return want, got
}

// TestSimulation: after faults, kills, cancels, answers given by a person, steps
// asked to run again, days that pass and a clock that goes back, what stands is
// what an undisturbed run gives; and no run used two answers of one step.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := uint64(30)
	if n, err := strconv.ParseUint(os.Getenv("SIMULATION_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	for seed := range seeds {
		s := newSimulation(t, seed)
		want, got := s.live()
		for name, w := range want {
			if g, ok := got[name]; ok && g != w {
				t.Fatalf("seed %d: %s is %s, undisturbed %s\n%s", seed, name, g, w, strings.Join(s.trace, "\n"))
			}
		}
		if seed%10 == 0 {
			again := newSimulation(t, seed)
			again.live()
			if d := cmp.Diff(s.trace, again.trace); d != "" {
				t.Fatalf("seed %d does not replay:\n%s", seed, d)
			}
		}
	}
}

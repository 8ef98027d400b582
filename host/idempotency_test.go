package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// world is what effects happen to: it knows an effect by its key.
type world struct {
	t     *testing.T
	store *checkpoint.MemoryStore
	pure  string // the step that does nothing to the world

	mu    sync.Mutex
	calls int // until the engine is killed in the middle of one
	dead  *checkpoint.MemoryStore
	done  map[string]string          // by key: what was done
	keys  map[string]map[string]bool // by address
}

func (w *world) run(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	if req.Step == w.pure {
		return echo(req)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead != nil { // whoever asks is dead
		return nil, &sdk.Error{Class: sdk.ClassCancelled, Message: "killed"}
	}
	what := string(req.Input)
	if old, seen := w.done[req.IdempotencyKey]; seen && old != what {
		w.t.Errorf("%s is done under the key of %s", what, old)
	}
	w.done[req.IdempotencyKey] = what
	address := hcl.InstanceAddress(req.Step, req.Instance)
	if w.keys[address] == nil {
		w.keys[address] = map[string]bool{}
	}
	w.keys[address][req.IdempotencyKey] = true
	if w.calls--; w.calls == 0 {
		w.dead = w.store.Crash()
	}
	return echo(req)
}

// TestKeysOfTwins: instances with equal inputs, killed again and again, also after
// their collection was put into another order, do as many things to the world as there
// are instances: an effect that was cut off is done again under its key, by one, and no
// two share one.
func TestKeysOfTwins(t *testing.T) {
	t.Parallel()
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		chained, moves := seed%2 == 1, seed%4 == 0 // what is chained is not known by what it is given
		s := newScene(t)
		w := &world{t: t, done: map[string]string{}, keys: map[string]map[string]bool{}}
		s.run = w.run
		list := make([]string, 2+r.IntN(7))
		want := map[string]int{}
		for i := range list {
			list[i] = string(rune('a' + r.IntN(3)))
			want[fmt.Sprintf(`{"v":%q}`, list[i])]++
		}
		concurrency := 1 + r.IntN(4)
		flow := func() string {
			text := fmt.Sprintf("workflow \"w\" { concurrency = %d }\nlocals { c = [\"%s\"] }\n", concurrency, strings.Join(list, `", "`))
			over := "local.c"
			if chained {
				w.pure, over = "step.x", "step.x.output"
				text += "step \"x\" {\n  uses = plugin.p.echo\n  for_each = local.c\n  input = { v = each.value }\n}\n"
			}
			return text + "step \"y\" {\n  uses = plugin.p.mail\n  for_each = " + over + "\n  input = { v = each.value }\n}\n"
		}
		for life := 0; ; life++ {
			w.store = s.store.(*checkpoint.MemoryStore)
			w.dead, w.calls = nil, 0
			if life < 4 {
				w.calls = 1 + r.IntN(len(list))
			}
			w.store.Hold()
			stop := keepSyncing(w.store)
			res, err := s.try(flow(), Options{}, RunOptions{})
			stop()
			if err != nil {
				t.Fatal(err)
			}
			if w.dead == nil {
				if res.Run.Status != checkpoint.RunSucceeded {
					t.Fatalf("seed %d: %s, %+v", seed, res.Run.Status, res.Failures)
				}
				break
			}
			s.store = w.dead
			if moves {
				r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
			}
		}
		got := map[string]int{}
		for _, what := range w.done {
			got[what]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: done are %v, instances %v", seed, got, want)
		}
		for address, keys := range w.keys {
			if !moves && !chained && len(keys) != 1 {
				t.Fatalf("seed %d: %s has had the keys %v", seed, address, keys)
			}
		}
	}
}

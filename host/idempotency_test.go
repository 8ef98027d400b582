package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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

	mu    sync.Mutex
	calls int // until the engine is killed in the middle of one
	dead  *checkpoint.MemoryStore
	done  map[string]string          // by key: what was done
	keys  map[string]map[string]bool // by address
	story strings.Builder            // for who looks for a mistake
}

func (w *world) run(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	if req.StepType == "echo" {
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
	if req.StepType == "pay" { // does not ask for a key
		w.done[fmt.Sprint("call ", len(w.done))] = what
	} else {
		w.done[req.IdempotencyKey] = what
	}
	address := hcl.InstanceAddress(req.Step, req.Instance)
	fmt.Fprintf(&w.story, "  %s does %s under %s, attempt %d\n", address, what, req.IdempotencyKey[:4], req.Attempt)
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
		chained, moves := seed%2 == 1, seed%4 < 2
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
				over = "step.x.output"
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

// editedShapes are flows over local.c whose steps y and z do something to the world for
// each element.
var editedShapes = []string{
	`step "y" {
  uses     = plugin.p.mail
  for_each = local.c
  input    = { v = each.value }
}`,
	`step "x" {
  uses     = plugin.p.echo
  for_each = local.c
  input    = { v = each.value }
}
step "y" {
  uses     = plugin.p.mail
  for_each = step.x.output
  input    = { v = each.value }
}
step "z" {
  uses     = plugin.p.mail
  for_each = step.y.output
  input    = { v = "z${each.value}" }
}`,
	`step "b" {
  workflow = "./b.hcl"
  for_each = { l = local.c, r = slice(local.c, 0, min(2, length(local.c))) }
  input    = { c = each.value }
}`,
}

const editedBody = `variable "c" { type = list(string) }
step "x" {
  uses     = plugin.p.echo
  for_each = var.c
  input    = { v = each.value }
}
step "y" {
  uses     = plugin.p.mail
  for_each = step.x.output
  input    = { v = each.value }
}
output "o" { value = step.y.output }
`

// TestEffectsOfEditedCollections: whatever a person does to a collection between runs
// that are killed, fail to end or succeed, an effect is done at most as often as it was
// wanted at one time, and each instance of the last run has one of its own, unless it
// must not be repeated and waits for a person.
func TestEffectsOfEditedCollections(t *testing.T) {
	t.Parallel()
	seeds := uint64(150)
	if n := os.Getenv("EFFECT_SEEDS"); n != "" {
		var err error
		if seeds, err = strconv.ParseUint(n, 10, 32); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 17))
		shape, once := int(seed%uint64(len(editedShapes))), seed%2 == 1
		s := newScene(t)
		w := &world{t: t, done: map[string]string{}, keys: map[string]map[string]bool{}}
		s.run = w.run
		letter := func() string { return string(rune('a' + r.IntN(3))) }
		var list []string
		for range 2 + r.IntN(5) {
			list = append(list, letter())
		}
		most, now := map[string]int{}, map[string]int{}
		wanted := func() {
			clear(now)
			for i, v := range list {
				now[fmt.Sprintf(`{"v":%q}`, v)]++
				switch {
				case shape == 1:
					now[fmt.Sprintf(`{"v":%q}`, "z"+v)]++
				case shape == 2 && i < 2:
					now[fmt.Sprintf(`{"v":%q}`, v)]++
				}
			}
			for what, n := range now {
				most[what] = max(most[what], n)
			}
		}
		for life, lives := 0, 3+r.IntN(5); life < lives; life++ {
			w.store = s.store.(*checkpoint.MemoryStore)
			w.dead, w.calls = nil, 0
			if life < lives-1 && r.IntN(4) > 0 {
				w.calls = 1 + r.IntN(len(list)+1)
			}
			wanted()
			fmt.Fprintln(&w.story, list, "killed in call", w.calls)
			w.store.Hold()
			stop := keepSyncing(w.store)
			text := fmt.Sprintf("workflow \"w\" { concurrency = %d }\nlocals { c = [\"%s\"] }\n%s\n", 1+r.IntN(4), strings.Join(list, `", "`), editedShapes[shape])
			body := editedBody
			if once {
				text, body = strings.ReplaceAll(text, "p.mail", "p.pay"), strings.ReplaceAll(body, "p.mail", "p.pay")
			}
			res, err := s.tree(text, map[string]string{"b.hcl": body}, Options{}, RunOptions{})
			stop()
			if err != nil {
				t.Fatal(err)
			}
			unknown := once && slices.ContainsFunc(res.Failures, func(f Failure) bool { return f.Error.Code == CodeOutcomeUnknown })
			if w.dead == nil && res.Run.Status != checkpoint.RunSucceeded && !unknown {
				t.Fatalf("seed %d: %s, %+v\n%s", seed, res.Run.Status, res.Failures, &w.story)
			}
			if w.dead != nil {
				s.store = w.dead
			}
			if life == lives-1 {
				break
			}
			for range r.IntN(3) {
				k := r.IntN(len(list))
				switch r.IntN(4) {
				case 0:
					r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
				case 1:
					list = slices.Insert(list, k, letter())
				case 2:
					list[k] = letter()
				case 3:
					if len(list) > 1 {
						list = slices.Delete(list, k, k+1)
					}
				}
			}
		}
		done := map[string]int{}
		for _, what := range w.done {
			done[what]++
		}
		for what, n := range most {
			if done[what] > n || done[what] < now[what] && !once {
				t.Errorf("seed %d: %s was done %d times, wanted %d times at most and %d times at last\n%s", seed, what, done[what], n, now[what], &w.story)
			}
		}
	}
}

package host

import (
	"path/filepath"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
)

// A chain of 20,000 steps and a fan of 20,000 load, plan and run, are found
// current afterwards, and resume in the middle; nothing recurses over them.
func TestLargeFlows(t *testing.T) {
	t.Parallel()
	const n = largeFlow
	for name, fan := range map[string]bool{"chain": false, "fan": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, v := compiled(t, written(n, fan, ""), counting{})
			store := checkpoint.NewMemoryStore()
			var half *checkpoint.MemoryStore // the disk at a kill in the middle
			done := 0
			seen := observerFunc(func(es []Event) {
				for _, e := range es {
					if e.Type == EventSucceeded {
						if done++; done == n/2 {
							half = store.Crash()
						}
					}
				}
			})
			if res := observed(t, store, f, v, seen); res.Counts.Ran != n {
				t.Fatalf("%+v", res.Counts)
			}
			if res := applied(t, store, f, v); res.Opened || res.Counts.Reused != n {
				t.Fatalf("second apply: opened %v, %+v", res.Opened, res.Counts)
			}
			res := applied(t, half, f, v)
			if res.Counts.Ran == 0 || res.Counts.Ran+res.Counts.Reused != n || !res.Continued {
				t.Fatalf("resumed: %+v", res.Counts)
			}
		})
	}
}

// The laws of apply_test.go on the durable store.
func TestPebbleEqualsMemory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		k := randomFake(t, newRand(seed))
		memory := checkpoint.NewMemoryStore()
		k.mustApply(Options{Store: memory})
		dir := filepath.Join(t.TempDir(), "store")
		for round := range 2 { // the second time from disk
			s, err := pebblestore.Open(dir, pebblestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			calls := k.calls.Load()
			res := k.mustApply(Options{Store: s})
			if round == 1 && len(res.Degraded)+len(res.Skipped) == 0 && (res.Opened || k.calls.Load() != calls) {
				t.Fatalf("seed %d: apply after success ran %d steps", seed, k.calls.Load()-calls)
			}
			got, want := answers(t, s, k), answers(t, memory, k)
			for name, a := range want {
				if got[name] != a {
					t.Errorf("seed %d: %s is %s on disk, %s in memory", seed, name, got[name], a)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

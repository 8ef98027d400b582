package pebblestore

import (
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// TestCollectUnsettled: a run with an attempt of which nobody knows the end stays,
// whatever the policy says, and one whose attempt has ended does not begin to look like
// that when the record of its result goes.
func TestCollectUnsettled(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{Encrypt: true, Key: testKey(t, 1)})
	begin := func(run checkpoint.RunID, step string) {
		t.Helper()
		b := checkpoint.NewBatch("default", "flow")
		b.PutRun(&checkpoint.RunRecord{ID: run, Chain: run, Workflow: "flow", Status: checkpoint.RunFailed, Created: time.Unix(1, 0), Ended: time.Unix(2, 0)})
		b.PutIntent(&checkpoint.Intent{Run: run, Step: step, Attempt: 1, IdempotencyKey: string(run), Effects: sdk.EffectsOnce, Started: time.Unix(1, 0)})
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	begin("r_0", "step.pay") // its end was not seen
	begin("r_1", "step.a")
	putRun(t, s, "r_1", "step.a", "1")
	putRun(t, s, "r_1", "step.kept", "2")
	begin("r_2", "step.b")
	putRun(t, s, "r_2", "step.a", "3")
	putRun(t, s, "r_2", "step.b", "4")
	for _, c := range []struct {
		policy checkpoint.Policy
		want   string
	}{
		{checkpoint.Policy{Keep: 1}, "1 records, 0 outputs, 0 runs, 0 orphans of 0 bytes, 0 files, freed 1"}, // step.a of r_1
		{checkpoint.Policy{Before: time.Unix(100, 0)}, "3 records, 0 outputs, 2 runs, 0 orphans of 0 bytes, 0 files, freed 3"},
		{checkpoint.Policy{Keep: 1, Before: time.Unix(100, 0)}, "0 records, 0 outputs, 0 runs, 0 orphans of 0 bytes, 0 files, freed 0"},
	} {
		for _, dryRun := range []bool{true, false} {
			if got := summary(collect(t, s, c.policy, dryRun)); got != c.want {
				t.Errorf("%+v: %s, want %s", c.policy, got, c.want)
			}
		}
	}
	runs, err := s.Runs(t.Context(), "default", "")
	intents, err2 := s.Intents(t.Context(), "default", "r_0")
	if err != nil || err2 != nil || len(runs) != 1 || runs[0].ID != "r_0" || len(intents) != 1 {
		t.Errorf("runs %v, intents %v, %v, %v; want r_0 with its intent", runs, intents, err, err2)
	}
}

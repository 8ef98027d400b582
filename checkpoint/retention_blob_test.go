package checkpoint

import (
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// The blobs that outputs refer to count; one that several refer to counts once, and
// is freed with the last of them.
func TestBudgetCountsBlobs(t *testing.T) {
	t.Parallel()
	x, y, z := sdk.Blob{Digest: sdk.Sum([]byte("x")), Size: 100}, sdk.Blob{Digest: sdk.Sum([]byte("y")), Size: 50}, sdk.Blob{Digest: sdk.Sum([]byte("z")), Size: 1000}
	stored := func(seq Seq, run RunID, blobs ...sdk.Blob) Stored {
		return Stored{Workflow: "w", Head: &Head{Step: "step.a", Instance: string(run), Seq: seq, Run: run, Data: DataRef{Seq: seq, Size: 10}}, Blobs: blobs}
	}
	records := []Stored{stored(1, "r_1", x), stored(2, "r_2", x, y), stored(3, "r_3", z)}
	runs := []*RunRecord{{ID: "r_3", Workflow: "w", Status: RunSucceeded, Ended: time.Unix(1, 0)}, {ID: "r_2", Workflow: "w", Status: RunSucceeded, Ended: time.Unix(1, 0)}, {ID: "r_1", Workflow: "w", Status: RunSucceeded, Ended: time.Unix(1, 0)}}
	for _, c := range []struct {
		max, bytes, freed, over int64
		husks                   int
	}{
		{0, 1180, 0, 0, 0},
		{1180, 1180, 0, 0, 0},
		{1170, 1170, 10, 0, 1},  // the oldest refers to a blob that another needs
		{1169, 1010, 170, 0, 2}, // with the other both blobs go
		{500, 1010, 170, 510, 2},
	} {
		d := Select(records, runs, nil, Policy{MaxBytes: c.max})
		if d.Bytes != c.bytes || d.Freed != c.freed || d.Over != c.over || len(d.Outputs) != c.husks {
			t.Errorf("at most %d: %d bytes stay, %d freed, %d over, %d husks; want %+v", c.max, d.Bytes, d.Freed, d.Over, len(d.Outputs), c)
		}
	}
}

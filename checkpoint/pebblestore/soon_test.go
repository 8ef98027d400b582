package pebblestore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// TestSoonSharesASync: a result and the intent behind it cost one sync of the log,
// which HEAD does not add to.
func TestSoonSharesASync(t *testing.T) {
	t.Parallel()
	var logs atomic.Int64
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo) {
			logs.Add(1)
		}
		return nil
	}))
	s, err := Open("store", Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	before := logs.Load()
	const rounds = 50
	for i := range rounds {
		b := checkpoint.NewBatch("default", "flow")
		b.Soon = true
		b.PutIntent(&checkpoint.Intent{Run: "r_1", Attempt: i})
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		b = checkpoint.NewBatch("default", "flow")
		b.PutIntent(&checkpoint.Intent{Run: "r_1", Attempt: i})
		last, err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for seq := range s.Persisted() {
			if seq == last {
				break
			}
		}
	}
	if got := logs.Load() - before; got != rounds {
		t.Errorf("%d rounds took %d syncs of the log", rounds, got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSoonWithoutRoom: a batch that was promised gets its room although nothing else
// begins the sync that makes it.
func TestSoonWithoutRoom(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "store", Options{FS: vfs.NewMem()})
	s.pending.limit = 1
	clean, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := clean.Sanitize([]byte(`"`+strings.Repeat("x", 2*checkpoint.LargeData)+`"`), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := checkpoint.NewBatch("default", "flow")
	b.Soon = true
	b.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: "step.s", Run: "r_1", Plan: checkpoint.Fingerprint{1}}}, out)
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would wait for ever
	defer cancel()
	b = checkpoint.NewBatch("default", "flow")
	b.PutIntent(&checkpoint.Intent{Run: "r_1"})
	if _, err := s.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
}

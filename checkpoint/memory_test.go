package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) checkpoint.Store { return checkpoint.NewMemoryStore() })
}

// commitPair commits a batch of two records.
func commitPair(t *testing.T, m *checkpoint.MemoryStore, n int) {
	t.Helper()
	b := checkpoint.NewBatch("t", "w")
	b.PutSkip(&checkpoint.Record{Head: checkpoint.Head{Step: fmt.Sprint("step.a", n), Outcome: checkpoint.SkippedCondition}})
	b.PutSkip(&checkpoint.Record{Head: checkpoint.Head{Step: fmt.Sprint("step.b", n), Outcome: checkpoint.SkippedCondition}})
	if _, err := m.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, m *checkpoint.MemoryStore) int {
	t.Helper()
	x, err := m.Snapshot(t.Context(), "t", "w")
	if err != nil {
		t.Fatal(err)
	}
	return x.Len()
}

func TestMemoryStoreCrash(t *testing.T) {
	t.Parallel()
	m := checkpoint.NewMemoryStore()
	commitPair(t, m, 1)
	m.Hold()
	for n := 2; n <= 4; n++ {
		commitPair(t, m, n)
	}
	if n := size(t, m); n != 8 {
		t.Fatalf("%d heads are visible, want 8", n)
	}
	for keep, want := range map[checkpoint.Seq]int{0: 2, 1: 2, 2: 2, 3: 2, 4: 4, 5: 4, 7: 6, 8: 8, 99: 8} {
		if n := size(t, m.CrashAt(keep)); n != want {
			t.Errorf("CrashAt(%d) keeps %d heads, want %d: whole batches", keep, n, want)
		}
	}
	after := m.Crash()
	commitPair(t, after, 9) // goes on after the last record there is
	x, err := after.Snapshot(t.Context(), "t", "w")
	if err != nil {
		t.Fatal(err)
	}
	if h := x.Head("step.b9", ""); h == nil || h.Seq != 4 {
		t.Errorf("the first records after the crash: %+v", h)
	}
	if x.Head("step.a2", "") != nil || size(t, m) != 8 {
		t.Error("the store and what is left of it share records")
	}
	m.Sync()
	if n := size(t, m.Crash()); n != 8 {
		t.Errorf("after Sync a crash keeps %d heads, want 8", n)
	}
}

func TestMemoryStoreHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := checkpoint.NewMemoryStore()
		m.Hold()
		commitPair(t, m, 1)
		passed := make(chan error, 1)
		go func() { passed <- m.Barrier(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-passed:
			t.Fatalf("Barrier passed what is not persisted: %v", err)
		case seq := <-m.Persisted():
			t.Fatalf("%d was delivered before the sync", seq)
		default:
		}
		cause := errors.New("no patience")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := m.Barrier(ctx); !errors.Is(err, cause) {
			t.Errorf("Barrier with an ended context: %v", err)
		}
		m.Sync()
		if err := <-passed; err != nil {
			t.Errorf("Barrier: %v", err)
		}
		if seq := <-m.Persisted(); seq != 2 {
			t.Errorf("Persisted delivered %d, want 2", seq)
		}
	})
}

func TestMemoryStoreFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := checkpoint.NewMemoryStore()
		m.Hold()
		commitPair(t, m, 1)
		passed := make(chan error, 1)
		go func() { passed <- m.Barrier(t.Context()) }()
		synctest.Wait()
		cause := errors.New("the disk is full")
		m.Fail(cause)
		if err := <-passed; !errors.Is(err, cause) {
			t.Errorf("Barrier: %v", err)
		}
		m.Sync() // too late
		if seq, open := <-m.Persisted(); open {
			t.Errorf("Persisted delivered %d of a failed sync", seq)
		}
		if _, err := m.Commit(t.Context(), checkpoint.NewBatch("t", "w")); !errors.Is(err, cause) {
			t.Errorf("Commit: %v", err)
		}
		if n := size(t, m); n != 2 {
			t.Errorf("%d heads can be read, want 2", n)
		}
		if n := size(t, m.Crash()); n != 0 {
			t.Errorf("a crash keeps %d heads, none was persisted", n)
		}
		if err := m.Close(); !errors.Is(err, cause) {
			t.Errorf("Close: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

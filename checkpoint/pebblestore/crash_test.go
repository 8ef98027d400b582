package pebblestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
)

const crashDir = "state/store"

// crashable is a MemFS that can be cloned by another goroutine at any time: the
// ReuseForWrite of a MemFS takes its lock twice and may wait for ever.
type crashable struct{ *vfs.MemFS }

func (d crashable) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, c)
}

// workload commits batches of all kinds and keeps account of what the store
// has said about them.
type workload struct {
	options   Options // but FS; every other workload is encrypted
	rng       *rand.Rand
	sanitizer *checkpoint.Sanitizer
	ends      []checkpoint.Seq // the last Seq of each batch, as committed
	delivered atomic.Uint64    // the newest Seq known to be durable
}

func newWorkload(t *testing.T, seed uint64) *workload {
	t.Helper()
	s, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload{rng: rand.New(rand.NewPCG(seed, 1)), sanitizer: s, options: Options{MemTableBytes: 64 << 10}}
	if seed%2 == 1 {
		w.options.Encrypt, w.options.Key = true, testKey(t, 1)
	}
	return w
}

// open opens the store on disk as the workload wants it.
func (w *workload) open(disk vfs.FS) (*Store, error) {
	o := w.options
	o.FS = disk
	return Open(crashDir, o)
}

// text is the output of the checkpoint with this Seq.
func text(seq checkpoint.Seq) string {
	size := int(seq*2654435761) % 1500
	switch {
	case seq%97 == 0:
		size = 60 << 10 // nearly a memory table: Pebble takes another path
	case seq%61 == 0 || seq == 7:
		size = 66 << 10 // a file of its own
	}
	return fmt.Sprintf(`"%d%s"`, seq, strings.Repeat("x", size))
}

// batch is one to four items that begin at Seq first: checkpoints, each with an
// attempt of the same number.
func (w *workload) batch(t *testing.T, first checkpoint.Seq) *checkpoint.Batch {
	t.Helper()
	b := checkpoint.NewBatch("default", "flow")
	for range 1 + w.rng.IntN(2) {
		out, err := w.sanitizer.Sanitize(json.RawMessage(text(first)), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: fmt.Sprint("step.", first), Run: "r_1", Plan: checkpoint.Fingerprint{1}}}, out)
		b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Step: fmt.Sprint("step.", first)})
		first += 2
	}
	return b
}

// run commits n batches and returns the first error.
func (w *workload) run(t *testing.T, s *Store, n int) error {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		for seq := range s.Persisted() {
			w.durable(seq)
		}
	})
	defer group.Wait()
	last := checkpoint.Seq(0)
	for range n {
		b := w.batch(t, last+1)
		seq, err := s.Commit(t.Context(), b)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		last = seq
		w.ends = append(w.ends, seq)
		if w.rng.IntN(10) == 0 {
			if err := s.Barrier(t.Context()); err != nil {
				return errors.Join(err, s.Close())
			}
			w.durable(seq)
		}
	}
	err := s.Close()
	if err == nil {
		w.durable(last)
	}
	return err
}

func (w *workload) durable(seq checkpoint.Seq) {
	for {
		old := w.delivered.Load()
		if uint64(seq) <= old || w.delivered.CompareAndSwap(old, uint64(seq)) {
			return
		}
	}
}

// check opens what a crash has left and demands a prefix of the commit order,
// of whole batches, at least up to delivered, that can be gone on from.
func (w *workload) check(t *testing.T, disk vfs.FS, delivered checkpoint.Seq) {
	t.Helper()
	s, err := w.open(disk)
	if err != nil {
		t.Fatalf("Open after the crash: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close after the crash: %v", err)
		}
	}()
	if s.Behind() != 0 {
		t.Fatalf("the store says it has lost persisted records up to %d", s.Behind())
	}
	x, err := s.Snapshot(t.Context(), "default", "flow")
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	attempts, err := s.Attempts(t.Context(), "default", "r_1")
	if err != nil {
		t.Fatalf("Attempts: %v", err)
	}
	last, err := s.Commit(t.Context(), checkpoint.NewBatch("default", "flow"))
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if last < delivered {
		t.Fatalf("the store ends at %d, %d was persisted", last, delivered)
	}
	whole := last == 0
	for _, end := range w.ends {
		whole = whole || end == last
	}
	// The batch under way at the crash may be there too.
	if n := len(w.ends); !whole && n > 0 && last <= w.ends[n-1] || 2*x.Len() != int(last) || len(attempts) != x.Len() {
		t.Fatalf("the store ends at %d, inside a batch; %d heads, %d attempts", last, x.Len(), len(attempts))
	}
	for seq := checkpoint.Seq(1); seq <= last; seq += 2 {
		h := x.Head(fmt.Sprint("step.", seq), "")
		if h == nil || h.Seq != seq {
			t.Fatalf("record %d of %d is missing", seq, last)
		}
		if d, err := s.Data(t.Context(), "default", h.Data); err != nil || string(d) != text(seq) {
			t.Fatalf("data of record %d: %d bytes, %v", seq, len(d), err)
		}
	}
	b := w.batch(t, last+1)
	if seq, err := s.Commit(t.Context(), b); err != nil || seq != last+checkpoint.Seq(len(b.Items)) {
		t.Fatalf("Commit after the crash = %d, %v", seq, err)
	}
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatalf("Barrier after the crash: %v", err)
	}
}

// TestCrash takes the power away at every k-th change of the file system, with
// none, some or all of what was not synced on disk. $CRASH_SEEDS says in how many
// runs.
func TestCrash(t *testing.T) {
	t.Parallel()
	const every = 5
	seeds := uint64(4)
	if n := os.Getenv("CRASH_SEEDS"); n != "" {
		var err error
		if seeds, err = strconv.ParseUint(n, 10, 32); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			type crash struct {
				disk      *vfs.MemFS
				delivered checkpoint.Seq
			}
			var (
				mu      sync.Mutex
				crashes []crash
				ops     uint64
			)
			mem, w, dice := vfs.NewCrashableMem(), newWorkload(t, seed), rand.New(rand.NewPCG(seed, 2))
			disk := errorfs.Wrap(crashable{mem}, errorfs.InjectorFunc(func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
					return nil
				}
				if ops++; ops%every == seed%every {
					delivered := checkpoint.Seq(w.delivered.Load()) // before the clone
					crashes = append(crashes, crash{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 30, 70, 100}[dice.IntN(4)], RNG: dice}), delivered})
				}
				return nil
			}))
			s, err := w.open(disk)
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			if err := w.run(t, s, 250); err != nil {
				t.Fatalf("run: %v", err)
			}
			if len(crashes) < 40 {
				t.Fatalf("only %d crashes in %d operations", len(crashes), ops)
			}
			for i, c := range crashes {
				w.check(t, c.disk, c.delivered)
				crashes[i].disk = nil // a copy of everything each
				if t.Failed() {
					t.Fatalf("crash %d of %d", i, len(crashes))
				}
			}
			w.check(t, mem, w.ends[len(w.ends)-1])
		})
	}
}

// TestFailingDisk lets the n-th operation of the file system fail, once or from
// then on, and demands that the store says so, has not confirmed more than it
// kept, and leaves what a crash leaves.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name string
		kind errorfs.OpReadWrite
		on   bool // and all that follow
	}{{"one write", errorfs.OpIsWrite, false}, {"all writes", errorfs.OpIsWrite, true}, {"one read", errorfs.OpIsRead, false}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			for n, more := 1, true; more; n++ {
				if n > 60 {
					n += n / 20 // the same few operations again
				}
				more = failAt(t, n, mode.kind, mode.on)
			}
		})
	}
}

// failAt is one such run; more is false once n is beyond its last operation.
func failAt(t *testing.T, n int, kind errorfs.OpReadWrite, on bool) (more bool) {
	t.Helper()
	var (
		ops, hits, mustReport atomic.Int64
		log                   strings.Builder
	)
	mem, w := vfs.NewCrashableMem(), newWorkload(t, uint64(n))
	w.options.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
	disk := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLock || op.Kind.ReadOrWrite() != kind {
			return nil
		}
		if i := ops.Add(1); i == int64(n) || on && i > int64(n) {
			hits.Add(1)
			switch op.Kind {
			case errorfs.OpCreate, errorfs.OpRename, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData:
				if !strings.Contains(op.Path, ownerFile) { // a note for people
					mustReport.Add(1)
				}
			}
			return fmt.Errorf("operation %d: %w", i, errorfs.ErrInjected)
		}
		return nil
	}))
	s, err := w.open(disk)
	if err == nil {
		err = w.run(t, s, 40)
		select { // it has ended, so Persisted has too
		case _, open := <-s.Persisted():
			if open {
				t.Fatalf("operation %d: Persisted is open after the end", n)
			}
		default:
			t.Fatalf("operation %d: Persisted is open after the end", n)
		}
	}
	if err != nil && !errors.Is(err, errorfs.ErrInjected) && !strings.Contains(err.Error(), errorfs.ErrInjected.Error()) {
		t.Fatalf("operation %d failed, the store reports something else: %v", n, err)
	}
	// Once all is synced a failure loses nothing, and is a warning.
	if err == nil && mustReport.Load() > 0 && !strings.Contains(log.String(), errorfs.ErrInjected.Error()) {
		t.Fatalf("operation %d failed and nobody was told", n)
	}
	delivered := checkpoint.Seq(w.delivered.Load())
	w.check(t, mem.CrashClone(vfs.CrashCloneCfg{}), delivered)
	w.check(t, mem, delivered)
	return hits.Load() > 0
}

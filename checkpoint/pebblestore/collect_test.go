package pebblestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// history is a store after some runs of two steps: "step.small" and
// "step.large", whose output is a file. Every third run reuses the outputs of
// the one before.
func history(t *testing.T, s *Store, runs int) {
	t.Helper()
	var small, big *checkpoint.Head
	for i := range runs {
		id := checkpoint.RunID(fmt.Sprint("r_", i))
		b := checkpoint.NewBatch("default", "flow")
		b.PutRun(&checkpoint.RunRecord{ID: id, Workflow: "flow", Status: checkpoint.RunSucceeded})
		b.PutAttempt(&checkpoint.AttemptRecord{Run: id, Step: "step.small"})
		b.PutIntent(&checkpoint.Intent{Run: id, Step: "step.small"})
		if i%3 == 2 {
			b.PutReuse(&checkpoint.Record{Head: checkpoint.Head{Step: "step.small", Run: id}}, small)
			b.PutReuse(&checkpoint.Record{Head: checkpoint.Head{Step: "step.large", Run: id}}, big)
		}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if i%3 != 2 {
			small = putRun(t, s, id, "step.small", fmt.Sprint(i))
			big = putRun(t, s, id, "step.large", large(fmt.Sprint(i)))
		}
	}
	barrier(t, s)
}

func putRun(t *testing.T, s *Store, run checkpoint.RunID, step, text string) *checkpoint.Head {
	t.Helper()
	b := checkpoint.NewBatch("default", "flow")
	r := &checkpoint.Record{Head: checkpoint.Head{Step: step, Run: run, Created: time.Unix(1, 0)}, Context: checkpoint.Context{Producer: checkpoint.Producer{Run: run, Step: step}}}
	b.PutCheckpoint(r, sanitized(t, text))
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return &r.Head
}

func collect(t *testing.T, s *Store, p checkpoint.Policy, dryRun bool) *Collection {
	t.Helper()
	c, err := s.Collect(t.Context(), "default", p, dryRun)
	if err != nil {
		t.Fatalf("Collect: %v", err)
	}
	return c
}

func summary(c *Collection) string {
	return fmt.Sprintf("%d records, %d outputs, %d runs, %d orphans of %d bytes, %d files, freed %d", len(c.Records), len(c.Outputs), len(c.Runs), c.Orphans, c.OrphanBytes, c.FilesRemoved, c.Freed)
}

// intact demands that every output that a record names can be read, and says
// which records there are.
func intact(t *testing.T, s *Store) (seqs []checkpoint.Seq, husks int) {
	t.Helper()
	var heads []checkpoint.Stored
	if err := s.Heads(t.Context(), "default", func(st checkpoint.Stored) error {
		heads = append(heads, st)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		seqs = append(seqs, h.Seq)
		if !h.HasData() {
			husks++
			continue
		}
		if _, err := s.Data(t.Context(), "default", h.Data); err != nil {
			t.Errorf("%s: %v", h.Step, err)
		}
		if _, err := s.Record(t.Context(), "default", h.Seq); err != nil {
			t.Errorf("%s: %v", h.Step, err)
		}
	}
	return seqs, husks
}

func TestCollect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	history(t, s, 9)
	for _, test := range []struct {
		policy checkpoint.Policy
		want   string
		left   int // records
		husks  int
		runs   int
		files  int
	}{
		{checkpoint.Policy{}, "0 records, 0 outputs, 0 runs, 0 orphans of 0 bytes, 0 files, freed 0", 18, 0, 9, 6},
		// Of 9 runs the newest 7 stay; the 2 that go bring 2 outputs of their
		// own, one pair of which the third run names.
		{checkpoint.Policy{Keep: 7}, "4 records, 0 outputs, 2 runs, 0 orphans of 0 bytes, 1 files, freed 65540", 14, 0, 7, 5},
		// The newest run needs the pair of the one before.
		{checkpoint.Policy{MaxBytes: 1}, "0 records, 10 outputs, 0 runs, 0 orphans of 0 bytes, 4 files, freed 262160", 14, 10, 7, 1},
		{checkpoint.Policy{Keep: 1}, "12 records, 0 outputs, 6 runs, 0 orphans of 0 bytes, 0 files, freed 0", 2, 0, 1, 1},
		{checkpoint.Policy{Keep: 1, MaxBytes: 1}, "0 records, 0 outputs, 0 runs, 0 orphans of 0 bytes, 0 files, freed 0", 2, 0, 1, 1},
	} {
		for _, dryRun := range []bool{true, true, false} {
			if got := summary(collect(t, s, test.policy, dryRun)); got != test.want {
				t.Errorf("%+v, dry run %v: %s, want %s", test.policy, dryRun, got, test.want)
			}
		}
		seqs, husks := intact(t, s)
		runs, err := s.Runs(t.Context(), "default", "")
		if err != nil || len(seqs) != test.left || husks != test.husks || len(runs) != test.runs || len(blobFiles(t, dir)) != test.files {
			t.Errorf("%+v: %d records, %d husks, %d runs, %d files, %v; want %d, %d, %d, %d", test.policy, len(seqs), husks, len(runs), len(blobFiles(t, dir)), err, test.left, test.husks, test.runs, test.files)
		}
	}
	as, err := s.Attempts(t.Context(), "default", "r_0")
	is, err2 := s.Intents(t.Context(), "default", "r_0")
	kept, err3 := s.Attempts(t.Context(), "default", "r_8")
	if err := errors.Join(err, err2, err3); err != nil || len(as)+len(is) != 0 || len(kept) != 1 {
		t.Errorf("run r_0 went, %d attempts and %d intents stay, %v", len(as), len(is), err)
	}
}

// TestCollectOrphans: what a crash has left behind goes without a policy, and
// nothing of another tenant does.
func TestCollectOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	other := put(t, s, "other", "flow", "step.a", large("a"))
	h := put(t, s, "default", "flow", "step.a", large("a"))
	barrier(t, s)
	_, file, _ := s.blobs.path(blobKey{"default", h.Data.SHA256})
	for _, name := range []string{file + newBlob, strings.TrimSuffix(file, file[len(file)-1:]) + "g"} {
		f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("left")); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const want = "0 records, 0 outputs, 0 runs, 2 orphans of 8 bytes, 2 files, freed 0"
	if got := summary(collect(t, s, checkpoint.Policy{}, false)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	wantData(t, s, "default", h, large("a"))
	wantData(t, s, "other", other, large("a"))
	// The output of a file that goes can come back at once.
	put(t, s, "default", "flow", "step.a", `1`)
	const gone = "1 records, 0 outputs, 0 runs, 0 orphans of 0 bytes, 1 files, freed 65539"
	if got := summary(collect(t, s, checkpoint.Policy{Keep: 1}, false)); got != gone {
		t.Errorf("%s, want %s", got, gone)
	}
	again := put(t, s, "default", "flow", "step.b", large("a"))
	barrier(t, s)
	wantData(t, s, "default", again, large("a"))
	if n := len(blobFiles(t, dir)); n != 2 {
		t.Errorf("%d files, want one of each tenant", n)
	}
}

// TestCollectCrash takes the power away at every change of the file system
// while Collect works: nothing that a record names is missing, what is in use
// is there, and a second Collect comes to the same end.
func TestCollectCrash(t *testing.T) {
	t.Parallel()
	for _, p := range []checkpoint.Policy{{Keep: 2}, {MaxBytes: 1}, {Keep: 3, MaxBytes: 200_000}} {
		t.Run(fmt.Sprintf("keep %d, %d bytes", p.Keep, p.MaxBytes), func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			o := Options{FS: mem, MemTableBytes: 64 << 10, Encrypt: p.Keep != 2, Key: testKey(t, 1)}
			s, err := Open(crashDir, o)
			if err != nil {
				t.Fatal(err)
			}
			history(t, s, 12)
			before, _ := intact(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var (
				mu      sync.Mutex
				watch   bool
				crashes []*vfs.MemFS
			)
			dice := rand.New(rand.NewPCG(1, 2))
			disk := errorfs.Wrap(crashable{mem}, errorfs.InjectorFunc(func(op errorfs.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if watch && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					crashes = append(crashes, mem.CrashClone(vfs.CrashCloneCfg{}), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: dice}))
				}
				return nil
			}))
			o.FS = disk
			if s, err = Open(crashDir, o); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			watch = true
			mu.Unlock()
			collect(t, s, p, false)
			mu.Lock()
			watch = false
			mu.Unlock()
			after, husks := intact(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if len(crashes) < 6 {
				t.Fatalf("only %d crashes", len(crashes))
			}
			for i, c := range append(crashes, mem.CrashClone(vfs.CrashCloneCfg{})) {
				o.FS = c
				s, err := Open(crashDir, o)
				if err != nil {
					t.Fatalf("crash %d: %v", i, err)
				}
				if got, _ := intact(t, s); !slices.Equal(got, before) && !slices.Equal(got, after) {
					t.Errorf("crash %d: records %v, before %v, after %v", i, got, before, after)
				}
				collect(t, s, p, false)
				if got, n := intact(t, s); !slices.Equal(got, after) || n != husks {
					t.Errorf("crash %d: records %v and %d husks after a second time, want %v and %d", i, got, n, after, husks)
				}
				if again := collect(t, s, p, false); again.Orphans != 0 || again.FilesRemoved != 0 || len(again.Records) != 0 {
					t.Errorf("crash %d: a third time finds %s", i, summary(again))
				}
				if err := s.Close(); err != nil {
					t.Errorf("crash %d: %v", i, err)
				}
			}
		})
	}
}

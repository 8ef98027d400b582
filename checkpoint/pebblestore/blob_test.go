package pebblestore

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// large is an output of a file of its own, told apart by its first letter.
func large(letter string) string {
	return `"` + letter + strings.Repeat("x", checkpoint.LargeData) + `"`
}

// put commits one checkpoint and returns its head.
func put(t *testing.T, s *Store, tenant, workflow, step, text string) *checkpoint.Head {
	t.Helper()
	b := checkpoint.NewBatch(tenant, workflow)
	r := &checkpoint.Record{Head: checkpoint.Head{Step: step, Run: "r_1", Plan: checkpoint.NewHasher(step).Sum()}}
	b.PutCheckpoint(r, sanitized(t, text))
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return &r.Head
}

func sanitized(t *testing.T, text string) checkpoint.Sanitized {
	t.Helper()
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := san.Sanitize(json.RawMessage(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantData(t *testing.T, s *Store, tenant string, h *checkpoint.Head, want string) {
	t.Helper()
	if d, err := s.Data(t.Context(), tenant, h.Data); err != nil || string(d) != want {
		t.Errorf("data of record %d: %d bytes, %v; want %d bytes", h.Seq, len(d), err, len(want))
	}
}

func blobFiles(t *testing.T, dir string) (found []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, blobsDir, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func barrier(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLargeData: equal large outputs of a tenant are one file, those of two
// tenants are two, and what is of the limit's size stays in the database.
func TestLargeData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	limit := `"` + strings.Repeat("y", checkpoint.LargeData-2) + `"`
	type place struct {
		tenant, text string
		h            *checkpoint.Head
	}
	var places []place
	for _, tenant := range []string{"default", "租户", "A"} {
		for i, text := range []string{large("a"), large("a"), limit, large("b")} {
			h := put(t, s, tenant, "flow", "step."+string(rune('a'+i)), text)
			wantData(t, s, tenant, h, text) // before any sync
			places = append(places, place{tenant, text, h})
		}
	}
	barrier(t, s)
	if s.pending.bytes != 0 || len(s.pending.byKey) != 0 {
		t.Errorf("%d bytes of large outputs are in memory after the barrier", s.pending.bytes)
	}
	if n := len(blobFiles(t, dir)); n != 6 {
		t.Errorf("%d files, want 2 of each of 3 tenants", n)
	}
	for range 2 {
		for _, p := range places {
			wantData(t, s, p.tenant, p.h, p.text)
		}
		if _, err := s.Data(t.Context(), "B", places[0].h.Data); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("another tenant reads it: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, dir, Options{})
	}
}

// TestDamagedFile: a file that is gone or damaged is as good as absent, and
// comes back when the output is made again.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, file string)
		want   error
	}{
		{"deleted", remove, checkpoint.ErrNotFound},
		{"a byte", func(t *testing.T, file string) {
			edit(t, file, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}, checkpoint.ErrCorrupt},
		{"cut off", func(t *testing.T, file string) {
			edit(t, file, func(b []byte) []byte { return b[:len(b)-1] })
		}, checkpoint.ErrCorrupt},
		{"longer", func(t *testing.T, file string) {
			edit(t, file, func(b []byte) []byte { return append(b, ' ') })
		}, checkpoint.ErrCorrupt},
		{"empty", func(t *testing.T, file string) {
			edit(t, file, func([]byte) []byte { return nil })
		}, checkpoint.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{})
			h := put(t, s, "default", "flow", "step.a", large("a"))
			barrier(t, s)
			file := blobFiles(t, dir)[0]
			test.damage(t, file)
			if _, err := s.Data(t.Context(), "default", h.Data); !errors.Is(err, test.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("%v, want %v that names %s", err, test.want, file)
			}
			again := put(t, s, "default", "flow", "step.b", large("a"))
			barrier(t, s)
			wantData(t, s, "default", again, large("a"))
			wantData(t, s, "default", h, large("a"))
		})
	}
}

// TestLargeDataOfLayout1: before there were files, all outputs lay in the
// database.
func TestLargeDataOfLayout1(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	h := put(t, s, "default", "flow", "step.a", large("a"))
	for _, err := range []error{
		s.db.Delete(appendSeq(tenantPrefix(nil, "default", kindBlob), h.Seq), pebble.NoSync),
		s.db.Set(appendSeq(tenantPrefix(nil, "default", kindData), h.Seq), []byte(large("a")), pebble.NoSync),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantData(t, s, "default", h, large("a"))
}

// TestCut: a log that came to the disk before the file that one of its batches
// needs ends before that batch; what was persisted is never cut.
func TestCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	first := put(t, s, "default", "flow", "step.a", large("a"))
	barrier(t, s)
	head := first.Seq
	b := checkpoint.NewBatch("other", "flow")
	b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1"})
	b.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: "step.b", Run: "r_1"}}, sanitized(t, large("b")))
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	put(t, s, "default", "flow", "step.c", `1`)
	put(t, s, "default", "flow", "step.d", large("d"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// As if the power had gone before the sync that followed the first.
	if err := createHead(vfs.Default, dir, head); err != nil {
		t.Fatal(err)
	}
	for _, f := range blobFiles(t, dir) {
		if strings.Contains(f, "other") {
			remove(t, f)
		}
	}
	s = mustOpen(t, dir, Options{})
	x, err := s.Snapshot(t.Context(), "default", "flow")
	if err != nil || x.Len() != 1 {
		t.Errorf("%d heads, %v; only step.a was before the loss", x.Len(), err)
	}
	wantData(t, s, "default", first, large("a"))
	y, err := s.Snapshot(t.Context(), "other", "flow")
	as, err2 := s.Attempts(t.Context(), "other", "r_1")
	if err := errors.Join(err, err2); err != nil || y.Len()+len(as) != 0 {
		t.Errorf("%d heads and %d attempts of the batch that was cut, %v", y.Len(), len(as), err)
	}
	if seq := commitOne(t, s); seq != head+1 {
		t.Errorf("Seq %d after the cut, want %d", seq, head+1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The same loss of what was persisted is left for the reader to meet.
	if err := os.RemoveAll(filepath.Join(dir, blobsDir)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	if x, err := s.Snapshot(t.Context(), "default", "flow"); err != nil || x.Len() != 1 {
		t.Errorf("%d heads, %v", x.Len(), err)
	}
	if _, err := s.Data(t.Context(), "default", first.Data); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("data of a deleted file: %v", err)
	}
}

// TestRoom: when large outputs come faster than the disk takes them, Commit
// waits, and goes on when it has.
func TestRoom(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var once sync.Once
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, blobsDir) {
			once.Do(func() { <-hold })
		}
		return nil
	}))
	s, err := Open(crashDir, Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.pending.limit = 2 * checkpoint.LargeData
	put(t, s, "default", "flow", "step.a", large("a"))
	put(t, s, "default", "flow", "step.b", large("b")) // memory is full now
	done := make(chan checkpoint.Seq)
	go func() { done <- commitOne(t, s) }()
	select {
	case seq := <-done:
		t.Errorf("commit %d did not wait", seq)
	case hold <- struct{}{}:
	}
	if seq := <-done; seq != 3 {
		t.Errorf("Seq %d, want 3", seq)
	}
	barrier(t, s)
	if s.pending.bytes != 0 {
		t.Errorf("%d bytes wait after the barrier", s.pending.bytes)
	}
}

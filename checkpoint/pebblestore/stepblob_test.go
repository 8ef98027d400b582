package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

func keepBlob(t *testing.T, s *Store, text string) sdk.Digest {
	t.Helper()
	w, err := s.CreateBlob(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	d, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func refersTo(d sdk.Digest) string { return fmt.Sprintf(`{"$blob":%q,"size":1}`, d) }

// TestStepBlobs: gc keeps a blob as long as a record names it, whichever brought
// it; one that is damaged or gone is found by Check, and makes the output absent.
// A store that is encrypted shows nothing of it.
func TestStepBlobs(t *testing.T) {
	t.Parallel()
	for _, encrypt := range []bool{false, true} {
		dir := t.TempDir()
		s, err := Open(dir, Options{Encrypt: encrypt, Key: testKey(t, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		text := "bytes of a step that nobody else has"
		d, orphan := keepBlob(t, s, text), keepBlob(t, s, "of an attempt that failed")
		same := keepBlob(t, s, large("q")) // also a large output
		for _, run := range []checkpoint.RunID{"r_1", "r_2"} {
			b := checkpoint.NewBatch("default", "flow")
			b.PutRun(&checkpoint.RunRecord{ID: run, Workflow: "flow", Status: checkpoint.RunSucceeded})
			if _, err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		first := putRun(t, s, "r_1", "step.a", refersTo(d))
		shared := putRun(t, s, "r_1", "step.b", refersTo(same))
		putRun(t, s, "r_1", "step.c", large("q"))
		barrier(t, s)
		if h, err := s.Check(t.Context()); err != nil || len(h.Damages) > 0 || h.Orphans != 1 || h.Files != 3 {
			t.Fatalf("%+v, %v", h, err)
		}
		found, err := os.ReadFile(fileOf(t, s, d))
		if err != nil || encrypt == strings.Contains(string(found), text) {
			t.Errorf("encrypted %v: the file holds %q, %v", encrypt, found, err)
		}
		if c := collect(t, s, checkpoint.Policy{}, false); c.Orphans != 1 || c.FilesRemoved != 1 {
			t.Errorf("%d orphans, %d files removed", c.Orphans, c.FilesRemoved)
		}
		if there, err := s.HasBlob(t.Context(), "default", orphan); there || err != nil {
			t.Errorf("the orphan: %v, %v", there, err)
		}
		wantData(t, s, "default", first, refersTo(d))
		putRun(t, s, "r_2", "step.a", `1`)
		collect(t, s, checkpoint.Policy{Keep: 1}, false)
		if there, err := s.HasBlob(t.Context(), "default", d); there || err != nil {
			t.Errorf("a blob of a record that went: %v, %v", there, err)
		}
		wantData(t, s, "default", shared, refersTo(same))

		file := fileOf(t, s, same)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Data(t.Context(), "default", shared.Data); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("encrypted %v: an output whose blob is damaged: %v", encrypt, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Data(t.Context(), "default", shared.Data); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("an output whose blob is gone: %v", err)
		}
		if h, err := s.Check(t.Context()); err != nil || len(h.Damages) != 1 || h.Damages[0].File != file {
			t.Errorf("%+v, %v", h, err)
		}
		keepBlob(t, s, large("q")) // made again, all is well
		wantData(t, s, "default", shared, refersTo(same))
	}
}

func fileOf(t *testing.T, s *Store, d sdk.Digest) string {
	t.Helper()
	_, file, err := s.blobs.path(blobKey{"default", d})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestUnfinishedBlobs: what is being made is bounded, and is given back.
func TestUnfinishedBlobs(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	w, err := s.CreateBlob(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	s.unfinished.Store(maxUnfinished - 1)
	if _, err := io.WriteString(w, "x"); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(w, "x"); sdk.AsError(err).Class != sdk.ClassResourceExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	w.Discard()
	if n := s.unfinished.Load(); n != maxUnfinished-1 {
		t.Errorf("%d bytes are not given back", n-maxUnfinished+1)
	}
}

// TestBudgetOfBlobs: a small output with a large blob is over a size budget, and
// its file goes.
func TestBudgetOfBlobs(t *testing.T) {
	t.Parallel()
	for _, encrypt := range []bool{false, true} {
		s, err := Open(t.TempDir(), Options{Encrypt: encrypt, Key: testKey(t, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		d := keepBlob(t, s, large("x"))
		for i, run := range []checkpoint.RunID{"r_1", "r_2"} {
			b := checkpoint.NewBatch("default", "flow")
			b.PutRun(&checkpoint.RunRecord{ID: run, Workflow: "flow", Status: checkpoint.RunSucceeded, Created: time.Unix(int64(i), 0), Ended: time.Unix(9, 0)})
			if _, err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		putRun(t, s, "r_1", "step.a", refersTo(d))
		putRun(t, s, "r_2", "step.b", `1`)
		barrier(t, s)
		if c := collect(t, s, checkpoint.Policy{MaxBytes: 1 << 30}, false); len(c.Outputs) != 0 || c.Bytes < int64(len(large("x"))) {
			t.Errorf("with room for all: %s", summary(c))
		}
		c := collect(t, s, checkpoint.Policy{MaxBytes: 1 << 10}, false)
		if len(c.Outputs) != 1 || c.FilesRemoved != 1 || c.Orphans != 0 || c.Over != 0 {
			t.Errorf("encrypted %v: %s, %d files removed, %d orphans, %d over", encrypt, summary(c), c.FilesRemoved, c.Orphans, c.Over)
		}
		if there, err := s.HasBlob(t.Context(), "default", d); there || err != nil {
			t.Errorf("the blob is still there: %v", err)
		}
	}
}

package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
)

func health(t *testing.T, s *Store) *Health {
	t.Helper()
	h, err := s.Check(t.Context())
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return h
}

// TestCheckHealthy: everything is counted, nothing is wrong, at any time.
func TestCheckHealthy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	history(t, s, 6)
	put(t, s, "租户", "流程", "step.a", large("a"))
	want := Health{Tenants: 2, Checkpoints: 13, Runs: 6, Attempts: 6, Intents: 6, Outputs: 9, Files: 5, Last: 31}
	for _, readOnly := range []bool{false, true} {
		h := health(t, s)
		got := *h
		got.OutputBytes, got.FileBytes, got.DiskBytes = 0, 0, 0
		if fmt.Sprint(got) != fmt.Sprint(want) || h.FileBytes != 5*(checkpoint.LargeData+3) || h.OutputBytes != h.FileBytes+4 || h.DiskBytes == 0 {
			t.Errorf("read only %v: %+v, want %+v", readOnly, *h, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = OpenReadOnly(dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	collect(t, s, checkpoint.Policy{Keep: 1, MaxBytes: 1}, false)
	if h := health(t, s); len(h.Damages) != 0 || h.Orphans != 0 {
		t.Errorf("after gc: %+v", h)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no patience")
	cancel(cause)
	if _, err := s.Check(ctx); !errors.Is(err, cause) {
		t.Errorf("Check with an ended context: %v", err)
	}
}

// TestCheckDamage: each damage is found, with its record and file.
func TestCheckDamage(t *testing.T) {
	t.Parallel()
	set := func(key []byte, value string) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, _ string) {
			if err := s.db.Set(key, []byte(value), pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	del := func(key []byte) func(*testing.T, *Store, string) {
		return func(t *testing.T, s *Store, _ string) {
			if err := s.db.Delete(key, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	// One run of records 1 (run), 2, 3, 4 (small) and 5 (large).
	head := appendSeq(namePrefix(nil, "default", kindHead, "flow"), 4)
	context := appendSeq(tenantPrefix(nil, "default", kindContext), 4)
	data := appendSeq(tenantPrefix(nil, "default", kindData), 4)
	blob := appendSeq(tenantPrefix(nil, "default", kindBlob), 5)
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, s *Store, file string)
		what   string
		seq    checkpoint.Seq
		cause  string
		of     string
	}{
		{"head", set(head, "x"), "checkpoint", 4, "format version 120", "flow step.small r_0"},
		{"context", set(context, "\x04flow\x01{"), "checkpoint", 4, "record cannot be read", "flow step.small r_0"},
		{"no context", del(context), "checkpoint", 4, "its context is missing", "flow step.small r_0"},
		{"no head", del(head), "checkpoint", 4, "its head is missing", "flow step.small r_0"},
		{"data", set(data, `1`), "output", 4, "digest", "flow step.small r_0"},
		{"no data", del(data), "output", 4, "not found", "flow step.small r_0"},
		{"reference", set(blob, "x"), "output", 5, "record cannot be read", "flow step.large r_0"},
		{"no reference", del(blob), "output", 5, "not found", "flow step.large r_0"},
		{"run", set(appendSeq(namePrefix(nil, "default", kindRun, "r_0"), 1), "\x04flow\x01["), "run", 1, "record cannot be read", "  r_0"},
		{"attempt", set(appendSeq(namePrefix(nil, "default", kindAttempt, "r_0"), 2), ""), "attempt", 2, "it is empty", "  r_0"},
		{"intent", set(appendSeq(namePrefix(nil, "default", kindIntent, "r_0"), 3), "\x09"), "intent", 3, "format version 9", "  r_0"},
		{"a byte of a file", func(t *testing.T, _ *Store, file string) {
			edit(t, file, func(b []byte) []byte { b[7] ^= 1; return b })
		}, "file", 5, "digest", "flow step.large r_0"},
		{"no file", func(t *testing.T, _ *Store, file string) { remove(t, file) }, "file", 5, "not found", "flow step.large r_0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{})
			history(t, s, 1)
			file := blobFiles(t, dir)[0]
			test.damage(t, s, file)
			h := health(t, s)
			for _, d := range h.Damages {
				named := test.what != "file" || d.File == file
				if d.Tenant == "default" && d.What == test.what && d.Seq == test.seq && strings.Contains(d.Cause.Error(), test.cause) && named {
					if of := fmt.Sprint(d.Workflow, " ", d.Step, " ", d.Run); of != test.of {
						t.Errorf("it is of %q, want %q", of, test.of)
					}
					return
				}
			}
			t.Errorf("damages %+v, want one of %s %d: %s", h.Damages, test.what, test.seq, test.cause)
		})
	}
}

// TestCheckTable: a byte of a table is found where it lies, and so is a lost
// log.
func TestCheckTable(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	tables := files(t, dir, "*.sst")
	edit(t, tables[0], func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
	s, err := OpenReadOnly(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := false
	for _, d := range health(t, s).Damages {
		found = found || d.What == "database" && strings.Contains(d.Cause.Error(), ".sst") && errors.Is(d.Cause, checkpoint.ErrCorrupt)
	}
	if !found {
		t.Errorf("damages %+v", health(t, s).Damages)
	}

	lost := fill(t)
	logs := files(t, lost, "*.log")
	remove(t, logs[len(logs)-1])
	s2, err := OpenReadOnly(lost, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	h := health(t, s2)
	if h.Behind != records || len(h.Damages) != 1 || h.Damages[0].What != "head" || !strings.Contains(h.Damages[0].File, headFile) {
		t.Errorf("%+v", h)
	}
}

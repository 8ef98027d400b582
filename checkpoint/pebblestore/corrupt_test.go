package pebblestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
)

const records = 40

// fill makes a store of 40 records and closes it. Its first half lies in a
// table, the second in the log.
func fill(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for half := range 2 {
		s, err := Open(dir, Options{}) // opening writes the log before it as a table
		if err != nil {
			t.Fatal(err)
		}
		for i := range records / 2 {
			out, err := san.Sanitize(json.RawMessage(fmt.Sprintf(`"%d%s"`, i, strings.Repeat("y", 500))), nil)
			if err != nil {
				t.Fatal(err)
			}
			b := checkpoint.NewBatch("default", "flow")
			b.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: fmt.Sprint("step.", half, "_", i), Run: "r_1"}}, out)
			if _, err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// files of the database with this pattern, the newest last.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, dbDir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return found
}

func edit(t *testing.T, file string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readAll reads everything there is and says how many records it was.
func readAll(t *testing.T, dir string) (n int, behind checkpoint.Seq, err error) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	x, err := s.Snapshot(t.Context(), "default", "flow")
	if err != nil {
		return 0, s.Behind(), err
	}
	for half := range 2 {
		for i := range records / 2 {
			h := x.Head(fmt.Sprint("step.", half, "_", i), "")
			if h == nil {
				continue
			}
			if _, err := s.Data(t.Context(), "default", h.Data); err != nil {
				return n, s.Behind(), err
			}
			n++
		}
	}
	return n, s.Behind(), nil
}

// TestDamage: a damaged store says so, or says what it has lost. It is never
// silently short.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		file   string // that the error names; "" where Behind tells
	}{
		{"a byte of a table", func(t *testing.T, dir string) {
			edit(t, files(t, dir, "*.sst")[0], func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
		}, ".sst"},
		{"a table cut off", func(t *testing.T, dir string) {
			edit(t, files(t, dir, "*.sst")[0], func(b []byte) []byte { return b[:len(b)/2] })
		}, ".sst"},
		{"a table deleted", func(t *testing.T, dir string) { remove(t, files(t, dir, "*.sst")[0]) }, "000005"},
		{"a byte of the log", func(t *testing.T, dir string) {
			logs := files(t, dir, "*.log")
			edit(t, logs[len(logs)-1], func(b []byte) []byte { b[3000] ^= 1; return b })
		}, ""}, // Pebble takes it for the end of the log
		{"the log deleted", func(t *testing.T, dir string) {
			logs := files(t, dir, "*.log")
			remove(t, logs[len(logs)-1])
		}, ""},
		{"the manifest deleted", func(t *testing.T, dir string) {
			for _, m := range files(t, dir, "MANIFEST-*") {
				remove(t, m)
			}
		}, "MANIFEST"},
		{"a byte of the manifest", func(t *testing.T, dir string) {
			for _, m := range files(t, dir, "MANIFEST-*") {
				edit(t, m, func(b []byte) []byte { b[20] ^= 1; return b })
			}
		}, "MANIFEST"},
		{"the markers deleted", func(t *testing.T, dir string) {
			for _, m := range files(t, dir, "marker.*") {
				remove(t, m)
			}
		}, dbDir},
		{"the database deleted", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, dbDir)); err != nil {
				t.Fatal(err)
			}
		}, dbDir},
		{"HEAD overwritten", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, headFile), func(b []byte) []byte { return make([]byte, len(b)) })
		}, headFile},
		{"HEAD emptied", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, headFile), func([]byte) []byte { return nil })
		}, headFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := fill(t)
			test.damage(t, dir)
			n, behind, err := readAll(t, dir)
			if test.file == "" {
				if err != nil || behind != records || n >= records {
					t.Errorf("%d records, behind %d, %v", n, behind, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.file) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("%d records, behind %d, error %v; it should name %s in %s", n, behind, err, test.file, dir)
			}
			if !errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not ErrCorrupt, or as if there was no store", err)
			}
		})
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// TestHeadSlots: one slot is enough, and without the file it is made again, but
// nobody knows what was lost.
func TestHeadSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		damage func(t *testing.T, dir string)
		behind checkpoint.Seq
	}{
		{func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, headFile), func(b []byte) []byte { clear(b[:slotSize]); return b })
		}, 0},
		{func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, headFile), func(b []byte) []byte { clear(b[slotSize:]); return b })
		}, 0},
		{func(t *testing.T, dir string) { remove(t, filepath.Join(dir, headFile)) }, records + 1},
	} {
		dir := fill(t)
		c.damage(t, dir)
		if n, behind, err := readAll(t, dir); n != records || behind != c.behind || err != nil {
			t.Errorf("%d records, behind %d, want %d, %v", n, behind, c.behind, err)
		}
		s := mustOpen(t, dir, Options{})
		last := commitOne(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if head, there, err := readHead(s.fs, filepath.Join(dir, headFile)); head != last || !there || err != nil {
			t.Errorf("HEAD = %d, %v, %v, want %d", head, there, err, last)
		}
	}
}

// TestBehind: what was lost is told until there is a commit, and its Seqs are
// not given again.
func TestBehind(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	logs := files(t, dir, "*.log")
	remove(t, logs[len(logs)-1])
	for range 2 {
		s := mustOpen(t, dir, Options{})
		if s.Behind() != records {
			t.Errorf("Behind = %d, want %d", s.Behind(), records)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, dir, Options{})
	if seq := commitOne(t, s); seq != records+1 {
		t.Errorf("Seq %d after the loss, want %d", seq, records+1)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = mustOpen(t, dir, Options{}); s.Behind() != 0 {
		t.Errorf("Behind = %d after a commit", s.Behind())
	}
}

// TestDamagedRecord: bytes that Pebble holds for good and that are not a record
// give an error that names the record.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	s := mustOpen(t, dir, Options{})
	for _, c := range []struct {
		key   []byte
		value string
		want  string
		read  func() error
	}{
		{appendSeq(namePrefix(nil, "default", kindHead, "flow"), 3), "\x02", "format version 2", func() error {
			_, err := s.Snapshot(t.Context(), "default", "flow")
			return err
		}},
		{appendSeq(tenantPrefix(nil, "default", kindContext), 3), "\x09x", "record 3", func() error {
			_, err := s.Record(t.Context(), "default", 3)
			return err
		}},
		{appendSeq(tenantPrefix(nil, "default", kindContext), 3), "\x04flow\x01{", "record 3", func() error {
			_, err := s.Record(t.Context(), "default", 3)
			return err
		}},
		{appendSeq(tenantPrefix(nil, "default", kindData), 3), "x", "record 3", func() error {
			_, err := s.Data(t.Context(), "default", checkpoint.DataRef{Seq: 3, Size: 5})
			return err
		}},
		{appendSeq(namePrefix(nil, "default", kindRun, "r_1"), 3), "\x04flow\x01[]", "record 3", func() error {
			_, err := s.Run(t.Context(), "default", "r_1")
			_, err2 := s.Runs(t.Context(), "default", "")
			if err2 == nil {
				t.Error("Runs reads what Run does not")
			}
			return err
		}},
		{appendSeq(namePrefix(nil, "default", kindAttempt, "r_1"), 3), "", "record 3", func() error {
			_, err := s.Attempts(t.Context(), "default", "r_1")
			return err
		}},
	} {
		if err := s.db.Set(c.key, []byte(c.value), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		err := c.read()
		if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q = %q: %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

// TestNewerLayout: a store of a later engine is refused and left alone.
func TestNewerLayout(t *testing.T) {
	t.Parallel()
	dir := fill(t)
	s := mustOpen(t, dir, Options{})
	if err := s.db.Set(keyVersion, []byte{sealedLayout + 1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "layout version 4, this engine knows 1 to 3: a later engine has written it; use that one") {
		t.Errorf("Open: %v", err)
	}
}

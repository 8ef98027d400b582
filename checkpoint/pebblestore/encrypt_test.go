package pebblestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

const planted = "PLANTED-机密-text"

// plant commits the text in every record and field that holds what a flow or a
// step has said.
func plant(t *testing.T, s *Store, tenant string) []*checkpoint.Head {
	t.Helper()
	text := `"` + planted + `"`
	var heads []*checkpoint.Head
	for i, data := range []string{text, `["` + planted + `",1]`, large(planted)} {
		heads = append(heads, put(t, s, tenant, "flow", fmt.Sprint("step.a", i), data))
	}
	b := checkpoint.NewBatch(tenant, "flow")
	reported := checkpoint.Record{Head: checkpoint.Head{Step: "step.b", Instance: planted, Run: "r_1", Outcome: checkpoint.SkippedCondition}, Context: checkpoint.Context{
		Plugin: planted, Reported: []byte(text), Usage: []sdk.Usage{{Model: planted}},
	}}
	b.PutSkip(&reported)
	b.PutRun(&checkpoint.RunRecord{ID: "r_1", Values: map[string]json.RawMessage{"v": json.RawMessage(text)}, Error: &sdk.Error{Message: planted}})
	b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Step: "step.b", Instance: planted, Error: &sdk.Error{Message: planted, Details: []byte(text)}})
	b.PutIntent(&checkpoint.Intent{Run: "r_1", Step: "step.b", IdempotencyKey: planted, Undo: []byte(text)})
	b.PutFile([]byte("prompt = " + text))
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	barrier(t, s)
	return heads
}

// everywhere are the files below dir that hold the text, or the digest of an
// output or of the flow's file, in the clear.
func everywhere(t *testing.T, dir string, heads []*checkpoint.Head) (found []string) {
	t.Helper()
	wanted := [][]byte{[]byte(planted)}
	file := sdk.Sum([]byte(`prompt = "` + planted + `"`))
	wanted = append(wanted, file[:])
	for _, h := range heads {
		wanted = append(wanted, h.Data.SHA256[:], fmt.Appendf(nil, "%x", h.Data.SHA256[:]), h.Output[:])
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, w := range wanted {
			if bytes.Contains(b, w) || strings.Contains(path, string(w)) {
				found = append(found, path)
				break
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestNothingInTheClear: no file holds a byte of what was stored, in the log nor
// in tables, nor its digests, which would tell who guesses it that he is right.
func TestNothingInTheClear(t *testing.T) {
	t.Parallel()
	for _, encrypt := range []bool{false, true} {
		dir := t.TempDir()
		var heads []*checkpoint.Head
		for range 3 { // opening writes the log before it as a table
			s, err := Open(dir, Options{Encrypt: encrypt, Key: testKey(t, 1), MemTableBytes: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			heads = append(plant(t, s, "default"), plant(t, s, "other")...)
			if found := everywhere(t, dir, heads); encrypt != (len(found) == 0) {
				t.Fatalf("encrypted %v, in the clear: %v", encrypt, found)
			}
			h, err := s.Check(t.Context())
			if err != nil || len(h.Damages) > 0 || h.Orphans > 0 {
				t.Fatalf("%+v, %v", h, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := mustOpen(t, dir, Options{Key: testKey(t, 1)})
		for _, h := range heads[:3] {
			if d, err := s.Data(t.Context(), "default", h.Data); err != nil || !strings.Contains(string(d), planted) {
				t.Fatalf("%.40q, %v", d, err)
			}
		}
		if _, err := s.Collect(t.Context(), "default", checkpoint.Policy{Keep: 1}, false); err != nil {
			t.Fatal(err)
		}
		h, err := s.Check(t.Context())
		if err != nil || len(h.Damages) > 0 {
			t.Fatalf("%+v, %v", h, err)
		}
		if found := everywhere(t, dir, heads); encrypt != (len(found) == 0) {
			t.Fatalf("encrypted %v, in the clear: %v", encrypt, found)
		}
	}
}

// TestMovedRecords: a record that was put in the place of another, of its own
// older self, of another workflow or tenant is not read, and what reads it names
// the record.
func TestMovedRecords(t *testing.T) {
	t.Parallel()
	moves := map[string]func(s *Store, older, newer *checkpoint.Head) (from, to []byte){
		"an older head of the step": func(s *Store, older, newer *checkpoint.Head) (from, to []byte) {
			return headKey("default", "flow", older.Seq), headKey("default", "flow", newer.Seq)
		},
		"a head of another workflow": func(s *Store, older, newer *checkpoint.Head) (from, to []byte) {
			return headKey("default", "else", 3), headKey("default", "flow", newer.Seq)
		},
		"a head of another tenant": func(s *Store, older, newer *checkpoint.Head) (from, to []byte) {
			return headKey("other", "flow", 4), headKey("default", "flow", newer.Seq)
		},
		"an older output": func(s *Store, older, newer *checkpoint.Head) (from, to []byte) {
			return dataKey(kindData, older.Seq), dataKey(kindData, newer.Seq)
		},
		"an older context": func(s *Store, older, newer *checkpoint.Head) (from, to []byte) {
			return dataKey(kindContext, older.Seq), dataKey(kindContext, newer.Seq)
		},
	}
	for name, keys := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, t.TempDir(), Options{Encrypt: true, Key: testKey(t, 1)})
			older := put(t, s, "default", "flow", "step.a", `"older"`)
			newer := put(t, s, "default", "flow", "step.a", `"newer"`)
			put(t, s, "default", "else", "step.a", `"newer"`)
			put(t, s, "other", "flow", "step.a", `"newer"`)
			from, to := keys(s, older, newer)
			value, closer, err := s.db.Get(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.db.Set(to, slices.Clone(value), pebble.Sync), closer.Close()); err != nil {
				t.Fatal(err)
			}
			_, serr := s.Snapshot(t.Context(), "default", "flow")
			_, rerr := s.Record(t.Context(), "default", newer.Seq)
			_, derr := s.Data(t.Context(), "default", newer.Data)
			err = errors.Join(serr, rerr, derr)
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "record 2") {
				t.Errorf("it is read: %v", err)
			}
			h, err := s.Check(t.Context())
			if err != nil || len(h.Damages) == 0 || !slices.ContainsFunc(h.Damages, func(d Damage) bool { return d.Seq == newer.Seq && errors.Is(d.Cause, checkpoint.ErrCorrupt) }) {
				t.Errorf("check finds %+v, %v", h.Damages, err)
			}
		})
	}
}

func headKey(tenant, workflow string, seq checkpoint.Seq) []byte {
	return appendSeq(namePrefix(nil, tenant, kindHead, workflow), seq)
}

func dataKey(kind byte, seq checkpoint.Seq) []byte {
	return appendSeq(tenantPrefix(nil, "default", kind), seq)
}

// TestMovedFile: the files of large outputs are bound to what they are.
func TestMovedFile(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{Encrypt: true, Key: testKey(t, 1)})
	a, b := put(t, s, "default", "flow", "step.a", large("a")), put(t, s, "default", "flow", "step.b", large("b"))
	other := put(t, s, "other", "flow", "step.b", large("b"))
	barrier(t, s)
	path := func(tenant string, h *checkpoint.Head) string {
		_, file, err := s.blobs.path(blobKey{tenant, h.Data.SHA256})
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	if filepath.Base(path("default", b)) == filepath.Base(path("other", other)) {
		t.Error("the name of a file tells that two tenants have the same")
	}
	for _, from := range []string{path("default", a), path("other", other)} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path("default", b), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Data(t.Context(), "default", b.Data); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), path("default", b)) {
			t.Errorf("it is read: %v", err)
		}
	}
}

// TestKeys: what is said where the key, the keyring or the wish does not fit.
func TestKeys(t *testing.T) {
	t.Parallel()
	one, two := testKey(t, 1), testKey(t, 2)
	filled := func(t *testing.T, o Options) string {
		dir := t.TempDir()
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "default", "flow", "step.a", `1`)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	sealed := Options{Encrypt: true, Key: one}
	removed := func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, keyringFile)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		made, opened Options
		change       func(t *testing.T, dir string)
		kind         error
		says         string
	}{
		"no key":                {sealed, Options{}, nil, checkpoint.ErrKey, "the state is encrypted with " + one.ID() + ", and no key was given"},
		"another key":           {sealed, Options{Key: two}, nil, checkpoint.ErrKey, "the state is encrypted with " + one.ID() + ", and the key given is " + two.ID()},
		"encrypt again":         {sealed, sealed, nil, nil, ""},
		"not asked again":       {sealed, Options{Key: one}, nil, nil, ""},
		"a plain store":         {Options{}, sealed, nil, ErrPlain, "only a new one can be"},
		"a key too many":        {Options{}, Options{Key: one}, nil, nil, ""},
		"keyring is gone":       {sealed, Options{Key: one}, removed, checkpoint.ErrCorrupt, keyringFile + " is gone"},
		"gone and no key":       {sealed, Options{}, removed, checkpoint.ErrCorrupt, keyringFile + " is gone"},
		"another's keyring":     {Options{}, Options{Key: one}, func(t *testing.T, dir string) { copyFile(t, filled(t, sealed), dir) }, checkpoint.ErrCorrupt, "does not belong to it"},
		"a new store's keyring": {sealed, Options{Key: one}, func(t *testing.T, dir string) { copyFile(t, filled(t, sealed), dir) }, checkpoint.ErrCorrupt, "record 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t, test.made)
			if test.change != nil {
				test.change(t, dir)
			}
			s, err := Open(dir, test.opened)
			if err == nil {
				_, err = s.Snapshot(t.Context(), "default", "flow")
				err = errors.Join(err, s.Close())
			}
			if !errors.Is(err, test.kind) || test.kind != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %v that says %q", err, test.kind, test.says)
			}
		})
	}
	if _, err := Open(t.TempDir(), Options{Encrypt: true}); err == nil {
		t.Error("a store is encrypted without a key")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(from, keyringFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, keyringFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRotate takes the power away at each change of the file system, and lets
// each fail: the store opens with one of the two keys, and the rotation can be
// asked for again.
func TestRotate(t *testing.T) {
	t.Parallel()
	one, two := testKey(t, 1), testKey(t, 2)
	made := func() *vfs.MemFS {
		mem := vfs.NewCrashableMem()
		s, err := Open(crashDir, Options{FS: mem, Encrypt: true, Key: one})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "default", "flow", "step.a", `"kept"`)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return mem
	}
	opens := func(mem vfs.FS, k checkpoint.Key) error {
		s, err := Open(crashDir, Options{FS: mem, Key: k})
		if err != nil {
			return err
		}
		x, err := s.Snapshot(t.Context(), "default", "flow")
		if err == nil {
			_, err = s.Data(t.Context(), "default", x.Head("step.a", "").Data)
		}
		return errors.Join(err, s.Close())
	}
	settled := func(what string, mem vfs.FS) {
		t.Helper()
		before, after := opens(mem, one), opens(mem, two)
		if (before == nil) == (after == nil) || !errors.Is(errors.Join(before, after), checkpoint.ErrKey) {
			t.Fatalf("%s: with the old key %v, with the new %v", what, before, after)
		}
		if done, err := Rotate(crashDir, Options{FS: mem, Key: one}, two); err != nil || done != (before == nil) {
			t.Fatalf("%s: again: %v, %v", what, done, err)
		}
		if err := opens(mem, two); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ended := false
	for n := 1; !ended; n++ {
		mem, ops, dice := made(), 0, rand.New(rand.NewPCG(uint64(n), 3))
		var crashed *vfs.MemFS
		ended = true
		_, err := Rotate(crashDir, Options{Key: one, FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpLock || op.Kind.ReadOrWrite() == errorfs.OpIsRead {
				return nil
			}
			if ops++; ops == n {
				ended = false
				crashed = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: n % 3 * 50, RNG: dice})
				return errorfs.ErrInjected
			}
			return nil
		}))}, two)
		if (err == nil) != ended {
			t.Fatalf("operation %d: %v", n, err)
		}
		settled(fmt.Sprint("failed at ", n), mem)
		if crashed != nil {
			settled(fmt.Sprint("died at ", n), crashed)
		}
	}
	plain := vfs.NewMem()
	s := mustOpen(t, crashDir, Options{FS: plain})
	if _, err := Rotate(crashDir, Options{FS: plain, Key: one}, two); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Rotate(crashDir, Options{FS: plain, Key: one}, two); !errors.Is(err, ErrPlain) {
		t.Errorf("a plain store: %v", err)
	}
	if _, err := Rotate(crashDir, Options{FS: made(), Key: testKey(t, 3)}, two); !errors.Is(err, checkpoint.ErrKey) {
		t.Errorf("with a wrong key: %v", err)
	}
	if _, err := Rotate("nowhere", Options{FS: plain, Key: one}, two); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
}

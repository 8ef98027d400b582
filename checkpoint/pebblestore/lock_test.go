package pebblestore

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// holderEnv tells the test binary to hold the store in the directory it names.
const holderEnv = "PEBBLESTORE_TEST_HOLD"

// TestHolder is no test of its own: TestLockOfAnotherProcess runs it as a
// process that opens a store, commits, says so and waits.
func TestHolder(t *testing.T) {
	dir := os.Getenv(holderEnv)
	if dir == "" {
		t.Skip("runs in another process")
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	commitOne(t, s)
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent kills it
}

func commitOne(t *testing.T, s *Store) checkpoint.Seq {
	t.Helper()
	b := checkpoint.NewBatch("default", "flow")
	b.PutIntent(&checkpoint.Intent{Run: "r_1"})
	seq, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func wantLocked(t *testing.T, dir string, pid int, since time.Time) {
	t.Helper()
	for name, open := range map[string]func(string, Options) (*Store, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
		s, err := open(dir, Options{})
		if err == nil {
			_ = s.Close()
		}
		var locked *LockedError
		if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) {
			t.Fatalf("%s of a store in use: %v", name, err)
		}
		if locked.PID != pid || locked.Dir != dir || locked.Host == "" || locked.Since.Before(since.Add(-time.Second)) {
			t.Errorf("%s: %+v, want pid %d since %s", name, locked, pid, since)
		}
	}
}

func TestLockOfThisProcess(t *testing.T) {
	t.Parallel()
	dir, start := filepath.Join(t.TempDir(), "a", "store"), time.Now()
	s := mustOpen(t, dir, Options{})
	wantLocked(t, dir, os.Getpid(), start)
	commitOne(t, s) // the refused ones have disturbed nothing
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	if seq := commitOne(t, s); seq != 2 {
		t.Errorf("Seq %d after reopening, want 2", seq)
	}
}

func TestLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir, start := t.TempDir(), time.Now()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolder$")
	cmd.Env = append(os.Environ(), holderEnv+"="+dir)
	stdin, err := cmd.StdinPipe() // stays open: the child waits for its end
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the holder said %q, %v", line, err)
	}
	wantLocked(t, dir, cmd.Process.Pid, start)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed

	// The note of the dead owner is still there and means nothing.
	if o, err := readOwner(vfs.Default, dir); err != nil || o.PID != cmd.Process.Pid {
		t.Fatalf("note of the dead owner: %+v, %v", o, err)
	}
	s := mustOpen(t, dir, Options{})
	if is, err := s.Intents(t.Context(), "default", "r_1"); err != nil || len(is) != 1 {
		t.Errorf("after the kill: %d intents, %v", len(is), err)
	}
	if o, err := readOwner(vfs.Default, dir); err != nil || o.PID != os.Getpid() {
		t.Errorf("note of the new owner: %+v, %v", o, err)
	}
}

// TestLockWithoutNote: the owner may not have written its note yet, or not
// whole.
func TestLockWithoutNote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustOpen(t, dir, Options{})
	for _, note := range []string{"", `{"pid":`} {
		if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, Options{})
		var locked *LockedError
		if !errors.As(err, &locked) || locked.PID != 0 || !strings.Contains(err.Error(), "another process") {
			t.Errorf("with the note %q: %v", note, err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if _, err := OpenReadOnly(filepath.Join(root, "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 0 {
		t.Errorf("looking for a store has left %v, %v", entries, err)
	}
	dir := filepath.Join(root, "store")
	s := mustOpen(t, dir, Options{})
	commitOne(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if is, err := r.Intents(t.Context(), "default", "r_1"); err != nil || len(is) != 1 {
		t.Errorf("%d intents, %v", len(is), err)
	}
	if _, err := r.Commit(t.Context(), checkpoint.NewBatch("t", "w")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Commit: %v", err)
	}
	if err := r.Barrier(t.Context()); err != nil {
		t.Errorf("Barrier: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if seq := commitOne(t, mustOpen(t, dir, Options{})); seq != 2 {
		t.Errorf("Seq %d after reading, want 2", seq)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := Open(t.TempDir(), Options{MemTableBytes: 1, CacheBytes: -1})
	for _, want := range []string{"MemTableBytes is 1", "CacheBytes is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestUnusableDirectory: what is in the way is named.
func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, "store"), Options{})
	if err == nil || errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), file) {
		t.Errorf("a file in the way: %v", err)
	}
}

package pebblestore

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// TestCloseSettles: a store that was closed with much in memory opens without
// reading that from its log; one that was killed, and one with little, read it
// there. All have everything.
func TestCloseSettles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		n      int
		killed bool
		log    int64 // what is read at most; 0: some is
	}{
		{"closed", 400, false, 64 << 10},
		{"killed", 400, true, 0},
		{"small", 40, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mem := vfs.NewCrashableMem()
			s := mustOpen(t, "store", Options{FS: mem})
			text := strings.Repeat("x", 4<<10)
			for i := range c.n {
				put(t, s, "default", "flow", fmt.Sprint("step.s", i), `"`+text+fmt.Sprint(i)+`"`)
			}
			if err := s.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := mem
			if c.killed {
				left = mem.CrashClone(vfs.CrashCloneCfg{})
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			read := int64(0)
			s = mustOpen(t, "store", Options{FS: errorfs.Wrap(left, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileRead && filepath.Ext(op.Path) == ".log" {
					read += 32 << 10 // Pebble's block, the least it reads
				}
				return nil
			}))})
			if s.Behind() != 0 {
				t.Errorf("behind %d", s.Behind())
			}
			if c.log > 0 && read > c.log || c.log == 0 && read <= 64<<10 {
				t.Errorf("read about %d bytes of its log", read)
			}
			seen := 0
			err := s.Heads(t.Context(), "default", func(checkpoint.Stored) error { seen++; return nil })
			if err != nil || seen != c.n {
				t.Errorf("%d of %d records: %v", seen, c.n, err)
			}
		})
	}
}

// TestCloseWithoutRoom: a disk that is too full for the table keeps the log, and
// nothing is wrong.
func TestCloseWithoutRoom(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	s := mustOpen(t, "store", Options{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && filepath.Ext(op.Path) == ".sst" {
			return syscall.ENOSPC
		}
		return nil
	}))})
	text := `"` + strings.Repeat("x", 4<<10) + `"`
	for i := range 400 {
		put(t, s, "default", "flow", fmt.Sprint("step.s", i), text)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s.failure.cause() == nil {
		t.Error("no table was tried")
	}
	s = mustOpen(t, "store", Options{FS: mem})
	seen := 0
	if err := s.Heads(t.Context(), "default", func(checkpoint.Stored) error { seen++; return nil }); err != nil || seen != 400 {
		t.Errorf("%d records: %v", seen, err)
	}
}

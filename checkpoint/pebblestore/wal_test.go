package pebblestore

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestLogIsFilled: a log is longer than what was written, zeros follow, what is
// used again is not filled again, and other files are left alone.
func TestLogIsFilled(t *testing.T) {
	t.Parallel()
	zeroed := 0
	mem := vfs.NewMem()
	disk := walFS{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			zeroed++
		}
		return nil
	}))}
	write := func(f vfs.File, p []byte) {
		t.Helper()
		p = bytes.Clone(p) // a MemFS changes what it is given under the race detector
		if n, err := f.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	content := func(name string) []byte {
		t.Helper()
		f, err := mem.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return b
	}
	f, err := disk.Create("1.log", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 40 {
		p := bytes.Repeat([]byte{byte(i + 1)}, 10<<10)
		want = append(want, p...)
		write(f, p)
		got := content("1.log")
		if !bytes.HasPrefix(got, want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 || len(got) > 2*len(want)+leastGrowth {
			t.Fatalf("after %d bytes the file has %d", len(want), len(got))
		}
	}
	if zeroed == 0 || zeroed > 10 {
		t.Errorf("filled %d times", zeroed)
	}
	size, before := len(content("1.log")), zeroed
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = disk.ReuseForWrite("1.log", "2.log", vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	write(f, want)
	if len(content("2.log")) != size || zeroed != before {
		t.Errorf("a file that is used again has %d bytes, had %d, and was filled %d times", len(content("2.log")), size, zeroed-before)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = disk.Create("3.sst", vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	}
	write(f, []byte("table"))
	if got := content("3.sst"); string(got) != "table" {
		t.Errorf("another file has %d bytes", len(got))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

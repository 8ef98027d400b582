package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestTreeDigest: names and contents count, and nothing else; what is too much to
// read is said, with what to do.
func TestTreeDigest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	digest := func() string {
		t.Helper()
		d, err := treeDigest(dir, 10, 100)
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	write("a/b", "1")
	write("c", "2")
	first := digest()
	if err := os.Chtimes(filepath.Join(dir, "c"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if digest() != first {
		t.Error("times, permissions or links count")
	}
	seen := map[string]string{first: "the first"}
	for _, change := range []struct {
		what string
		do   func() error
	}{
		{"a content", func() error { write("c", "3"); return nil }},
		{"a name", func() error { return os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "d")) }},
		{"a place", func() error { return os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "a/d")) }},
		{"an empty directory", func() error { return os.Mkdir(filepath.Join(dir, "e"), 0o700) }},
		{"an empty file", func() error { write("f", ""); return nil }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		d := digest()
		if as := seen[d]; as != "" {
			t.Errorf("%s does not count: as %s", change.what, as)
		}
		seen[d] = change.what
	}
	for _, c := range []struct {
		entries int
		bytes   int64
		want    string
	}{{3, 100, "more than 3 files and directories"}, {100, 1, "mount a smaller directory"}} {
		if _, err := treeDigest(dir, c.entries, c.bytes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d entries, %d bytes: %v", c.entries, c.bytes, err)
		}
	}
	ts := trees{log: hclog.NewNullLogger()}
	one, err := ts.digest(dir)
	write("c", "changed meanwhile")
	if two, err2 := ts.digest(dir); err != nil || err2 != nil || one != two {
		t.Errorf("a run sees a directory at one time: %v, %v", err, err2)
	}
	if _, err := ts.digest(filepath.Join(dir, "absent")); err == nil || !strings.Contains(err.Error(), "absent: no such file or directory; a mount") {
		t.Errorf("%v", err)
	}
}

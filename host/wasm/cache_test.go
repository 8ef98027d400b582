package wasm

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

func upper(t *testing.T, l *Loader) {
	t.Helper()
	p := loadertest.Load(t, l, "testdata/guests/reactor.wasm")
	r, err := loadertest.Step(t, p, "upper", loader.Limits{}).Run(t.Context(), request(`{"text":"a"}`), okHost)
	if err != nil || string(r.Output) != `{"upper":"A","words":1}` {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestCacheIsUsedAndHeals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	upper(t, newLoader(t, Options{CacheDir: dir}))
	files := entries(t, dir)
	if len(files) != 4 {
		t.Fatalf("an entry of %q", files)
	}
	stat := func() (times []string) {
		for _, f := range files {
			st, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, st.ModTime().String())
		}
		return times
	}
	before := stat()
	upper(t, newLoader(t, Options{CacheDir: dir}))
	if after := stat(); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Error("the entry was written again")
	}
	for _, f := range files { // whatever is damaged, the next load repairs it
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
		upper(t, newLoader(t, Options{CacheDir: dir}))
		c := newLoader(t, Options{CacheDir: dir}).cache
		if err := c.verify(c.entryDir(sdk.Sum(readFile(t, "testdata/guests/reactor.wasm")))); err != nil {
			t.Errorf("%s was damaged and not repaired: %v", filepath.Base(f), err)
		}
	}
	if left := entries(t, dir); len(left) != 4 {
		t.Errorf("left behind: %q", left)
	}
}

// The cache forgets what nobody has loaded for a month, and what was half made;
// a module that is loaded stays, however old its files are.
func TestCacheForgets(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	upper(t, newLoader(t, Options{CacheDir: dir}))
	mine := newLoader(t, Options{CacheDir: dir}).cache.entryDir(sdk.Sum(readFile(t, "testdata/guests/reactor.wasm")))
	other, half := filepath.Join(dir, "other"), filepath.Join(dir, newEntries+"half")
	for _, d := range []string{other, half} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-unused - time.Hour)
	if err := os.WriteFile(filepath.Join(other, cacheSum), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(mine, cacheSum), filepath.Join(other, cacheSum), half} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	l := newLoader(t, Options{CacheDir: dir})
	upper(t, l)
	p := loadertest.Load(t, l, "testdata/guests/probe.wasm") // a new entry: the occasion to look through the cache
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{mine: true, other: false, half: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want there %v", filepath.Base(path), err, want)
		}
	}
}

func TestCacheDirIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Error(err)
	}
}

func TestEqualModulesAreShared(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Options{})
	a, p := loadertest.Open(t, l, "testdata/guests/reactor.wasm"), loadertest.Load(t, l, "testdata/guests/reactor.wasm")
	q := loadertest.Load(t, l, "testdata/guests/reactor.wasm")
	if p.(*plugin).program != q.(*plugin).program {
		t.Error("compiled twice")
	}
	for range 2 { // Close is idempotent and counts once
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := loadertest.Step(t, q, "upper", loader.Limits{}).Run(t.Context(), request(`{"text":"a"}`), okHost); err != nil {
		t.Errorf("after the other's Close: %+v, %v", r, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if len(l.shared) != 0 {
		t.Error("a module stays loaded after the last Close")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Load(ctx, a); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Errorf("Load under an ended context gives %v", err)
	}
}

// TestACancelledLoadIsNotContagious: of two that load the same module at once,
// one may be cancelled.
func TestACancelledLoadIsNotContagious(t *testing.T) {
	t.Parallel()
	l := newLoader(t, Options{})
	a, err := l.Open("testdata/guests/probe.wasm")
	if err != nil {
		t.Fatal(err)
	}
	first := &shared{refs: 1, ready: make(chan struct{})}
	digest := sdk.Sum(a.Bytes)
	l.shared[digest] = first
	loaded := make(chan loader.Plugin, 1)
	go func() {
		p, err := l.Load(context.Background(), a)
		if err != nil {
			t.Error(err)
		}
		loaded <- p
	}()
	first.err = &sdk.Error{Class: sdk.ClassCancelled}
	close(first.ready)
	l.release(digest, first)
	if p := <-loaded; p != nil {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(l.shared) != 0 {
		t.Error("a module stays loaded after the last Close")
	}
}

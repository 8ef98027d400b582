package wasm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/sdk"
)

// bomb is a module that the pre-scan accepts and that takes the compiler half a
// minute: each of its functions has as many loops over as many locals as it may.
func bomb() []byte {
	u := appendU32
	vector := func(id byte, items ...[]byte) []byte {
		body := u(nil, uint32(len(items)))
		for _, i := range items {
			body = append(body, i...)
		}
		return append(u([]byte{id}, uint32(len(body))), body...)
	}
	const vars, loops, funcs = 1_000, 499, 15
	body := append(u([]byte{1}, vars), 0x7f)
	for i := range uint32(loops) { // each changes a variable
		body = append(body, opLoop, 0x40)
		body = u(append(u(append(body, 0x20), (i*7)%vars), 0x21), (i*13)%vars)
	}
	for i := range uint32(loops) {
		body = append(u(append(body, 0x20), i%vars), opBrIf, 0, opEnd)
	}
	body = append(body, opEnd)
	body = append(u(nil, uint32(len(body))), body...)
	bodies, types := make([][]byte, funcs), make([][]byte, funcs)
	for i := range bodies {
		bodies[i], types[i] = body, []byte{0}
	}
	b := append([]byte(nil), magic...)
	b = append(b, 1, 0, 0, 0)
	b = append(b, vector(1, []byte{0x60, 0, 0})...)
	b = append(b, vector(3, types...)...)
	b = append(b, vector(7, append([]byte{6}, "_start\x00\x00"...))...)
	return append(b, vector(10, bodies...)...)
}

func bytesArtifact(t *testing.T, l *Loader, b []byte) *loader.Artifact {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := l.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// isolatedLoader makes a loader with worker processes and a cache.
func isolatedLoader(t testing.TB, dir string, o subprocess.Options) *Loader {
	t.Helper()
	return newLoader(t, Options{CacheDir: dir, Workers: workers(t, o), Isolation: loader.Process})
}

// TestCompileBomb: a module that takes too much to compile is refused for that,
// names itself and leaves nothing; one that is not valid is refused as ever.
func TestCompileBomb(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		module []byte
		o      subprocess.Options
		class  sdk.Class
		code   string
	}{
		"time":      {bomb(), subprocess.Options{CompileTime: time.Second}, sdk.ClassResourceExhausted, loader.CodeCompileTime},
		"memory":    {bomb(), subprocess.Options{CompileMemory: 128 << 20}, sdk.ClassResourceExhausted, loader.CodeCompileMemory},
		"not valid": {readFile(t, "testdata/guests/reactor.wasm"), subprocess.Options{}, sdk.ClassSandbox, "module_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := isolatedLoader(t, dir, c.o)
			a := bytesArtifact(t, l, c.module)
			if name == "not valid" {
				a.Bytes = invalid(t)
			}
			_, err := l.Load(t.Context(), a)
			if e := sdk.AsError(err); e == nil || e.Class != c.class || e.Code != c.code || !strings.Contains(e.Message, a.Path) {
				t.Errorf("%v", err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left in the cache: %v, %v", left, err)
			}
		})
	}
}

// invalid is a module whose types are wrong: what the pre-scan does not check.
func invalid(t *testing.T) []byte {
	t.Helper()
	b := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x05\x01\x03\x00\x6a\x0b")
	if _, err := parseModule(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAKilledCompileLeavesNothing: the worker is killed while it compiles; then
// the same module loads.
func TestAKilledCompileLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := isolatedLoader(t, dir, subprocess.Options{})
	a := bytesArtifact(t, l, bomb())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for { // until the worker has begun to write its entry
			if made, _ := filepath.Glob(filepath.Join(dir, newEntries+"*", fileModule)); len(made) > 0 || t.Context().Err() != nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := l.Load(ctx, a); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
	upper(t, l)
}

// TestAnAbandonedEntry: what a killed engine has left half made is in nobody's
// way, and is removed when it is old.
func TestAnAbandonedEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"old", "fresh"} {
		d := filepath.Join(dir, newEntries+name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, fileModule), []byte("half a mod"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, newEntries+"old"), yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	upper(t, isolatedLoader(t, dir, subprocess.Options{}))
	left, err := filepath.Glob(filepath.Join(dir, newEntries+"*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != newEntries+"fresh" {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestAForgedEntry: an entry that was replaced together with its sum is another
// one than this process has made.
func TestAForgedEntry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := isolatedLoader(t, dir, subprocess.Options{})
	upper(t, l)
	entry := l.cache.entryDir(sdk.Sum(readFile(t, "testdata/guests/reactor.wasm")))
	before := readFile(t, filepath.Join(entry, cacheSum))
	native, err := filepath.Glob(filepath.Join(entry, dirNative, "*", "*"))
	if err != nil || len(native) != 1 {
		t.Fatal(native, err)
	}
	for _, damage := range []func(b []byte) []byte{
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		func(b []byte) []byte { return b[:len(b)/2] },
		func([]byte) []byte { return nil },
	} {
		if err := os.WriteFile(native[0], damage(readFile(t, native[0])), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := treeSum(entry)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(entry, cacheSum), []byte(sum), 0o600); err != nil {
			t.Fatal(err)
		}
		upper(t, l)
		if after := readFile(t, filepath.Join(entry, cacheSum)); string(after) != string(before) {
			t.Error("the forged entry is still there")
		}
	}
	if err := os.Remove(native[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", native[0]); err != nil {
		t.Fatal(err)
	}
	upper(t, l)
}

// TestACacheThatCannotBeWritten costs time only.
func TestACacheThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, o Options) {
		o.CacheDir = filepath.Join(t.TempDir(), "cache")
		l := newLoader(t, o)
		if o.Isolation == loader.InProcess {
			l.workers = nil
		}
		if err := os.WriteFile(o.CacheDir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p := loadertest.Load(t, l, "testdata/guests/reactor.wasm")
		r, err := loadertest.Step(t, p, "upper", loader.Limits{}).Run(t.Context(), request(`{"text":"a"}`), okHost)
		if err != nil || string(r.Output) != `{"upper":"A","words":1}` {
			t.Fatalf("%+v, %v", r, err)
		}
		dir := p.(*plugin).shared.entry.dir
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	})
}

// TestNoWorkers: without worker processes a step that asks for one is refused,
// and so is a loader that is to give no less.
func TestNoWorkers(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{Isolation: loader.Process}); err == nil {
		t.Error("isolation by processes without workers is taken")
	}
	p := loadertest.Load(t, newLoader(t, Options{}), "testdata/guests/reactor.wasm")
	_, err := p.Step("upper", loader.Limits{Isolation: loader.Process})
	if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassSandbox || e.Code != "isolation" || !strings.Contains(e.Message, "reactor.wasm") {
		t.Error(err)
	}
}

// TestTheLoadersLevelIsTheLeast: a step cannot go below it.
func TestTheLoadersLevelIsTheLeast(t *testing.T) {
	t.Parallel()
	l := isolatedLoader(t, t.TempDir(), subprocess.Options{})
	p := loadertest.Load(t, l, "testdata/guests/reactor.wasm")
	s := loadertest.Step(t, p, "upper", loader.Limits{Isolation: loader.InProcess})
	if p.(*plugin).program != nil {
		t.Error("a step got less than its loader gives")
	}
	if r, err := s.Run(t.Context(), request(`{"text":"a"}`), okHost); err != nil || string(r.Output) != `{"upper":"A","words":1}` {
		t.Errorf("%+v, %v", r, err)
	}
	loadertest.Step(t, p, "upper", loader.Limits{Isolation: loader.Process})
	if n := len(p.(*plugin).isolated); n != 1 {
		t.Errorf("%d sets of workers under equal limits", n)
	}
}

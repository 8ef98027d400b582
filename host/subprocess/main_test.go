//go:build unix

package subprocess

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/sdk"
)

var buildDir string

func TestMain(m *testing.M) {
	Worker(Modules{})
	if path := os.Getenv(engineEnv); path != "" {
		playEngine(path)
	}
	var err error
	if buildDir, err = os.MkdirTemp("", "probe"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

const probeManifest = `{"abi":1,"name":"probe","steps":{"probe":{"effects":"read"},"respond":{},"echo":{}}}`

var buildProbe = sync.OnceValues(func() (string, error) {
	exe := filepath.Join(buildDir, "probe")
	c := exec.Command("go", "build", "-o", exe, "./testdata/probe")
	if out, err := c.CombinedOutput(); err != nil {
		return string(out), err
	}
	return exe, nil
})

// probe returns the path of a copy of the probe with the given manifest.
func probe(t testing.TB, manifest string) string {
	t.Helper()
	exe, err := buildProbe()
	if err != nil {
		t.Fatal(exe, err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "probe")
	if err := os.Link(exe, path); err != nil {
		t.Fatal(err)
	}
	if manifest != "" {
		write(t, filepath.Join(dir, "probe.step.json"), manifest, 0o600)
	}
	return path
}

func write(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// newLoader makes a Loader with a runner or without.
func newLoader(t testing.TB, self bool) *Loader {
	t.Helper()
	o := Options{TempDir: tempDir(t)}
	if self {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		o.Self = exe
	}
	return New(o)
}

// tempDir is t.TempDir with a short path, for sockets.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

func request(in string) *sdk.Request {
	return &sdk.Request{V: sdk.Version, StepType: "probe", Run: "r_test", Step: "step.s", Attempt: 1, Engine: "test",
		Input: json.RawMessage(in), Config: json.RawMessage(`{}`)}
}

// recorder is a Host that keeps the messages it was sent.
type recorder struct {
	mu   sync.Mutex
	msgs []string
}

func (r *recorder) Call(_ context.Context, msg []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, string(msg))
	return []byte(`{"ok":{}}`), nil
}

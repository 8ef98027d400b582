package wasm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "wasm"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// hostFunc is a Host for tests.
type hostFunc func(ctx context.Context, msg []byte) ([]byte, error)

func (f hostFunc) Call(ctx context.Context, msg []byte) ([]byte, error) { return f(ctx, msg) }

var okHost = hostFunc(func(context.Context, []byte) ([]byte, error) { return []byte(`{"ok":{}}`), nil })

func newLoader(t testing.TB, o Options) *Loader {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func loadBytes(t testing.TB, b []byte) loader.Plugin {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	speaks(t, path)
	p := loadertest.Load(t, newLoader(t, Options{}), path)
	return p
}

// speaks gives the module at path a manifest, so that it is no raw program.
func speaks(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(sdk.SidecarPath(path), []byte(`{"abi":1,"name":"m","steps":{"run":{"effects":"read"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

func request(input string) *sdk.Request {
	return &sdk.Request{V: sdk.Version, StepType: "run", Workflow: "w", Run: "r_test", Step: "step.s", Attempt: 1,
		IdempotencyKey: "key", Engine: "test", Input: json.RawMessage(input), Config: json.RawMessage(`{}`)}
}

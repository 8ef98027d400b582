//go:build unix

package steptest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/steptest"
)

var buildDir string

func TestMain(m *testing.M) {
	subprocess.Worker(subprocess.Modules{})
	var err error
	if buildDir, err = os.MkdirTemp("", "steptest"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

const manifest = `{"abi":1,"name":"upper","steps":{
	"upper":{"effects":"none","examples":[
		{"input":{"text":"a bc"},"output":{"upper":"A BC","words":2}},
		{"input":{"text":"中文 🏴 עברית <b>é</b>"},"output":{"upper":"中文 🏴 עברית <B>É</B>","words":4}}]},
	"wait":{"effects":"read"},"fail":{"effects":"read"}}}`

// builds makes the step of testdata/upper as a module and as a native plugin,
// once; modules are compiled once, too.
var builds = sync.OnceValues(func() (paths struct{ module, native string }, err error) {
	paths.module, paths.native = filepath.Join(buildDir, "upper.wasm"), filepath.Join(buildDir, "upper")
	if err := os.WriteFile(filepath.Join(buildDir, "upper.step.json"), []byte(manifest), 0o600); err != nil {
		return paths, err
	}
	for path, env := range map[string][]string{paths.module: {"GOOS=wasip1", "GOARCH=wasm"}, paths.native: nil} {
		c := exec.Command("go", "build", "-ldflags=-s -w", "-trimpath", "-o", path, "./testdata/upper")
		c.Env = append(os.Environ(), env...)
		if out, err := c.CombinedOutput(); err != nil {
			return paths, fmt.Errorf("%w: %s", err, out)
		}
	}
	return paths, nil
})

var modules = sync.OnceValues(func() (*wasm.Loader, error) { return wasm.New(wasm.Options{}) })

// workers run modules in processes of their own, of an executable that is built
// without cgo.
var workers = sync.OnceValues(func() (*wasm.Loader, error) {
	if runtime.GOOS != "linux" {
		return wasm.New(wasm.Options{})
	}
	exe := filepath.Join(buildDir, "worker")
	c := exec.Command("go", "build", "-o", exe, "../../host/subprocess/testdata/worker")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return wasm.New(wasm.Options{Workers: subprocess.New(subprocess.Options{Self: exe}), Isolation: loader.Process})
})

// isolated loads a module whose attempts run in worker processes, where there are
// any.
func isolated(t *testing.T, path string) loader.Plugin {
	t.Helper()
	l, err := workers()
	if err != nil {
		t.Fatal(err)
	}
	return loadertest.Load(t, l, path)
}

// carriers loads the same Go source as a module and as a native plugin.
func carriers(t *testing.T) map[string]loader.Plugin {
	t.Helper()
	paths, err := builds()
	if err != nil {
		t.Fatal(err)
	}
	w, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]loader.Plugin{
		"module":         loadertest.Load(t, w, paths.module),
		"module, worker": isolated(t, paths.module),
		"native":         loadertest.Load(t, subprocess.New(subprocess.Options{Self: self}), paths.native),
		"native, direct": loadertest.Load(t, subprocess.New(subprocess.Options{}), paths.native),
	}
}

func spec(t *testing.T, stepType string) sdk.StepType {
	t.Helper()
	m, err := sdk.ParseManifest([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return m.Steps[stepType]
}

func TestEveryCarrier(t *testing.T) {
	t.Parallel()
	w, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	plugins := carriers(t)
	plugins["C reactor"] = loadertest.Load(t, w, "../../host/wasm/testdata/guests/reactor.wasm")
	for name, p := range plugins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := steptest.Options{Type: "upper", Spec: spec(t, "upper"), Bad: []json.RawMessage{json.RawMessage(`"no object"`), json.RawMessage(`{}`), json.RawMessage(`{"text":7}`)}}
			if name == "C reactor" { // its toupper knows ASCII only
				o.Spec.Examples = o.Spec.Examples[:1]
			}
			steptest.Run(t, step(t, p, "upper"), o)
			if name != "C reactor" {
				steptest.Run(t, step(t, p, "wait"), steptest.Options{Type: "wait", Spec: spec(t, "wait"), Slow: json.RawMessage(`{}`)})
			}
		})
	}
}

func step(t *testing.T, p loader.Plugin, stepType string) sdk.Step {
	t.Helper()
	s, err := p.Step(stepType, loader.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSameFailures: how a step fails, what it logs and what is left of its
// stderr are the same bytes on every carrier.
func TestSameFailures(t *testing.T) {
	t.Parallel()
	plugins := carriers(t)
	for _, how := range []string{"panic", "quota", "class", "unsupported", "plain"} {
		type seen struct {
			Error string
			Lines []string
		}
		got := map[string]seen{}
		for name, p := range plugins {
			var rec operation.Recorder
			req := &sdk.Request{V: 1, StepType: "fail", Attempt: 1, Input: json.RawMessage(`{"how":"` + how + `"}`), Config: json.RawMessage(`{}`)}
			_, err := step(t, p, "fail").Run(t.Context(), req, operation.New(operation.Options{Sink: &rec}))
			e := sdk.AsError(err)
			if !strings.HasPrefix(e.Stderr, "about to fail: 中文 🏴") && how != "panic" {
				t.Errorf("%s, %s: stderr %q", how, name, e.Stderr)
			}
			lines := rec.Lines()
			if how == "panic" { // the trace names the carrier's own functions
				e.Stderr, lines = "", lines[:2]
			}
			b, err := sdk.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			got[name] = seen{string(b), lines}
		}
		for name := range plugins {
			if d := cmp.Diff(got["module"], got[name]); d != "" {
				t.Errorf("%s: module and %s differ: %s", how, name, d)
			}
		}
	}
}

// TestBySelf: a native plugin that a person starts says what it is.
func TestBySelf(t *testing.T) {
	t.Parallel()
	paths, err := builds()
	if err != nil {
		t.Fatal(err)
	}
	exe := paths.native
	c := exec.Command(exe)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is a plugin of the engine") || !strings.Contains(string(out), `source = "`+exe+`"`) {
		t.Errorf("%s, %v", out, err)
	}
	out, err = exec.Command(exe, "--engine-manifest").Output()
	m, parseErr := sdk.ParseManifest(out)
	if err != nil || parseErr != nil || m.Name != "upper" || len(m.Steps) != 3 {
		t.Errorf("%s, %v, %v", out, err, parseErr)
	}
}

package serve

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

func TestDispatch(t *testing.T) {
	t.Parallel()
	deadline := func(ctx context.Context, _ *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		if _, ok := ctx.Deadline(); !ok {
			return sdk.Output("none")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	one := map[string]sdk.Step{"only": sdk.StepFunc(deadline)}
	two := map[string]sdk.Step{"only": sdk.StepFunc(deadline), "panic": sdk.StepFunc(func(context.Context, *sdk.Request, sdk.Host) (*sdk.Response, error) { panic("at the step") })}
	for _, c := range []struct {
		steps    map[string]sdk.Step
		stepType string
		ms       int64
		want     string
	}{
		{one, "only", 0, `"none"`},
		{one, "run", 0, `"none"`},
		{one, "only", 1, "timeout: the attempt's deadline has passed"},
		{one, "other", 0, `invalid_input: no step type "other"; this plugin has only`},
		{two, "run", 0, `invalid_input: no step type "run"; this plugin has only, panic`},
		{two, "panic", 0, "internal/panic: panic: at the step"},
	} {
		r, err := dispatch(c.steps).Run(t.Context(), &sdk.Request{StepType: c.stepType, DeadlineMS: c.ms}, nil)
		var got string
		if err != nil {
			got = sdk.AsError(err).Error()
		} else {
			got = string(r.Output)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.stepType, got, c.want)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	stack := "goroutine 1 [running]:\nruntime/debug.Stack()\n\t/go/stack.go:26\npanic({0x1, 0x2})\n\t/go/panic.go:1\n" +
		"main.probe()\n\t/src/main.go:3\ngithub.com/retrace-dev/engine/sdk/serve.Main.dispatch.func1()\n\t/src/serve.go:1\nmore\n"
	if got := trace(stack); got != "main.probe()\n\t/src/main.go:3\n" {
		t.Errorf("%q", got)
	}
	if got := trace("something else"); got != "something else" {
		t.Errorf("%q", got)
	}
}

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for arg0, want := range map[string]string{"/bin/My-Plugin.exe": "my_plugin", "./9lives": "lives", "/x/插件": "plugin", strings.Repeat("a", 99): strings.Repeat("a", 64)} {
		b, err := skeleton(arg0, map[string]sdk.Step{"a": nil})
		var m sdk.Manifest
		if err != nil || json.Unmarshal(b, &m) != nil || m.Name != want || m.Steps["a"].Effects != sdk.EffectsRead {
			t.Errorf("%s: %s, %v", arg0, b, err)
		}
	}
	if _, err := skeleton("x", map[string]sdk.Step{"Bad Name": nil}); err == nil {
		t.Error("a bad step type was accepted")
	}
}

// TestModuleImportsTheSDKAlone: what a module compiles of the engine.
func TestModuleImportsTheSDKAlone(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := list.Output()
	if err != nil || strings.TrimSpace(string(out)) != "github.com/retrace-dev/engine/sdk\ngithub.com/retrace-dev/engine/sdk/serve" {
		t.Errorf("%s, %v", out, err)
	}
	exe := filepath.Join(t.TempDir(), "m.wasm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-trimpath", "-o", exe, "../steptest/testdata/upper")
	build.Env = list.Env
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	st, err := os.Stat(exe)
	if err != nil || st.Size() > 6<<20 {
		t.Errorf("a module of %d bytes, %v", st.Size(), err)
	}
	t.Logf("the module has %d bytes", st.Size())
}

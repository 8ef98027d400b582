package subprocess

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

func compileWorkers(t testing.TB, o Options) *Loader {
	t.Helper()
	o.Self = workerExe(t)
	return New(o)
}

func TestCompileWorker(t *testing.T) {
	t.Parallel()
	for act, want := range map[string]struct {
		o     Options
		class sdk.Class // "": the module is refused
		code  string
		text  string
	}{
		"refuse":         {text: "it is not to my taste: 中文"},
		"fail":           {class: sdk.ClassInternal, text: "the disk is full"},
		"spin":           {o: Options{CompileTime: time.Second}, class: sdk.ClassResourceExhausted, code: loader.CodeCompileTime, text: "more than 1s"},
		"hog":            {o: Options{CompileMemory: 256 << 20}, class: sdk.ClassResourceExhausted, code: loader.CodeCompileMemory, text: "more than 256 MiB"},
		"fault":          {class: sdk.ClassInternal, text: "SIGSEGV"},
		"fault of a hog": {o: Options{CompileMemory: 256 << 20}, class: sdk.ClassResourceExhausted, code: loader.CodeCompileMemory, text: "more than 256 MiB"},
		"crash":          {class: sdk.ClassInternal, text: "the compile worker exited with status 3"},
	} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			err := compileWorkers(t, want.o).Compile(t.Context(), []byte(act), t.TempDir())
			if err == nil || !strings.Contains(err.Error(), want.text) {
				t.Fatal(err)
			}
			if e, ok := err.(*sdk.Error); ok != (want.class != "") || ok && (e.Class != want.class || e.Code != want.code) {
				t.Errorf("%#v", err)
			}
		})
	}
	t.Run("no executable", func(t *testing.T) {
		t.Parallel()
		err := New(Options{Self: "/no/such/engine"}).Compile(t.Context(), nil, t.TempDir())
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInternal || !strings.Contains(e.Message, "/no/such/engine") {
			t.Error(err)
		}
	})
}

// TestCompileEndsWithItsContext: a worker that would go on for ever is gone when
// Compile returns.
func TestCompileEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(&sdk.Error{Class: sdk.ClassCancelled, Message: "the user"}) })
	err := compileWorkers(t, Options{}).Compile(ctx, []byte("spin"), t.TempDir())
	if e := sdk.AsError(err); e.Class != sdk.ClassCancelled || e.Message != "the user" {
		t.Error(err)
	}
}

// TestCompileWorkerIsConfined: what takes a compiler over can write where it
// leaves its result, and nothing else.
func TestCompileWorkerIsConfined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := compileWorkers(t, Options{}).Compile(t.Context(), []byte("escape"), dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(dir + "/escape")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "write the own directory") // it has none but dir
	wantConfined(t, got)
}

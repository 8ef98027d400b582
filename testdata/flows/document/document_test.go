// Package document_test runs the steps of the document flow through the
// engine's own loaders, without a flow.
package document_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/sdk"
)

var (
	names   = []string{"split", "entities", "keywords", "sentiment", "summary", "report"}
	inGo    = []string{"split", "summary", "report"}
	tempDir string
)

func TestMain(m *testing.M) {
	subprocess.Worker(subprocess.Modules{})
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if tempDir, err = os.MkdirTemp("", "document"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(tempDir)
	return m.Run()
}

// build builds the Go steps, as modules and as executables.
func build() error {
	for _, name := range inGo {
		manifest, err := os.ReadFile(filepath.Join("steps", name, "step.json"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(tempDir, name+".step.json"), manifest, 0o600); err != nil {
			return err
		}
		for file, env := range map[string][]string{name + ".wasm": {"GOOS=wasip1", "GOARCH=wasm"}, name: {"CGO_ENABLED=0"}} {
			c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(tempDir, file), "./steps/"+name)
			c.Env = append(os.Environ(), env...)
			if out, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
	}
	return nil
}

// plugins are the loaders, shared so that each module is compiled once.
type plugins struct {
	wasm   *wasm.Loader
	native *subprocess.Loader
}

var loaders = sync.OnceValues(func() (*plugins, error) {
	if err := build(); err != nil {
		return nil, err
	}
	w, err := wasm.New(wasm.Options{CacheDir: filepath.Join(tempDir, "cache")})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &plugins{wasm: w, native: subprocess.New(subprocess.Options{Self: self, TempDir: tempDir})}, nil
})

func shared(t *testing.T) *plugins {
	t.Helper()
	p, err := loaders()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step is one step type of a loaded plugin.
type step struct {
	name     string
	manifest *sdk.Manifest
	sdk.Step
}

func (p *plugins) module(t *testing.T, name string) *step {
	t.Helper()
	path := filepath.Join("steps", name, name+".wasm")
	if slices.Contains(inGo, name) {
		path = filepath.Join(tempDir, name+".wasm")
	}
	return load(t, p.wasm, name, path)
}

func load(t *testing.T, l loader.Loader, name, path string) *step {
	t.Helper()
	a, err := l.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if a.Manifest == nil {
		t.Fatalf("%s has no manifest", path)
	}
	p, err := l.Load(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := p.Step(name, loader.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &step{name, a.Manifest, s}
}

// host answers every operation; the steps need none.
type host struct{}

func (host) Call(context.Context, []byte) ([]byte, error) { return []byte(`{"ok":{}}`), nil }

func (s *step) try(t *testing.T, input any) (json.RawMessage, error) {
	t.Helper()
	b, err := sdk.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), &sdk.Request{V: sdk.Version, StepType: s.name, Attempt: 1, Input: b, Config: json.RawMessage(`{}`)}, host{})
	if err != nil {
		return nil, err
	}
	return r.Output, nil
}

func (s *step) run(t *testing.T, input any) json.RawMessage {
	t.Helper()
	out, err := s.try(t, input)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return out
}

func decode[T any](t *testing.T, b json.RawMessage) T {
	t.Helper()
	var v T
	if err := sdk.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// Every manifest's examples give what they say, from either carrier.
func TestExamples(t *testing.T) {
	t.Parallel()
	p := shared(t)
	check := func(t *testing.T, s *step) {
		st, ok := s.manifest.Steps[s.name]
		if !ok || len(st.Examples) == 0 || st.Effects != sdk.EffectsNone || st.Input == nil || st.Output == nil {
			t.Fatalf("the manifest lacks an example, effects or a schema: %+v", st)
		}
		for _, e := range st.Examples {
			if d := cmp.Diff(decode[any](t, e.Output), decode[any](t, s.run(t, e.Input)), numbers); d != "" {
				t.Error(d)
			}
		}
	}
	for _, name := range names {
		t.Run(name+".wasm", func(t *testing.T) {
			t.Parallel()
			check(t, p.module(t, name))
		})
	}
	for _, name := range inGo {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, load(t, p.native, name, filepath.Join(tempDir, name)))
		})
	}
}

// numbers compares 1 and 1.000 as equal.
var numbers = cmp.Comparer(func(a, b json.Number) bool {
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
})

// Inputs that the schemas would refuse are refused by the steps too, at the
// right place.
func TestInvalidInput(t *testing.T) {
	t.Parallel()
	p := shared(t)
	for _, name := range names {
		cases := map[string]string{`{}`: "/chapters", `{"chapters":[],"limit":1,"sentences":1}`: "/chapters"}
		switch name {
		case "split":
			cases = map[string]string{`{}`: "/text", `{"text":" "}`: "/text", `{"text":7}`: "/text"}
		case "report":
			cases = map[string]string{`{}`: "/contents"}
		case "entities", "keywords", "sentiment":
			if name == "keywords" {
				cases[`{}`] = "/limit"
			}
			cases[`{"limit":1,"chapters":[{"number":1,"text":"x"},{"number":2,"text":[{"a":"]"},null,1.5e3,true]}]}`] = "/chapters/1/text"
			cases[`{"limit":1,"chapters":[{"number":"one","text":"x"}]}`] = "/chapters/0/number"
			cases[`{"limit":1,"chapters":[{"number":1.5,"text":"x"}]}`] = "/chapters/0/number"
		}
		if name == "entities" || name == "keywords" {
			cases[`{"limit":0,"chapters":[{"number":1,"text":"x"}]}`] = "/limit"
			cases[`{"limit":"\ud83c\udff4","chapters":[{"number":1,"text":"x"}]}`] = "/limit"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.module(t, name)
			for input, path := range cases {
				_, err := s.try(t, json.RawMessage(input))
				var e *sdk.Error
				if !errors.As(err, &e) || e.Class != sdk.ClassInvalidInput || e.Path != path || e.Message == "" {
					t.Errorf("%s gives %#v", input, err)
				}
			}
		})
	}
}

// Text of any kind comes back byte for byte, however the request spells it.
func TestTextPasses(t *testing.T) {
	t.Parallel()
	p := shared(t)
	title := "“Quo\"te” \\ / \b\f\n\r\t\x00\x1f\x7f é 桃園 שלום 🏴󠁧󠁢󠁥󠁮󠁧󠁿 \u2028 \U0010FFFF"
	var escaped strings.Builder
	for _, r := range title {
		if r > 0xFFFF {
			r -= 0x10000
			fmt.Fprintf(&escaped, `\u%04x\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		} else {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	type titled struct {
		Chapters []struct{ Title, Heading, Text string }
	}
	plain, err := sdk.Marshal(title)
	if err != nil {
		t.Fatal(err)
	}
	s := p.module(t, "sentiment")
	for _, spelled := range []string{string(plain), `"` + escaped.String() + `"`} {
		input := json.RawMessage(`{"chapters":[{"title":` + spelled + `,"\u0074ext" : "x" , "number":7}]}`)
		if got := decode[titled](t, s.run(t, input)).Chapters[0].Title; got != title {
			t.Errorf("title %q, want %q", got, title)
		}
	}
	text := "CHAPTER 1\r\n\r\n" + title
	got := decode[titled](t, p.module(t, "split").run(t, map[string]any{"text": text})).Chapters[0]
	if got.Heading+got.Text != text {
		t.Errorf("text %q, want %q", got.Heading+got.Text, text)
	}
	// A name and a keyword come through the parsers of AssemblyScript and Rust.
	name := "Zoë Ünal-Βeta"
	chapter := map[string]any{"limit": 5, "chapters": []map[string]any{{"number": 1, "text": "we met " + name + " and " + name}}}
	if out := string(p.module(t, "entities").run(t, chapter)); !strings.Contains(out, `"name":"`+name+`"`) {
		t.Errorf("no %s among the entities %s", name, out)
	}
	if out := string(p.module(t, "keywords").run(t, chapter)); !strings.Contains(out, strings.ToLower(name)) {
		t.Errorf("no %s among the keywords %s", name, out)
	}
}

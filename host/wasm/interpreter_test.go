package wasm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// interpreted is the program of a module that wazero's interpreter runs.
func interpreted(t *testing.T, m *module) *program {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features).WithMemoryLimitPages(maxMemory/memoryPage))
	if _, err := instantiateHost(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c, err := r.CompileModule(t.Context(), m.meter())
	if err != nil {
		t.Fatal(err)
	}
	_, command := m.exports["_start"]
	return &program{runtime: r, compiled: c, command: command, wasi: m.isWASI, name: "step"}
}

// TestCompilerAndInterpreter: metered code does the same in both of wazero's
// engines. What they run are the modules of the SDKs, by four compilers.
func TestCompilerAndInterpreter(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../sdk/*/testdata/*.wasm")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d modules, %v", len(paths), err)
	}
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.ToSlash(path), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m, err := parseModule(b)
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := sdk.ParseManifest(m.manifest)
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := l.Load(t.Context(), &loader.Artifact{Kind: loader.Wasm, Bytes: b, Manifest: manifest})
			if err != nil {
				t.Fatal(err)
			}
			defer compiled.Close()
			p := interpreted(t, m)
			other := &plugin{shared: &shared{}, isolation: loader.InProcess, program: p, manifest: manifest, release: p.close}
			defer other.Close()
			for _, name := range manifest.StepNames() {
				if name == "wait" { // never ends
					continue
				}
				for _, in := range inputs(manifest.Steps[name]) {
					if d := cmp.Diff(seen(t, compiled, name, in), seen(t, other, name, in)); d != "" {
						t.Errorf("%s of %s, compiler and interpreter differ: %s", name, in, d)
					}
				}
			}
		})
	}
}

// inputs are the examples of a step, and inputs that no step's manifest tells
// of.
func inputs(t sdk.StepType) []json.RawMessage {
	in := []json.RawMessage{
		json.RawMessage(`7`), json.RawMessage(`{"class":"quota","message":"é 🏴","retry_after_ms":5}`),
		json.RawMessage(`{"value":[0.1,-1e300,5e-324,9007199254740991,"\u0000 中 \ud83c\udff4",{"a":{"b":[true,null]}}]}`),
	}
	for _, e := range t.Examples {
		in = append(in, e.Input)
	}
	return in
}

type outcome struct {
	Response *sdk.Response
	Error    *sdk.Error
	Lines    []string
}

func seen(t *testing.T, p loader.Plugin, stepType string, input json.RawMessage) outcome {
	t.Helper()
	s, err := p.Step(stepType, loader.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var rec operation.Recorder
	req := &sdk.Request{V: 1, StepType: stepType, Attempt: 1, IdempotencyKey: "key", Input: input, Config: json.RawMessage(`{}`)}
	r, err := s.Run(t.Context(), req, operation.New(operation.Options{Sink: &rec}))
	return outcome{r, sdk.AsError(err), rec.Lines()}
}

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

// linesSchema is the published schema of the lines of --json.
//
//go:embed schema/lines.schema.json
var linesSchema []byte

// contract is linesSchema, read so that a field of which it does not speak is a
// mistake.
type contract struct {
	compiler *jsonschema.Compiler
	defs     map[string]struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Enum       []string                   `json:"enum"`
	}
}

func readContract() (*contract, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(linesSchema))
	if err != nil {
		return nil, err
	}
	closed(doc)
	k := &contract{compiler: jsonschema.NewCompiler()}
	k.compiler.AssertFormat()
	if err := k.compiler.AddResource("lines.schema.json", doc); err != nil {
		return nil, err
	}
	var text struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(linesSchema, &text); err != nil {
		return nil, err
	}
	return k, json.Unmarshal(text.Defs, &k.defs)
}

// closed makes every object of a schema refuse what it does not speak of.
func closed(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, open := s["additionalProperties"]; s["properties"] != nil && !open {
			s["additionalProperties"] = false
		}
		for _, v := range s {
			closed(v)
		}
	case []any:
		for _, v := range s {
			closed(v)
		}
	}
}

// check returns the line's type; the error says how it is not as the schema of its
// type says.
func (k *contract) check(line string) (kind string, err error) {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, line)
	}
	object, _ := v.(map[string]any)
	kind, _ = object["type"].(string)
	if _, ok := k.defs[kind]; !ok {
		return kind, fmt.Errorf("the schema does not speak of lines of type %q: %s", kind, line)
	}
	s, err := k.compiler.Compile("lines.schema.json#/$defs/" + kind)
	if err != nil {
		return kind, err
	}
	if err := s.Validate(v); err != nil {
		return kind, fmt.Errorf("%w\n%s", err, line)
	}
	return kind, nil
}

// checkLines checks what a command has printed with --json.
func checkLines(printed []byte) error {
	k, err := readContract()
	if err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n") {
		kind, err := k.check(line)
		if err != nil {
			return err
		}
		if (i == 0) != (kind == "version") {
			return fmt.Errorf("line %d is of type %s; the first and no other is the version", i+1, kind)
		}
	}
	return nil
}

// TestEventsContract runs every flow of testdata/script with --json: each line
// is as the published schema says, the first is the version and the last of a
// run its outputs.
func TestEventsContract(t *testing.T) {
	t.Parallel()
	k, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("../../testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	t.Run("flows", func(t *testing.T) {
		for _, script := range scripts {
			a, err := txtar.ParseFile(script)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range a.Files {
				if !strings.HasSuffix(f.Name, ".hcl") {
					continue
				}
				t.Run(filepath.Base(script)+"/"+f.Name, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					for wasm, names := range map[string][]string{"reactor": {"upper.wasm", "other.wasm"}, "probe": {"probe.wasm"}} {
						for _, name := range names {
							guest, err := filepath.Abs("../../host/wasm/testdata/guests/" + wasm + ".wasm")
							if err != nil {
								t.Fatal(err)
							}
							if err := os.Symlink(guest, filepath.Join(dir, name)); err != nil {
								t.Fatal(err)
							}
						}
					}
					path := filepath.Join(dir, "flow.hcl")
					if err := os.WriteFile(path, f.Data, 0o644); err != nil {
						t.Fatal(err)
					}
					lines := applyLines(t, path, "--state", filepath.Join(dir, ".engine"))
					if strings.Contains(lines[len(lines)-1], `"type":"outputs"`) { // and what is reused of it
						lines = append(lines, applyLines(t, path, "--state", filepath.Join(dir, ".engine"))...)
					}
					for _, line := range lines {
						mu.Lock()
						kind, err := k.check(line)
						if err != nil {
							t.Error(err)
						}
						seen[kind] = true
						mu.Unlock()
					}
				})
			}
		}
	})
	for _, kind := range []string{"version", "diagnostics", "run_started", "reused", "nothing_to_run", "started", "succeeded", "persisted", "failed", "skipped", "cancelled", "run_ended", "outputs"} {
		if !seen[kind] {
			t.Errorf("no flow made a line of type %s", kind)
		}
	}
}

// applyLines are the lines of a run. One whose step never ends is cancelled
// once that step has started.
func applyLines(t *testing.T, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out bytes.Buffer
	stdout := writer(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte(`"type":"started"`)) && bytes.Contains(p, []byte("spins")) {
			cancel()
		}
		return out.Write(p)
	})
	run(ctx, append([]string{"apply", "--json", "--progress", "quiet"}, args...), streams{in: strings.NewReader(""), out: stdout, err: io.Discard})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if !strings.Contains(lines[0], `"type":"version"`) {
		t.Errorf("the first line is %s", lines[0])
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, `"type":"outputs"`) && !strings.Contains(last, `"type":"diagnostics"`) {
		t.Errorf("the last line is %s", last)
	}
	return lines
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestContractIsWhole: the schema speaks of every type of event, every field
// of an event and every class of failure, and of no others.
func TestContractIsWhole(t *testing.T) {
	t.Parallel()
	k, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	spoken := map[string]bool{}
	for _, e := range []host.EventType{host.EventRunStarted, host.EventReused, host.EventExpanded, host.EventStarted, host.EventAttemptFailed, host.EventWaiting, host.EventBypassed, host.EventSucceeded,
		host.EventPersisted, host.EventFailed, host.EventSkipped, host.EventCancelled, host.EventLog, host.EventProgress, host.EventEmit, host.EventUndoing, host.EventUndone, host.EventUndoFailed,
		host.EventRunEnded, host.EventNothingToRun, host.EventOutputs} {
		def, ok := k.defs[string(e)]
		if !ok {
			t.Errorf("the schema does not speak of %s", e)
		}
		for p := range def.Properties {
			spoken[p] = true
		}
	}
	fields := map[string]bool{}
	for f := range reflect.TypeFor[host.Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
		if !spoken[name] {
			t.Errorf("no event of the schema has the field %q", name)
		}
	}
	for p := range spoken {
		if !fields[p] {
			t.Errorf("the schema speaks of %q, which no event has", p)
		}
	}
	var classes []string
	for _, c := range sdk.Classes() {
		classes = append(classes, string(c))
	}
	if !slices.Equal(classes, k.defs["class"].Enum) {
		t.Errorf("classes are %v, the schema has %v", classes, k.defs["class"].Enum)
	}
}

// TestContractRefuses: the schema says no.
func TestContractRefuses(t *testing.T) {
	t.Parallel()
	k, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"type":"nonsense"}`,
		`{"type":"version","ui":"2.0","engine":"x"}`,
		`{"type":"version","ui":"1.0","engine":"x","more":1}`,
		`{"type":"started","time":"2026-01-02T03:04:05Z","run":"r_a","step":"step.a"}`,
		`{"type":"started","time":"yesterday","run":"r_a","step":"step.a","attempt":1}`,
		`{"type":"failed","time":"2026-01-02T03:04:05Z","run":"r_a","step":"step.a","error":{"class":"bad_luck"}}`,
	} {
		if _, err := k.check(line); err == nil {
			t.Errorf("accepted: %s", line)
		}
	}
}

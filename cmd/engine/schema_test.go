package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// contract is the published schema of event lines.
type contract struct {
	schema *jsonschema.Schema
	defs   map[string]struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Enum       []string                   `json:"enum"`
	}
}

func readContract(t *testing.T) *contract {
	t.Helper()
	b, err := os.ReadFile("schema/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("events.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	k := &contract{}
	if k.schema, err = c.Compile("events.schema.json"); err != nil {
		t.Fatal(err)
	}
	var text struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(b, &text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Defs, &k.defs); err != nil {
		t.Fatal(err)
	}
	return k
}

// check: the line is as the schema says, and has no field of which it does not
// speak. It returns the line's type.
func (k *contract) check(t *testing.T, line string) string {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if err := k.schema.Validate(v); err != nil {
		t.Errorf("%v\n%s", err, line)
	}
	object, _ := v.(map[string]any)
	kind, _ := object["type"].(string)
	for name := range object {
		if _, ok := k.defs[kind].Properties[name]; !ok {
			t.Errorf("the schema does not speak of %q of %s: %s", name, kind, line)
		}
	}
	return kind
}

// TestEventsContract runs every flow of testdata/script with --json: each line
// is as the published schema says, the first is the version and the last of a
// run its outputs.
func TestEventsContract(t *testing.T) {
	t.Parallel()
	k := readContract(t)
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
						kind := k.check(t, line)
						mu.Lock()
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
	k := readContract(t)
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
	k := readContract(t)
	for _, line := range []string{
		`{"type":"nonsense"}`,
		`{"type":"version","ui":"2.0","engine":"x"}`,
		`{"type":"started","time":"2026-01-02T03:04:05Z","run":"r_a","step":"step.a"}`,
		`{"type":"started","time":"yesterday","run":"r_a","step":"step.a","attempt":1}`,
		`{"type":"failed","time":"2026-01-02T03:04:05Z","run":"r_a","step":"step.a","error":{"class":"bad_luck"}}`,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if k.schema.Validate(v) == nil {
			t.Errorf("accepted: %s", line)
		}
	}
}

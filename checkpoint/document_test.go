package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

const documentOutput = "{\"b\": 1.0, \"a\":\"流程 <&> 🏴 \u2028 שלום\",\n \"n\":12345678901234567890}"

// stored commits a checkpoint and reads it back.
func stored(t *testing.T, s checkpoint.Store) (*checkpoint.Record, json.RawMessage) {
	t.Helper()
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := san.Sanitize(json.RawMessage(documentOutput), json.RawMessage(`{"model": "m", "seed":1.50}`))
	if err != nil {
		t.Fatal(err)
	}
	b := checkpoint.NewBatch("default", "流程")
	r := &checkpoint.Record{Head: *sampleHead(), Context: *sampleContext()}
	b.PutCheckpoint(r, out)
	return commitAndRead(t, s, b, r)
}

func commitAndRead(t *testing.T, s checkpoint.Store, b *checkpoint.Batch, r *checkpoint.Record) (*checkpoint.Record, json.RawMessage) {
	t.Helper()
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := s.Record(t.Context(), b.Tenant, r.Seq)
	if err != nil {
		t.Fatal(err)
	}
	if got.Data.Seq == 0 {
		return got, nil
	}
	data, err := s.Data(t.Context(), b.Tenant, got.Data)
	if err != nil {
		t.Fatal(err)
	}
	return got, data
}

// TestDocument: out of one store, reformatted, into another.
func TestDocument(t *testing.T) {
	t.Parallel()
	r, data := stored(t, checkpoint.NewMemoryStore())
	d, err := checkpoint.NewDocument("流程", r, data)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, d.Bytes(), "\t", "  "); err != nil {
		t.Fatal(err)
	}
	again, err := checkpoint.ReadDocument(indented.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	other := checkpoint.NewMemoryStore()
	first := checkpoint.NewBatch("default", "流程")
	first.PutIntent(&checkpoint.Intent{Run: "r_1"})
	if _, err := other.Commit(t.Context(), first); err != nil { // so that the Seqs differ
		t.Fatal(err)
	}
	for range 2 {
		b := again.Batch("default")
		got, gotData := commitAndRead(t, other, b, b.Items[0].Checkpoint)
		if string(gotData) != documentOutput {
			t.Errorf("output %s", gotData)
		}
		got.Seq, got.Data.Seq = r.Seq, r.Data.Seq
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("record (-out +in):\n%s", diff)
		}
	}
	if again.Workflow() != "流程" || again.Head().ID != r.ID {
		t.Errorf("workflow %q, %s", again.Workflow(), again.Head().ID)
	}
}

func TestDocumentOfSkippedAndHusk(t *testing.T) {
	t.Parallel()
	s := checkpoint.NewMemoryStore()
	b := checkpoint.NewBatch("default", "flow")
	skip := &checkpoint.Record{Head: checkpoint.Head{Step: "step.a", Outcome: checkpoint.SkippedCondition, Plan: checkpoint.Fingerprint{1}, Created: sampleTime}}
	b.PutSkip(skip)
	r, data := commitAndRead(t, s, b, skip)
	d, err := checkpoint.NewDocument("flow", r, data)
	if err != nil {
		t.Fatal(err)
	}
	in := d.Batch("other")
	if got, _ := commitAndRead(t, s, in, in.Items[0].Checkpoint); got.ID != r.ID || got.Outcome != r.Outcome || got.Plan != r.Plan {
		t.Errorf("got %+v, want %+v", got, r)
	}
	_, err = checkpoint.NewDocument("flow", &checkpoint.Record{Head: checkpoint.Head{Step: "step.a", ID: "chk_x"}}, nil)
	if !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "chk_x") {
		t.Errorf("a husk: %v", err)
	}
}

// TestReadDocumentRefuses: whatever is changed in a document, it is not taken.
// TestDocumentWithBlobs: bytes that lie elsewhere cannot be given out.
func TestDocumentWithBlobs(t *testing.T) {
	t.Parallel()
	r := &checkpoint.Record{Head: checkpoint.Head{Outcome: checkpoint.Succeeded}}
	_, err := checkpoint.NewDocument("w", r, json.RawMessage(fmt.Sprintf(`{"$blob":%q,"size":1}`, sdk.Sum(nil))))
	if err == nil || !strings.Contains(err.Error(), "refers to blobs") {
		t.Error(err)
	}
}

func TestReadDocumentRefuses(t *testing.T) {
	t.Parallel()
	r, data := stored(t, checkpoint.NewMemoryStore())
	d, err := checkpoint.NewDocument("flow", r, data)
	if err != nil {
		t.Fatal(err)
	}
	text := string(d.Bytes())
	for _, test := range []struct{ name, old, new, want string }{
		{"cut", `}`, ``, ""},
		{"format", "engine.checkpoint/1", "engine.checkpoint/2", `its format is "engine.checkpoint/2", this engine reads "engine.checkpoint/1"`},
		{"output", "流程", "工作", "it was changed"},
		{"number", "12345678901234567890", "12345678901234567891", "it was changed"},
		{"step", `"step":"step.zusammenfassen"`, `"step":"step.other"`, "it was changed"},
		{"no step", `"step":"step.zusammenfassen"`, `"step":""`, "step is missing"},
		{"attempts", `"attempts":3`, `"attempts":4`, "it was changed"},
		{"outcome", `"outcome":0`, `"outcome":9`, "outcome is unknown"},
		{"equal keys", `"format"`, `"format":"x","format"`, "format"},
		{"second value", "", "", ""},
	} {
		changed := strings.Replace(text, test.old, test.new, 1)
		switch test.name {
		case "cut":
			changed = strings.TrimSuffix(text, "}")
		case "second value":
			changed = text + text
		}
		if changed == text {
			t.Fatalf("%s: nothing changed", test.name)
		}
		_, err := checkpoint.ReadDocument([]byte(changed))
		if !errors.Is(err, checkpoint.ErrDocument) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	// A forged digest does not help where the parts disagree.
	for name, forge := range map[string]func(m map[string]any){
		"other output":  func(m map[string]any) { m["output"] = "{}" },
		"no output":     func(m map[string]any) { delete(m, "output") },
		"output broken": func(m map[string]any) { m["output"] = "{" },
		"other id":      func(m map[string]any) { m["record"].(map[string]any)["id"] = "chk_aaaaaaaaaaaaaaaa" },
		"skipped":       func(m map[string]any) { m["record"].(map[string]any)["outcome"] = 1 },
	} {
		var m map[string]any
		if err := sdk.Unmarshal(d.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		forge(m)
		delete(m, "digest")
		body, err := sdk.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if m["digest"], err = checkpoint.ValueDigest(body); err != nil {
			t.Fatal(err)
		}
		if body, err = sdk.Marshal(m); err != nil {
			t.Fatal(err)
		}
		_, err = checkpoint.ReadDocument(body)
		if !errors.Is(err, checkpoint.ErrDocument) || strings.Contains(err.Error(), "it was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadDocument(f *testing.F) {
	f.Add([]byte(`{"format":"engine.checkpoint/1","workflow":"w","record":{"step":"step.a","outcome":1},"digest":""}`))
	f.Add([]byte(`{"format":"engine.checkpoint/1","record":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := checkpoint.ReadDocument(b)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrDocument) {
				t.Fatal(err)
			}
			return
		}
		if len(d.Batch("t").Items) != 1 {
			t.Fatal("a batch of no item")
		}
	})
}

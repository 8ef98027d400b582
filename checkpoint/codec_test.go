package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

var update = flag.Bool("update", false, "write the golden files of the newest format version")

var sampleTime = time.Date(2026, 2, 3, 4, 5, 6, 789_000_001, time.UTC)

func sampleHead() *checkpoint.Head {
	d := func(s string) sdk.Digest { return sdk.Sum([]byte(s)) }
	f := func(s string) checkpoint.Fingerprint { return checkpoint.NewHasher(s).Sum() }
	return &checkpoint.Head{
		ID: checkpoint.NewID(f("content"), d("output")), Step: "step.zusammenfassen", Instance: "流程 🏴", Run: "r_abcdefghijkl", Chain: "r_mnopqrstuvwx",
		Outcome: checkpoint.Succeeded, Local: f("local"), Plan: f("plan"), Content: f("content"), Lineage: []sdk.Digest{d("a"), {}, d("b")},
		Output: d("output"), Degraded: true, Attempts: 3, Data: checkpoint.DataRef{Seq: 1 << 40, Size: 12345, SHA256: d("bytes")},
		Created: sampleTime, Expires: sampleTime.Add(24 * time.Hour), Took: 12400 * time.Millisecond, Tokens: 1840,
	}
}

func sampleContext() *checkpoint.Context {
	return &checkpoint.Context{
		Plugin: "ai", Version: "1.2.0", Artifact: sdk.Sum([]byte("artifact")), StepType: "chat", Engine: "1.0.0", Input: sdk.Sum([]byte("input")),
		Inputs:   []checkpoint.AttributeDigest{{Name: "prompt", Value: "00112233445566778899aabbccddeeff", Expression: "ffeeddccbbaa99887766554433221100"}},
		Identity: []checkpoint.NamedDigest{{Name: "var.topic", Digest: "0123"}},
		Upstream: []checkpoint.UpstreamDigest{{Step: "step.up", Facet: sdk.FacetStatus, Digest: sdk.Sum([]byte("up"))}},
		Producer: checkpoint.Producer{Run: "r_abcdefghijkl", Step: "step.a", Attempt: 3, Started: sampleTime},
		Timeout:  time.Minute, Reported: json.RawMessage(`{"model":"m","<&>":"é"}`), Usage: []sdk.Usage{{Model: "m", InputTokens: 1800, OutputTokens: 40}}, ReusedFrom: "step.old",
	}
}

func sampleRun() *checkpoint.RunRecord {
	return &checkpoint.RunRecord{
		ID: "r_abcdefghijkl", Workflow: "flow", Version: "2", Follows: "r_mnopqrstuvwx", Chain: "r_mnopqrstuvwx", Variables: sdk.Sum([]byte("v")),
		Values: map[string]json.RawMessage{"topic": json.RawMessage(`"主题"`)}, Files: []checkpoint.FileDigest{{Path: "flow.hcl", Digest: sdk.Sum([]byte("f"))}},
		Artifacts: []checkpoint.NamedDigest{{Name: "ai", Digest: "33"}}, Status: checkpoint.RunFailed, Error: &sdk.Error{Class: sdk.ClassTimeout, Message: "step.a: 30 s"},
		Created: sampleTime, Ended: sampleTime.Add(time.Minute), Live: time.Minute, Continued: 1, Engine: "1.0.0",
		Used: sdk.Sum([]byte("used")), Counts: map[string]int{"ran": 1},
	}
}

func sampleAttempt() *checkpoint.AttemptRecord {
	return &checkpoint.AttemptRecord{Run: "r_abcdefghijkl", Step: "step.a", Instance: "k", Attempt: 2, Error: &sdk.Error{Class: sdk.ClassAPIError, Code: "503", Message: "busy"}, Started: sampleTime, Took: time.Second}
}

func sampleIntent() *checkpoint.Intent {
	return &checkpoint.Intent{Run: "r_abcdefghijkl", Step: "step.a", Instance: "k", Attempt: 2, IdempotencyKey: "0123", Effects: sdk.EffectsOnce, Started: sampleTime}
}

// golden compares a record in the form that version 1 wrote, and that form with
// what is written now.
func golden[T any](t *testing.T, name string, want *T, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) {
	t.Helper()
	encoded, err := encode(want)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	path := filepath.Join("testdata", "v1", name)
	if *update {
		if err := os.WriteFile(path, encoded, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(stored)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
	if !bytes.Equal(encoded, stored) {
		t.Errorf("%s: version %d is written in another way now; give it another number", path, checkpoint.FormatVersion)
	}
}

func part[T checkpoint.Part](v *T) ([]byte, error) { return checkpoint.AppendPart(nil, v) }

func TestFormatVersion1(t *testing.T) {
	t.Parallel()
	golden(t, "head", sampleHead(), func(h *checkpoint.Head) ([]byte, error) { return checkpoint.AppendHead(nil, h), nil }, checkpoint.DecodeHead)
	golden(t, "context", sampleContext(), part, checkpoint.DecodePart)
	golden(t, "run", sampleRun(), part, checkpoint.DecodePart)
	golden(t, "attempt", sampleAttempt(), part, checkpoint.DecodePart)
	golden(t, "intent", sampleIntent(), part, checkpoint.DecodePart)
}

// TestHeadKeepsEveryField: a field that is added to Head and not to its stored
// form is lost here.
func TestHeadKeepsEveryField(t *testing.T) {
	t.Parallel()
	heads := rapid.Make[checkpoint.Head]()
	rapid.Check(t, func(t *rapid.T) {
		h := heads.Draw(t, "head")
		h.Outcome %= checkpoint.SkippedUpstream + 1
		h.Seq = 0 // the key's
		h.Created, h.Expires = drawTime(t), drawTime(t)
		if len(h.Lineage) == 0 {
			h.Lineage = nil
		}
		got, err := checkpoint.DecodeHead(checkpoint.AppendHead([]byte("before")[:0], &h))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&h, got); d != "" {
			t.Fatalf("-want +got:\n%s", d)
		}
	})
}

func drawTime(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "zero") {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "sec"), rapid.Int64Range(0, 1e9-1).Draw(t, "nsec")).UTC()
}

func TestDecodeFaults(t *testing.T) {
	t.Parallel()
	head := checkpoint.AppendHead(nil, sampleHead())
	for n := range head {
		if _, err := checkpoint.DecodeHead(head[:n]); !errors.Is(err, checkpoint.ErrFormat) {
			t.Errorf("a head cut at %d of %d: %v", n, len(head), err)
		}
	}
	change := func(at int, to byte) []byte {
		b := bytes.Clone(head)
		b[at] = to
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":       {nil, "it is empty"},
		"version 0":   {change(0, 0), "format version 0"},
		"version 2":   {change(0, 2), "format version 2, this engine knows 1 to 1; use the engine that wrote it"},
		"flags":       {append([]byte{1, 0x80, 0x80, 0x80, 1}, head[3:]...), "unknown flags"},
		"outcome":     {change(3, 99), "unknown outcome"},
		"tail":        {append(bytes.Clone(head), 0), "more bytes"},
		"long string": {append(bytes.Clone(head[:4]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "ends early"},
	} {
		if _, err := checkpoint.DecodeHead(c.b); !errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for text, want := range map[string]string{"": "it is empty", "\x02{}": "format version 2", "\x01": "Intent", "\x01[]": "Intent", "\x01{\"run\":1}": "run"} {
		if _, err := checkpoint.DecodePart[checkpoint.Intent]([]byte(text)); !errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("part %q: %v, want %q", text, err, want)
		}
	}
	if _, err := checkpoint.AppendPart(nil, &checkpoint.Context{Reported: json.RawMessage(`{`)}); err == nil {
		t.Error("a context that is not JSON was encoded")
	}
}

// FuzzDecodeHead: no bytes make the decoder panic or take more memory than they
// pay for, and what it accepts it would write in a form it accepts.
func FuzzDecodeHead(f *testing.F) {
	f.Add(checkpoint.AppendHead(nil, sampleHead()))
	f.Add(checkpoint.AppendHead(nil, &checkpoint.Head{Outcome: checkpoint.SkippedUpstream}))
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := checkpoint.DecodeHead(b)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrFormat) || h != nil {
				t.Fatalf("DecodeHead = %v, %v", h, err)
			}
			return
		}
		_, _ = h.Outcome.String(), h.Facet(sdk.FacetStatus) // in range
		again, err := checkpoint.DecodeHead(checkpoint.AppendHead(nil, h))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(h, again); d != "" {
			t.Fatalf("-first +second:\n%s", d)
		}
	})
}

func FuzzDecodePart(f *testing.F) {
	for _, b := range []func() ([]byte, error){
		func() ([]byte, error) { return part(sampleContext()) }, func() ([]byte, error) { return part(sampleRun()) },
		func() ([]byte, error) { return part(sampleAttempt()) }, func() ([]byte, error) { return part(sampleIntent()) },
	} {
		text, err := b()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzPart[checkpoint.Context](t, b)
		fuzzPart[checkpoint.RunRecord](t, b)
		fuzzPart[checkpoint.AttemptRecord](t, b)
		fuzzPart[checkpoint.Intent](t, b)
	})
}

func fuzzPart[T checkpoint.Part](t *testing.T, b []byte) {
	t.Helper()
	v, err := checkpoint.DecodePart[T](b)
	if err != nil {
		if !errors.Is(err, checkpoint.ErrFormat) || v != nil {
			t.Fatalf("DecodePart = %v, %v", v, err)
		}
		return
	}
	if _, err := checkpoint.AppendPart(nil, v); err != nil {
		t.Fatalf("%T is read and not written: %v", v, err)
	}
}

func BenchmarkAppendHead(b *testing.B) {
	h, buf := sampleHead(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf = checkpoint.AppendHead(buf[:0], h)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

func BenchmarkDecodeHead(b *testing.B) {
	buf := checkpoint.AppendHead(nil, sampleHead())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := checkpoint.DecodeHead(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeadJSON is what the binary form is measured against.
func BenchmarkHeadJSON(b *testing.B) {
	h := sampleHead()
	b.ReportAllocs()
	for b.Loop() {
		text, err := json.Marshal(h)
		if err == nil {
			err = json.Unmarshal(text, new(checkpoint.Head))
		}
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(text)), "bytes")
	}
}

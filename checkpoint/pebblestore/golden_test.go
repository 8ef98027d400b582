package pebblestore

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

var update = flag.Bool("update", false, "write the golden store of the newest layout anew")

// TestLayouts opens stores as each version of the layout left them.
func TestLayouts(t *testing.T) {
	t.Parallel()
	if *update {
		writeGolden(t, fmt.Sprint("testdata/v", layoutVersion))
	}
	for v := 1; v <= layoutVersion; v++ {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			t.Parallel()
			testLayout(t, v)
		})
	}
}

func testLayout(t *testing.T, version int) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(fmt.Sprint("testdata/v", version))); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	if s.Behind() != 0 {
		t.Errorf("Behind = %d", s.Behind())
	}
	ctx := t.Context()
	x, err := s.Snapshot(ctx, "default", "流程")
	if err != nil {
		t.Fatal(err)
	}
	a, b := x.Head("step.a", "k"), x.Head("step.b", "")
	if x.Len() != 2 || a == nil || b == nil || a.Seq != 1 || b.Seq != 2 || a.Plan != (checkpoint.Fingerprint{1}) || b.HasData() {
		t.Fatalf("heads %+v, %+v", a, b)
	}
	if d, err := s.Data(ctx, "default", a.Data); err != nil || string(d) != `{"answer": 42}` {
		t.Errorf("Data = %s, %v", d, err)
	}
	if r, err := s.Record(ctx, "default", 1); err != nil || r.Context.Plugin != "ai" || string(r.Context.Reported) != `{"model":"m"}` {
		t.Errorf("Record = %+v, %v", r, err)
	}
	runs, err := s.Runs(ctx, "default", "流程")
	if err != nil || len(runs) != 1 || runs[0].Status != checkpoint.RunFailed {
		t.Errorf("Runs = %+v, %v", runs, err)
	}
	as, err := s.Attempts(ctx, "default", "r_1")
	is, err2 := s.Intents(ctx, "default", "r_1")
	if err := errors.Join(err, err2); err != nil || len(as) != 1 || as[0].Error.Message != "忙" || len(is) != 1 || is[0].Effects != sdk.EffectsOnce {
		t.Errorf("attempts %+v, intents %+v, %v", as, is, err)
	}
	last := checkpoint.Seq(5)
	if version >= 2 {
		last++
		x, err := s.Snapshot(ctx, "default", "large")
		if err != nil || x.Len() != 1 {
			t.Fatalf("%d heads, %v", x.Len(), err)
		}
		if d, err := s.Data(ctx, "default", x.Head("step.large", "").Data); err != nil || string(d) != goldenLarge {
			t.Errorf("large output of %d bytes, %v", len(d), err)
		}
	}
	if seq := commitOne(t, s); seq != last+1 {
		t.Errorf("Seq %d, want %d", seq, last+1)
	}
	if v, err := s.get(keyVersion); err != nil || v[0] != layoutVersion {
		t.Errorf("the layout is %v, %v after a commit", v, err)
	}
}

var goldenLarge = `"` + strings.Repeat("大", 30_000) + `"`

func writeGolden(t *testing.T, goldenDir string) {
	t.Helper()
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := san.Sanitize(json.RawMessage(`{"answer": 42}`), json.RawMessage(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	b := checkpoint.NewBatch("default", "流程")
	b.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: "step.a", Instance: "k", Run: "r_1", Plan: checkpoint.Fingerprint{1}}, Context: checkpoint.Context{Plugin: "ai"}}, out)
	b.PutHusk(&checkpoint.Record{Head: checkpoint.Head{Step: "step.b", Run: "r_1", Plan: checkpoint.Fingerprint{2}}}, out)
	b.PutRun(&checkpoint.RunRecord{ID: "r_1", Workflow: "流程", Status: checkpoint.RunFailed})
	b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Step: "step.a", Attempt: 1, Error: &sdk.Error{Class: sdk.ClassAPIError, Message: "忙"}})
	b.PutIntent(&checkpoint.Intent{Run: "r_1", Step: "step.c", Attempt: 1, Effects: sdk.EffectsOnce})
	s := mustOpen(t, filepath.FromSlash(goldenDir), Options{MemTableBytes: 64 << 10}) // a short log
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	put(t, s, "default", "large", "step.large", goldenLarge)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

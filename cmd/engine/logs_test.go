package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host"
)

// TestTail: lines that come while it is followed are shown once whole, a run
// that is continued goes on, and the end of the run is the end.
func TestTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "runs", "r_a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(s string) {
		if _, err := f.WriteString(s); err != nil {
			t.Error(err)
		}
	}
	write(`{"type":"run_started"}` + "\n" + `{"type":"run_ended"}` + "\n" + `{"type":"run_started"}` + "\n" + `{"type":"log","mess`)
	write(`age":"one"}` + "\n" + `{"type":"log","message":"cut by a ki` + "\n" + `{"type":"log","message":"two"}` + "\n" + `{"type":"log","message":"thr`)
	var got []string
	show := func(e *host.Event) {
		if e.Type == host.EventLog {
			got = append(got, e.Message)
		}
		if e.Message == "two" { // the writer goes on
			write(`ee"}` + "\n" + `{"type":"run_ended"}` + "\n")
		}
	}
	if err := tail(context.Background(), place{dir: dir}, &story{ID: "r_a"}, true, show); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one", "two", "three"}, got); d != "" {
		t.Error(d)
	}
}

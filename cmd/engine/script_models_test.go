package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/plugins/llm/fault"
)

// servers are those of the scripts that run.
var servers sync.Map // *testscript.TestScript to *fault.Server

// models starts a server of models that fail on demand, at $MODELS.
func models(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: models")
	}
	s := fault.New()
	ts.Defer(s.Close)
	ts.Setenv("MODELS", s.URL)
	servers.Store(ts, s)
	ts.Defer(func() { servers.Delete(ts) })
}

// asked N [MODEL | with TEXT]: so many requests arrived, for that model, with that
// text in their bodies, or at all.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	with := len(args) == 3 && args[1] == "with"
	if neg || len(args) < 1 || len(args) > 2 && !with {
		ts.Fatalf("usage: asked N [MODEL | with TEXT]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	s, ok := servers.Load(ts)
	if !ok {
		ts.Fatalf("asked: no server; say models first")
	}
	n := 0
	for _, r := range s.(*fault.Server).Requests() {
		if len(args) == 1 || len(args) == 2 && r.Model == args[1] || with && bytes.Contains(r.Body, []byte(args[2])) {
			n++
		}
	}
	if n != want {
		ts.Fatalf("%d requests arrived, want %d", n, want)
	}
}

// recorded: as many requests arrived as the attempts in the journals of the
// script's runs say that they have made.
func recorded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: recorded")
	}
	s, ok := servers.Load(ts)
	if !ok {
		ts.Fatalf("recorded: no server; say models first")
	}
	var calls int64
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".jsonl") || filepath.Base(filepath.Dir(path)) != "runs" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range bytes.Lines(text) {
			e, err := host.DecodeEvent(line)
			if err != nil {
				return err
			}
			if e.Step == "" || e.Type == host.EventReused {
				continue // of a run, the sum of what follows
			}
			for _, u := range e.Usage {
				calls += u.Calls
			}
		}
		return err
	}))
	if n := int64(len(s.(*fault.Server).Requests())); n != calls {
		ts.Fatalf("%d requests arrived, and the attempts have recorded %d", n, calls)
	}
}

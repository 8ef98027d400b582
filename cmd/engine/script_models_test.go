package main

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

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

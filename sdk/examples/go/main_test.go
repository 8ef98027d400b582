package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/steptest"
)

// TestCount runs the conformance suite on the step as a function; "engine plugin
// test" runs it on what is built.
func TestCount(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	bad := []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"text":7}`), json.RawMessage(`{"text":"a","least":0}`)}
	steptest.Run(t, sdk.Func(count), steptest.Options{Type: "count", Spec: m.Steps["count"], Bad: bad})
}

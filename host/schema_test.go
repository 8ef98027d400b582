package host

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	s, err := compileSchema(json.RawMessage(`{"type":"object","required":["labels"],"properties":{"labels":{"type":"array","items":{"enum":["a","b"]}},"n~/":{"type":"integer","maximum":10}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]struct{ path, text string }{
		`{"labels":["a"],"n~/":3}`:      {},
		`{}`:                            {"", "labels"},
		`{"labels":["a","c","d"]}`:      {"/labels/1", "at /labels/2"},
		`{"labels":[],"n~/":11}`:        {"/n~0~1", "10"},
		`{"labels":[],"n~/":1e9999999}`: {"", "out of range"},
		`{"labels":1,"labels":2}`:       {"", "duplicate key"},
	} {
		e := fits(s, json.RawMessage(doc), sdk.ClassValidation, "the output")
		switch {
		case want.text == "" && e != nil:
			t.Errorf("%s: %v", doc, e)
		case want.text != "" && (e == nil || e.Class != sdk.ClassValidation || e.Path != want.path || !strings.Contains(e.Message, want.text)):
			t.Errorf("%s: %+v", doc, e)
		}
	}
	if s, err := compileSchema(nil); s != nil || err != nil {
		t.Errorf("no schema: %v, %v", s, err)
	}
	for _, bad := range []string{`{"type":"objekt"}`, `{"$ref":"https://schemas.example/x.json"}`, `{"pattern":"("}`, `[1]`} {
		if _, err := compileSchema(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

package jsonschema_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk/jsonschema"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{"type":"object","required":["labels"],"properties":{"labels":{"type":"array","items":{"enum":["a","b"]}},"n~/":{"type":"integer","maximum":10},"多":{"multipleOf":3}}}`), jsonschema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string][]string{
		`{"labels":["a"],"n~/":3,"多":6}`:    nil,
		`{}`:                                {""},
		`{"labels":["a","c","d"],"n~/":11}`: {"/labels/1", "/labels/2", "/n~0~1"},
		`{"labels":[],"多":7}`:               {"/多"},
	} {
		ms, err := s.Check(json.RawMessage(doc))
		var got []string
		for _, m := range ms {
			got = append(got, m.Path)
			if m.Message == "" {
				t.Errorf("%s: nothing is said of %s", doc, m.Path)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", doc, ms, err)
		}
	}
	// What cannot be judged, a number that would take all memory to calculate with among
	// it, fits nothing.
	for doc, want := range map[string]string{
		`{"labels":[],"多":1e999999999}`:  "out of range",
		`{"labels":[],"多":1e-999999999}`: "out of range",
		`{"labels":1,"labels":2}`:        "duplicate key",
		`{`:                              "",
	} {
		if ms, err := s.Check(json.RawMessage(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", doc, ms, err)
		}
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, none := range []string{"", "null"} {
		s, err := jsonschema.Compile(json.RawMessage(none), jsonschema.Options{})
		if s != nil || err != nil {
			t.Errorf("no schema: %v, %v", s, err)
		}
		if ms, err := s.Check(json.RawMessage(`{`)); ms != nil || err != nil {
			t.Errorf("without a schema everything fits: %v, %v", ms, err)
		}
	}
	for _, bad := range []string{`{"type":"objekt"}`, `{"$ref":"https://schemas.example/x.json"}`, `{"$ref":"file:///etc/hostname"}`, `{"pattern":"("}`, `[1]`} {
		if _, err := jsonschema.Compile(json.RawMessage(bad), jsonschema.Options{}); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	for _, formats := range []bool{false, true} {
		s, err := jsonschema.Compile(json.RawMessage(`{"format":"date"}`), jsonschema.Options{Formats: formats})
		if err != nil {
			t.Fatal(err)
		}
		if ms, err := s.Check(json.RawMessage(`"no date"`)); err != nil || (len(ms) > 0) != formats {
			t.Errorf("formats %v: %v, %v", formats, ms, err)
		}
	}
}

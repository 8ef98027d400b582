package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

func run(ctx context.Context, input string) (string, error) {
	r, err := sdk.Func(jq).Run(ctx, &sdk.Request{Input: json.RawMessage(input)}, nil)
	if err != nil {
		return "", err
	}
	return string(r.Output), nil
}

func TestExamples(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range m.Steps["jq"].Examples {
		got, err := run(t.Context(), string(e.Input))
		if want := strings.ReplaceAll(string(e.Output), ": ", ":"); err != nil || got != strings.ReplaceAll(want, ", ", ",") {
			t.Errorf("example %d: %s, %v, want %s", i, got, err, want)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"filter":".","data":{"b":1.50,"a":"<中文 🏴>&"}}`:       `{"a":"<中文 🏴>&","b":1.50}`,
		`{"filter":"$ENV | length","data":null}`:               `0`,
		`{"filter":"env | length","data":null}`:                `0`,
		`{"filter":"1, halt, 2","data":null}`:                  `1`,
		`{"filter":"[limit(3; repeat(1))]","data":null}`:       `[1,1,1]`,
		`{"filter":"$x.y","data":null,"vars":{"x":{"y":"z"}}}`: `"z"`,
	} {
		got, err := run(t.Context(), in)
		if err != nil || !strings.HasPrefix(got, `{"result":`+want+`,"results":`) {
			t.Errorf("%s gives %s, %v", in, got, err)
		}
	}
}

func TestWrongFilters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"filter":" ","data":1}`:                    "it is empty",
		`{"filter":".a |","data":1}`:                 "at byte",
		`{"filter":"$x","data":1}`:                   "variable not defined: $x",
		`{"filter":"nonsense","data":1}`:             "function not defined: nonsense",
		`{"filter":".a","data":1}`:                   "failed at its result 1: expected an object but got: number",
		`{"filter":"1, error(\"no\")","data":1}`:     "failed at its result 2: error: no",
		`{"filter":"repeat(1)","data":1}`:            "more than 100000 results",
		`{"filter":"input","data":1}`:                "input",
		`{"filter":"import \"a\" as a; 1","data":1}`: "a",
	} {
		_, err := run(t.Context(), in)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || !strings.Contains(e.Message, want) {
			t.Errorf("%s gives %v, want %q", in, err, want)
		}
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := run(ctx, `{"filter":"last(repeat(1))","data":1}`); !errors.Is(err, gone) {
		t.Errorf("after the end: %v", err)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

var steps = map[string]sdk.Step{
	"split": sdk.Func(split), "keywords": sdk.Func(keywords), "entities": sdk.Func(entities), "sentiment": sdk.Func(sentiment), "summary": sdk.Func(summary),
}

// answer gives a step's output as a value.
func answer(t *testing.T, step, input string) (any, error) {
	t.Helper()
	r, err := steps[step].Run(t.Context(), &sdk.Request{StepType: step, Input: json.RawMessage(input)}, nil)
	if err != nil {
		return nil, err
	}
	return value(t, r.Output), nil
}

func value(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExamples(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil || len(m.Steps) != len(steps) {
		t.Fatalf("%d step types, %v", len(m.Steps), err)
	}
	for name, st := range m.Steps {
		for i, e := range st.Examples {
			got, err := answer(t, name, string(e.Input))
			if err != nil {
				t.Errorf("%s %d: %v", name, i, err)
			} else if d := cmp.Diff(value(t, e.Output), got); d != "" {
				t.Errorf("%s %d (-want +got):\n%s", name, i, d)
			}
		}
	}
}

func TestOneTextIsOneChapter(t *testing.T) {
	t.Parallel()
	const text = `"Mr. Holmes laughed in Baker Street. A terrible murder, said Watson. 玄德曰：桃園。"`
	for _, name := range []string{"keywords", "entities", "sentiment", "summary"} {
		whole, err := answer(t, name, `{"text":`+text+`}`)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		chapters, err := answer(t, name, `{"chapters":[{"number":1,"text":`+text+`}]}`)
		if err != nil || !cmp.Equal(whole, chapters) {
			t.Errorf("%s: %v, %s", name, err, cmp.Diff(whole, chapters))
		}
	}
}

func TestWrongInputNamesItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ step, input, path string }{
		{"split", `{"text":" \n"}`, "/text"},
		{"keywords", `{}`, "/chapters"},
		{"entities", `{"chapters":[]}`, "/chapters"},
		{"sentiment", `{"text":"a","chapters":[]}`, "/text"},
		{"summary", `{"text":"a","sentences":-1}`, "/sentences"},
		{"keywords", `{"text":"a","limit":1001}`, "/limit"},
	} {
		_, err := answer(t, c.step, c.input)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != c.path {
			t.Errorf("%s %s gives %v", c.step, c.input, err)
		}
	}
}

// TestTextsInManyScripts: what the steps do not know they pass over.
func TestTextsInManyScripts(t *testing.T) {
	t.Parallel()
	texts := []string{"", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "עברית שלום", "ไทย ภาษา", "\u202etxet", "a\x00b", "’’''--", ".!?。", strings.Repeat("A", 1<<16), strings.Repeat("字", 1<<14),
		strings.Repeat("Mr. A B. ", 1<<12), strings.Repeat("\n", 1<<14), "हिन्दी में लेख", "日本語のテキストです。日本語です。"}
	for _, name := range []string{"keywords", "entities", "sentiment", "summary"} {
		for _, text := range texts {
			b, _ := json.Marshal(map[string]any{"text": text})
			r, err := steps[name].Run(t.Context(), &sdk.Request{StepType: name, Input: b}, nil)
			if err != nil || sdk.CheckJSON(r.Output) != nil || bytes.Contains(r.Output, []byte("null")) {
				t.Errorf("%s of %.20q: %v, %.200s", name, text, err, r.Output)
			}
		}
	}
}

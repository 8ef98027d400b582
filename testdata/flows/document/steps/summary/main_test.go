package main

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/retrace-dev/engine/plugins/text/prose"
	"github.com/retrace-dev/engine/sdk"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"holmes.txt", "zh.txt"} {
		text, err := os.ReadFile("../../text/" + file)
		if err != nil {
			t.Fatal(err)
		}
		part := string(text[:min(len(text), 60_000)])
		in, err := json.Marshal(map[string]any{"chapters": []map[string]any{{"number": 1, "title": "T", "text": part}}, "sentences": 3})
		if err != nil {
			t.Fatal(err)
		}
		var out output
		step := sdk.Func(summary)
		r, err := step.Run(t.Context(), &sdk.Request{Input: in}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Output, &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Chapters) != 1 || len(out.Chapters[0].Sentences) != 3 {
			t.Fatalf("%s: %s", file, r.Output)
		}
		all := prose.Sentences(part)
		for _, s := range out.Chapters[0].Sentences {
			if !slices.Contains(all, s) {
				t.Errorf("%s: %q is no sentence of the text", file, s)
			}
		}
		again, err := step.Run(t.Context(), &sdk.Request{Input: in}, nil)
		if err != nil || string(again.Output) != string(r.Output) {
			t.Errorf("%s: a second run gives %s, %v", file, again.Output, err)
		}
	}
}

func TestSummaryRefuses(t *testing.T) {
	t.Parallel()
	for in, path := range map[string]string{
		`{"chapters":[],"sentences":3}`:                                   "/chapters",
		`{"chapters":[{"number":1,"title":"","text":"x"}],"sentences":0}`: "/sentences",
		`{"chapters":3}`: "/chapters",
	} {
		_, err := sdk.Func(summary).Run(t.Context(), &sdk.Request{Input: json.RawMessage(in)}, nil)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != path {
			t.Errorf("%s gives %v", in, err)
		}
	}
}

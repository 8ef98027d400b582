package hcl

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiagnosticsAreAnError(t *testing.T) {
	t.Parallel()
	_, ds := parse1("step \"a\" {\n uses = plugin.q.run\n timeout = \"x\"\n}\n")
	var err error = ds
	var back Diagnostics
	if !errors.As(err, &back) || !back.HasErrors() {
		t.Error("the diagnostics are lost")
	}
	if got, want := err.Error(), `flow.hcl:4:15: Unknown plugin: There is no plugin "q" in this workflow. Declare it: plugin "q" { source = … }. (and 1 more)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if (Diagnostics{{Severity: Warning}}).HasErrors() {
		t.Error("a warning is no error")
	}
}

func TestDiagnosticsJSON(t *testing.T) {
	t.Parallel()
	w, ds := parse1("step \"a\" {\n  uses = plugin.p.run\n  input = { \"é\" = step.b.output }\n}\n")
	var got []map[string]any
	if err := json.Unmarshal(ds.JSON(w.Files), &got); err != nil {
		t.Fatal(err)
	}
	pos := func(line, column, b int) map[string]any {
		return map[string]any{"line": float64(line), "column": float64(column), "byte": float64(b)}
	}
	start := len(header) + len("step \"a\" {\n  uses = plugin.p.run\n  input = { \"é\" = ")
	want := []map[string]any{{
		"severity": "error", "code": "unknown-step", "summary": "Unknown step",
		"detail": `There is no step "b" in this workflow. Its steps are a.`,
		"range":  map[string]any{"filename": "flow.hcl", "start": pos(5, 19, start), "end": pos(5, 32, start+13)},
		"snippet": map[string]any{
			"context": `step "a"`, "code": `  input = { "é" = step.b.output }`, "start_line": 5.0,
			"highlight_start_offset": 19.0, "highlight_end_offset": 32.0, "values": []any{},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if b := (Diagnostics{}).JSON(nil); string(b) != "[]" {
		t.Errorf("no diagnostics give %s", b)
	}
}

// TestTextIsHarmless: nothing in a flow can control the reader's terminal.
func TestTextIsHarmless(t *testing.T) {
	t.Parallel()
	src := "# \x1b[2J\nstep \"a\" {\n  uses = plugin.p.run # \x1b]0;pwned\x07 \u202e\n  input = { x = \"\x1b[31m\", y = local.nope\u202e }\n  z = nothing \x1b[0m\n}\n"
	w, ds := parse1(src)
	ds = append(ds, Diagnostic{Summary: "\x1b[31m", Detail: "a\x1b[0m\n\u2066b", Values: []NamedValue{{"v\x07", "\x9b"}}})
	var files []File
	if w != nil {
		files = w.Files
	}
	var b bytes.Buffer
	if err := ds.WriteText(&b, files, 80); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && hidden(r) }); i >= 0 {
		t.Errorf("a control character at byte %d of\n%q", i, b.String())
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{
		"abc": 3, "中文": 4, "é": 1, "e\u0301": 1, "👩‍👩‍👧": 2, "🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F": 2, "🇩🇪": 2, "❤️": 2, "ｱ": 1, "Ａ": 2, "שלום": 4, "\u200b": 0, "": 0,
	} {
		if got := cells(s); got != want {
			t.Errorf("%q takes %d columns, want %d", s, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"summarise", "mail", "ai", "报告", "ünïcode"}
	for given, want := range map[string]string{
		"sumarise": "summarise", "summarize": "summarise", "Mail": "mail", "mial": "mail", "ia": "ai", "报吿": "报告", "unicode": "ünïcode",
		"x": "", "": "", "entirely": "", "mailbox": "mail", "a": "",
	} {
		if got := nearest(given, names); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	got := wrap("中文 字符 words go here\n  an indented line stays as long as it is\n\nnext", 10)
	want := []string{"中文 字符", "words go", "here", "  an indented line stays as long as it is", "", "next"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

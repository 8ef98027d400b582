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

func run(ctx context.Context, input []byte) (string, error) {
	r, err := sdk.Func(render).Run(ctx, &sdk.Request{Input: input}, nil)
	if err != nil {
		return "", err
	}
	var o output
	err = json.Unmarshal(r.Output, &o)
	return o.Text, err
}

func with(tb testing.TB, template, data string) []byte {
	tb.Helper()
	b, err := sdk.Marshal(map[string]any{"template": template, "data": json.RawMessage(data)})
	if err != nil {
		tb.Fatal(err)
	}
	return b
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
	for i, e := range m.Steps["render"].Examples {
		var want output
		if err := json.Unmarshal(e.Output, &want); err != nil {
			t.Fatal(err)
		}
		if got, err := run(t.Context(), e.Input); err != nil || got != want.Text {
			t.Errorf("example %d: %q, %v, want %q", i, got, err, want.Text)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ template, data, want string }{
		{"<b>{{.}}</b>", `"<中文 🏴 עברית>&"`, "<b><中文 🏴 עברית>&</b>"},
		{"{{.a}} {{.b}} {{.c}} {{.d}}", `{"a":1.50,"b":12345678901234567890,"c":2.5,"d":-0}`, "1.50 12345678901234567890 2.5 -0"},
		{"{{json .}}", `{"a":"<&>","b":[1.50]}`, `{"a":"<&>","b":[1.50]}`},
		{"{{pretty .}}", `{"a":1}`, "{\n  \"a\": 1\n}"},
		{`{{join "; " .}}`, `["a",1,{"b":null}]`, `a; 1; {"b":null}`},
		{`{{range $i, $l := lines .}}{{add $i 1}}:{{$l}} {{end}}`, `"a\nb\n"`, "1:a 2:b "},
		{`{{. | trim | replace "a" "b" | upper | indent 2}}`, `" a\na "`, "  B\n  B"},
		{`{{index (split "," .) 1}}`, `"a,b"`, "b"},
		{`{{default "none" .a}}{{default 7 .b}}`, `{"a":"","b":2}`, "none2"},
		{"{{if and (gt .n 1.0) (lt .n 2.0)}}yes{{end}}", `{"n":1.5}`, "yes"},
	} {
		if got, err := run(t.Context(), with(t, c.template, c.data)); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v, want %q", c.template, c.data, got, err, c.want)
		}
	}
}

func TestWrongTemplates(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"a\n{{.x":               "template:2: unclosed action",
		"{{.nothing}}":          `map has no entry for key "nothing"`,
		"{{nothing}}":           `function "nothing" not defined`,
		`{{join "" .a}}`:        "join wants a list",
		"{{indent 1000 .a}}":    "want 0 to 80",
		`{{template "nobody"}}`: `"nobody" not defined`,
	} {
		_, err := run(t.Context(), with(t, template, `{"a":"b"}`))
		e := sdk.AsError(err)
		if e == nil || e.Class != sdk.ClassInvalidInput || e.Path != "/template" {
			t.Errorf("%s gives %v", template, err)
			continue
		}
		found := false
		for w := range strings.SplitSeq(want, "|") {
			found = found || strings.Contains(e.Message, w)
		}
		if !found {
			t.Errorf("%s gives %v, want %q", template, err, want)
		}
	}
	_, err := run(t.Context(), []byte(`{"template":"","partials":{"a/b":"{{"}}`))
	if e := sdk.AsError(err); e == nil || e.Path != "/partials/a~1b" {
		t.Errorf("%v", err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := run(ctx, with(t, "x", "1")); !errors.Is(err, gone) {
		t.Errorf("after the end: %v", err)
	}
}

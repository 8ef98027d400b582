package hcl

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/retrace-dev/engine/sdk"
)

// FuzzParse: no text makes the package panic, and what loads and binds can be
// evaluated: every answer is a JSON value, and nothing is said without a place.
func FuzzParse(f *testing.F) {
	cases, _ := filepath.Glob("testdata/diagnostics/*.txtar")
	for _, path := range cases {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if filepath.Ext(file.Name) == ".hcl" {
				f.Add(file.Data)
			}
		}
	}
	for _, expr := range []string{
		`{ a = [for k, v in step.a.output : "${k}${v}" if v != null]... }`, `{ a = step.a.output.l[*].x[0], b = try(step.a.output, 1) }`,
		"{ a = <<EOT\n%{ for x in [1, 2] ~}\n${x}\n%{ endfor ~}\nEOT\n}", `{ a = 1 + 2 * -3 % 4 / 5 == 6 && !true || null == {} }`, `merge({ a = upper("x") }, convert({}, object({ x = optional(string, "y") })))`,
		`{ a = format("%05.2f %s", step.a.attempts, jsonencode(step.a.error)), (step.a.status) = formatdate("YYYY", timestamp()) }`,
	} {
		f.Add([]byte(header + "step \"a\" {\n uses = plugin.p.run\n output_type = any\n}\nlocals { l = step.a.output }\nstep \"b\" {\n uses = plugin.p.run\n when = can(local.l)\n input = " + expr + "\n}\noutput \"o\" { value = step.b.output }\n"))
	}
	f.Fuzz(func(t *testing.T, src []byte) { parseAnything(t, File{Path: "flow.hcl", Bytes: src}) })
}

// FuzzParseJSON is FuzzParse for the JSON form; what it reads is JSON.
func FuzzParseJSON(f *testing.F) {
	for _, expr := range []string{
		`{"a":"${[for k, v in step.a.output : \"${k}\" if v != null]}","//":1}`, `{"a":[1,-0.5,1e9,true,null,"x\u0041${step.a.status}%{ if true }y%{ endif }"]}`,
		`{"${step.a.status}":{"\u00e9":"\ud83d\ude00"}}`, `"${merge({}, step.a.output)}"`, `{"a":"$${x} \u0024{1+1}"}`,
	} {
		f.Add([]byte(`{"//":"x","workflow":{"w":{"//":1}},"plugin":{"p":{"source":"std/text"}},"locals":{"l":"${step.a.output}"},"step":{"a":{"uses":"plugin.p.run","output_type":"any","retry":[{"on":["quota"]},{}]},"b":[{"uses":"plugin.p.run","depends_on":["step.a"],"when":"${can(local.l)}","checkpoint":null,"input":` + expr + `}]},"output":{"o":{"value":"${step.b.output}"}}}`))
	}
	hostile, _ := filepath.Glob("testdata/hostile/2*.json")
	for _, path := range hostile {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if w, ds := parseAnything(t, File{Path: "flow.hcl.json", Bytes: src}); w != nil && !ds.HasErrors() && sdk.CheckJSON(bytes.TrimPrefix(src, bom)) != nil {
			t.Errorf("this was read as JSON: %q", src)
		}
	})
}

func parseAnything(t *testing.T, file File) (*Workflow, Diagnostics) {
	files := []File{file}
	w, ds := Parse(files)
	_ = ds.WriteText(io.Discard, files, 80)
	if !json.Valid(ds.JSON(files)) {
		t.Errorf("not JSON: %s", ds.JSON(files))
	}
	for i := range ds {
		if ds[i].Code == "" || ds[i].Summary == "" {
			t.Errorf("a diagnostic without code or summary: %+v", ds[i])
		}
		if s := ds[i].Subject; s.Start.Byte > s.End.Byte || s.Start.Byte > len(file.Bytes) {
			t.Errorf("a diagnostic at no place: %+v", ds[i])
		}
	}
	if w == nil || ds.HasErrors() {
		return w, ds
	}
	v, more := w.Bind(BindOptions{})
	if more.HasErrors() {
		return w, ds
	}
	e := w.Evaluator(v, testRun)
	for _, up := range []Upstream{
		answers(`{"x":{"l":[1,"a",null,{"x":2}]},"text":"t","l":[{"x":[3]}],"n":1e3}`), answers(`[]`), answers(`"text"`),
		func(int) Result { return Result{State: sdk.Failed, Error: &sdk.Error{Class: sdk.ClassQuota}} },
	} {
		evaluateAll(t, w, e, up)
	}
	return w, ds
}

func evaluateAll(t *testing.T, w *Workflow, e *Evaluator, up Upstream) {
	check := func(b json.RawMessage, ds Diagnostics) {
		if !ds.HasErrors() && sdk.CheckJSON(b) != nil {
			t.Errorf("not JSON: %.200s", b)
		}
		for i := range ds {
			if ds[i].Subject.IsZero() {
				t.Errorf("a diagnostic without a place: %+v", ds[i])
			}
		}
	}
	for i := range w.Steps {
		_, ds := e.When(i, Scope{Up: up})
		check(json.RawMessage("0"), ds)
		check(e.Input(i, Scope{Up: up}))
		_, ds = e.Identity(i)
		check(json.RawMessage("0"), ds)
		_ = e.CheckOutput(i, up(0).Output)
	}
	for i := range w.Plugins {
		check(e.Config(i))
	}
	for i := range w.Outputs {
		check(e.Output(i, up))
	}
}

package hcl

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	ar, err := txtar.ParseFile("testdata/forms/blocks.txtar")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ar.Files[0].Data)
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
	ar, err := txtar.ParseFile("testdata/forms/blocks.txtar")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ar.Files[1].Data)
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
		answers(`{"x":{"l":[1,"a",null,{"x":2}]},"text":"t","l":[{"x":[3]}],"n":1e3}`), answers(`[]`), answers(`"text"`), answers(`["a",{"x":1},null]`), instances(true), instances(false),
		func(int) Result { return Result{State: sdk.Failed, Error: &sdk.Error{Class: sdk.ClassQuota}} },
	} {
		evaluateAll(t, w, e, up)
	}
	return w, ds
}

// instances is an Upstream in which every step has two instances.
func instances(list bool) Upstream {
	res := Result{State: sdk.Succeeded, Output: json.RawMessage(`{"a":"x","b":null}`), Instances: []InstanceResult{
		{json.RawMessage(`"a"`), Result{State: sdk.Succeeded, Output: json.RawMessage(`"x"`)}}, {json.RawMessage(`"b"`), Result{State: sdk.Failed, Error: &sdk.Error{Class: sdk.ClassQuota}}},
	}}
	if list {
		res.List, res.Output = true, json.RawMessage(`["x",null]`)
		res.Instances[0].Key, res.Instances[1].Key = json.RawMessage(`0`), json.RawMessage(`1`)
	}
	return func(int) Result { return res }
}

func evaluateStep(w *Workflow, e *Evaluator, i int, s Scope, check func(json.RawMessage, Diagnostics)) {
	_, ds := e.When(i, s)
	check(json.RawMessage("0"), ds)
	in, ds := e.Input(i, s)
	check(in, ds)
	if !ds.HasErrors() {
		check(e.KeyInput(i, in, s))
		check(e.Stored(i, in), nil)
	}
	_, ds = e.Salt(i, s.Each)
	check(json.RawMessage("0"), ds)
	_, ds = e.Precondition(i, s)
	check(json.RawMessage("0"), ds)
	_, ds = e.Postcondition(i, s)
	check(json.RawMessage("0"), ds)
	for k := range w.Steps[i].Checks {
		check(e.CheckInput(i, k, s))
	}
	for k := range w.Steps[i].Fallbacks {
		switch w.Steps[i].Fallbacks[k].Kind {
		case FallbackOutput:
			check(e.FallbackOutput(i, k, s))
		case FallbackStep:
			check(e.FallbackInput(i, k, s))
		}
	}
	if w.Steps[i].Compensate != nil {
		check(e.CompensateInput(i, s))
	}
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
		_, ds := e.Identity(i)
		check(json.RawMessage("0"), ds)
		_ = e.CheckOutput(i, up(0).Output)
		s := Scope{Up: up, Input: json.RawMessage(`{"x":[1]}`), Output: up(0).Output, Error: up(0).Error, LastError: up(0).Error}
		if !w.Steps[i].ForEach {
			evaluateStep(w, e, i, s, check)
			continue
		}
		each := Each{Key: json.RawMessage("0"), Value: json.RawMessage("null")}
		for l := range len(w.Steps[i].Loops) - 1 { // those around are as well any
			_, ds := e.ForEach(i, l, s)
			check(json.RawMessage("0"), ds)
			s.Each = append(s.Each, each)
		}
		around := slices.Clip(s.Each)
		x, ds := e.ForEach(i, len(around), s)
		check(json.RawMessage("0"), ds)
		for k := range x.Each[:min(len(x.Each), 3)] {
			s.Each = append(around, x.Each[k])
			check(x.Each[k].Key, nil)
			check(x.Each[k].Value, nil)
			_, ds := e.EachIdentity(i, s.Each)
			check(json.RawMessage("0"), ds)
			evaluateStep(w, e, i, s, check)
		}
	}
	for i := range w.Actions {
		check(e.ActionInput(i))
	}
	for i := range w.Plugins {
		check(e.Config(i))
	}
	for i := range w.Outputs {
		check(e.Output(i, up))
	}
}

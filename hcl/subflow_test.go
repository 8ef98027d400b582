package hcl

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

const childHeader = "workflow \"child\" {}\nplugin \"c\" { source = \"./c.wasm\" }\n"

// loadTree writes a flow with the header and files beside it, and loads it.
func loadTree(t testing.TB, flow string, files map[string]string) (*Workflow, Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "flow.hcl", header+flow)
	for name, text := range files {
		write(t, dir, name, text)
	}
	return Load(filepath.Join(dir, "flow.hcl"))
}

func mustTree(t *testing.T, flow string, files map[string]string) *Workflow {
	t.Helper()
	w, ds := loadTree(t, flow, files)
	if ds.HasErrors() {
		t.Fatalf("the flow has mistakes: %s", explain(ds))
	}
	return w
}

func stepNamed(t *testing.T, w *Workflow, address string) int {
	t.Helper()
	i := slices.IndexFunc(w.Steps, func(s Step) bool { return s.Address() == address })
	if i < 0 {
		t.Fatalf("there is no %s", address)
	}
	return i
}

// facetsOf lists what a step names, as "address.facet", "+" for order only.
func facetsOf(w *Workflow, i int) (names []string) {
	for _, f := range w.Steps[i].Facets {
		name := w.Steps[f.Step].Address() + "." + f.Facet.String()
		if f.Order {
			name = "+" + name
		}
		names = append(names, name)
	}
	return names
}

const reviewChild = childHeader + `
variable "text" { type = string }
variable "lang" {
  type    = string
  default = "en"
}
step "read" {
  uses  = plugin.c.run
  input = { text = var.text, lang = var.lang }
}
step "judge" {
  uses  = plugin.c.run
  input = { read = step.read.output }
}
output "verdict" { value = step.judge.output.verdict }
output "all" { value = step.judge.output }
`

func TestSubflowIsExpanded(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "draft" { uses = plugin.p.run }
step "gate" { uses = plugin.p.run }
step "review" {
  workflow   = "./lib/review.hcl"
  when       = step.gate.output.go
  depends_on = [step.gate]
  input      = { text = step.draft.output.text }
}
step "publish" {
  uses       = plugin.p.run
  depends_on = [step.review]
  input      = { verdict = step.review.output.verdict, status = step.review.status }
}
output "verdict" { value = step.review.output }
`, map[string]string{"lib/review.hcl": reviewChild})
	var got []string
	for i := range w.Steps {
		got = append(got, fmt.Sprintf("%s %v", w.Steps[i].Address(), facetsOf(w, i)))
	}
	want := []string{
		"step.draft []",
		"step.gate []",
		"step.publish [step.review/step.read.status step.review/step.judge.status step.review/step.judge.output +step.review/step.judge.output]",
		"step.review/step.read [step.gate.output step.draft.output +step.gate.output]",
		"step.review/step.judge [step.gate.output step.review/step.read.output]",
	}
	// Attributes are in the order of their names: status comes before verdict.
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := w.Plugins[1]; p.Name != "review/c" || p.Source != "./lib/c.wasm" || len(p.Around) != 1 || p.Around[0].Step != "step.review" {
		t.Errorf("the child's plugin is %+v", p)
	}
	if len(w.Files) != 2 {
		t.Errorf("the flow has %d files, want 2", len(w.Files))
	}
}

func TestSubflowValues(t *testing.T) {
	t.Parallel()
	// A letter with a combining accent: a value that is handed on keeps its bytes.
	const text = "cafe\u0301 \u202e\u4f60\u597d"
	w := mustTree(t, `
step "draft" { uses = plugin.p.run }
step "review" {
  workflow = "./review.hcl"
  input    = { text = step.draft.output.text }
}
step "publish" {
  uses  = plugin.p.run
  input = { all = step.review.output.all, verdict = step.review.output["verdict"] }
}
`, map[string]string{"review.hcl": reviewChild})
	e := w.Evaluator(mustBind(t, w), testRun)
	up := func(i int) Result {
		out, _ := json.Marshal(map[string]any{"text": text, "verdict": text, "of": w.Steps[i].Address()})
		return Result{State: sdk.Succeeded, Output: out, Attempts: 1}
	}
	in, ds := e.Input(stepNamed(t, w, "step.review/step.read"), Scope{Up: up})
	if want := `{"lang":"en","text":"` + text + `"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
	in, ds = e.Input(stepNamed(t, w, "step.publish"), Scope{Up: up})
	if want := `{"all":{"of":"step.review/step.judge","text":"` + text + `","verdict":"` + text + `"},"verdict":"` + text + `"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
	number := func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(`{"text":5}`), Attempts: 1}
	}
	in, ds = e.Input(stepNamed(t, w, "step.review/step.read"), Scope{Up: number})
	if want := `{"lang":"en","text":"5"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("a number for a string gives %s, want %s%s", in, want, explain(ds))
	}
	list := func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(`{"text":[]}`), Attempts: 1}
	}
	if _, ds = e.Input(stepNamed(t, w, "step.review/step.read"), Scope{Up: list}); !hasCode(ds, "wrong-type") {
		t.Errorf("a list for a string is taken:%s", explain(ds))
	}
}

// An identity counts what variables stand for, so a step does not run again
// because it was moved into a sub-workflow.
func TestSubflowKeepsIdentity(t *testing.T) {
	t.Parallel()
	identity := func(flow, address string, files map[string]string) Identity {
		w := mustTree(t, flow, files)
		id, ds := w.Evaluator(mustBind(t, w), testRun).Identity(stepNamed(t, w, address))
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		return id
	}
	alone := identity(`
step "draft" { uses = plugin.p.run }
step "read" {
  uses  = plugin.p.run
  input = { text = step.draft.output.text, lang = "en" }
}
`, "step.read", nil)
	child := strings.Replace(reviewChild, "variable \"text\" { type = string }", "variable \"text\" {}", 1)
	inside := identity(`
step "draft" { uses = plugin.p.run }
step "review" {
  workflow = "./review.hcl"
  input    = { text = step.draft.output.text }
}
`, "step.review/step.read", map[string]string{"review.hcl": child})
	if alone.Input != inside.Input {
		t.Error("the input of a step is another one in a sub-workflow")
	}
}

func TestSubflowStatus(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "review" {
  workflow = "./review.hcl"
  input    = { text = "x" }
}
step "after" {
  uses  = plugin.p.run
  input = {
    status   = step.review.status
    error    = step.review.error
    attempts = step.review.attempts
    degraded = step.review.degraded
  }
}
`, map[string]string{"review.hcl": reviewChild})
	e := w.Evaluator(mustBind(t, w), testRun)
	read, judge := stepNamed(t, w, "step.review/step.read"), stepNamed(t, w, "step.review/step.judge")
	failed := Result{State: sdk.Failed, Error: &sdk.Error{Class: sdk.ClassTimeout, Message: "late"}, Attempts: 3}
	cases := []struct {
		read, judge Result
		want        string
	}{
		{Result{State: sdk.Succeeded, Attempts: 1}, Result{State: sdk.Succeeded, Attempts: 2, Degraded: true}, `{"attempts":3,"degraded":true,"error":null,"status":"succeeded"}`},
		{failed, Result{State: sdk.Skipped}, `{"attempts":3,"degraded":false,"error":{"class":"timeout","message":"late"},"status":"failed"}`},
		{failed, Result{State: sdk.Succeeded, Attempts: 1}, `{"attempts":4,"degraded":false,"error":null,"status":"succeeded"}`},
		{Result{State: sdk.Skipped}, Result{State: sdk.Skipped}, `{"attempts":0,"degraded":false,"error":null,"status":"skipped"}`},
		{Result{State: sdk.Succeeded, Attempts: 1}, Result{State: sdk.Cancelled}, `{"attempts":1,"degraded":false,"error":null,"status":"cancelled"}`},
	}
	for _, c := range cases {
		up := func(i int) Result {
			return map[int]Result{read: c.read, judge: c.judge}[i]
		}
		in, ds := e.Input(stepNamed(t, w, "step.after"), Scope{Up: up})
		if ds.HasErrors() || string(in) != c.want {
			t.Errorf("read %s, judge %s: %s, want %s%s", c.read.State, c.judge.State, in, c.want, explain(ds))
		}
	}
}

func TestSubflowFallback(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "review" {
  workflow = "./review.hcl"
  input    = { text = "x" }
  fallback {
    output = { verdict = "unknown", all = null }
  }
}
step "after" {
  uses  = plugin.p.run
  input = { verdict = step.review.output.verdict, degraded = step.review.degraded, status = step.review.status }
}
`, map[string]string{"review.hcl": reviewChild})
	e := w.Evaluator(mustBind(t, w), testRun)
	read, judge := stepNamed(t, w, "step.review/step.read"), stepNamed(t, w, "step.review/step.judge")
	if !w.Steps[read].SkipOnFailure || !w.Steps[judge].SkipOnFailure {
		t.Error("a step of a sub-workflow with a fallback fails the run")
	}
	up := func(int) Result { return Result{State: sdk.Skipped} }
	in, ds := e.Input(stepNamed(t, w, "step.after"), Scope{Up: up})
	if want := `{"degraded":true,"status":"succeeded","verdict":"unknown"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("after a failure: %s, want %s%s", in, want, explain(ds))
	}
}

func TestSubflowsInsideEachOther(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "outer" {
  workflow = "./mid"
  input    = { n = 3 }
}
output "n" { value = step.outer.output.n }
`, map[string]string{
		"mid/flow.hcl": `workflow "mid" {}
variable "n" { type = number }
step "inner" {
  workflow = "../leaf.hcl"
  input    = { n = var.n + 1 }
}
output "n" { value = step.inner.output.n }
`,
		"leaf.hcl": childHeader + `
variable "n" {
  type = number
  validation {
    condition     = var.n > 3
    error_message = "n must be more than 3, is ${var.n}"
  }
}
step "do" {
  uses  = plugin.c.run
  input = { n = var.n, text = file("note.txt") }
}
output "n" { value = step.do.output.n }
`,
		"note.txt": "beside the leaf",
	})
	i := stepNamed(t, w, "step.outer/step.inner/step.do")
	in, ds := w.Evaluator(mustBind(t, w), testRun).Input(i, Scope{})
	if want := `{"n":4,"text":"beside the leaf"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
	if f := w.Outputs[0].Facets; len(f) != 1 || f[0].Step != i {
		t.Errorf("the output names %v, want step %d", f, i)
	}
}

func TestSubflowReceivesSecrets(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
secret "token" {
  env   = "T"
  hosts = ["a.example"]
}
step "review" {
  workflow = "./review.hcl"
  input    = { text = secret.token }
}
`, map[string]string{"review.hcl": strings.Replace(reviewChild, "type = string", "\n type = string\n sensitive = true\n", 1)})
	i := stepNamed(t, w, "step.review/step.read")
	if !slices.Equal(w.Steps[i].Secrets, []int{0}) || !w.NeedsKey() {
		t.Errorf("the step has the secrets %v, and the flow needs a key: %t", w.Steps[i].Secrets, w.NeedsKey())
	}
	run := testRun
	run.Secret = func(int) (string, bool, error) { return "hush", true, nil }
	in, ds := w.Evaluator(mustBind(t, w), run).Input(i, Scope{})
	if want := `{"lang":"en","text":{"$secret":"token"}}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
}

func TestSubflowMistakes(t *testing.T) {
	t.Parallel()
	sub := func(args string) string {
		return "step \"review\" {\n workflow = \"./review.hcl\"\n input = { text = \"x\" }\n" + args + "\n}\n"
	}
	cases := map[string]struct{ flow, child, code, says string }{
		"missing":                  {"step \"review\" { workflow = \"./review.hcl\" }", reviewChild, "missing-variable", `needs "text"`},
		"unknown":                  {"step \"review\" {\n workflow = \"./review.hcl\"\n input = { txt = \"x\", text = \"x\" }\n}", reviewChild, "unknown-variable", `Did you mean "text"?`},
		"type":                     {"step \"review\" {\n workflow = \"./review.hcl\"\n input = { text = [] }\n}", reviewChild, "wrong-type", "step.review/var.text does not fit string"},
		"null":                     {"step \"review\" {\n workflow = \"./review.hcl\"\n input = { text = null }\n}", reviewChild, "null-value", "not nullable"},
		"not literal":              {"step \"a\" { uses = plugin.p.run }\nstep \"review\" {\n workflow = \"./review.hcl\"\n input = step.a.output\n}", reviewChild, "invalid-subflow", "readable in the text"},
		"output":                   {sub("") + "output \"o\" { value = step.review.output.verdit }", reviewChild, "unknown-output", `Did you mean "verdict"?`},
		"facet":                    {sub("") + "output \"o\" { value = step.review.outputs }", reviewChild, "unknown-facet", `Did you mean "output"?`},
		"argument":                 {sub("timeout = \"1s\""), reviewChild, "invalid-subflow", "Write it in the steps of step.review"},
		"block":                    {sub("retry { on = [timeout] }"), reviewChild, "invalid-subflow", "retry belongs to a step"},
		"both":                     {sub("uses = plugin.p.run"), reviewChild, "invalid-subflow", "exactly one of uses and workflow"},
		"nothing to repeat":        {sub("for_each = [1]"), childHeader + "variable \"text\" {}\noutput \"verdict\" { value = var.text }\n", "invalid-subflow", "has no steps"},
		"each of a step":           {sub("for_each = [1]"), strings.Replace(reviewChild, "lang = var.lang", "lang = each.key", 1), "reference-not-allowed", "this step has none"},
		"each in config":           {strings.Replace(sub("for_each = [\"a\"]"), "\"x\"", "each.value", 1), strings.Replace(reviewChild, "{ source = \"./c.wasm\" }", "{\n  config = { t = var.text }\n  source = \"./c.wasm\"\n}", 1), "reference-not-allowed", "another value for each instance"},
		"each without for_each":    {strings.Replace(sub(""), "\"x\"", "each.value", 1), reviewChild, "reference-not-allowed", "Write for_each"},
		"a wrong key":              {sub("for_each = [\"a\"]") + "output \"o\" { value = step.review.output.verdict }\n", reviewChild, "unsupported-attribute", "is a list and has no attribute \"verdict\""},
		"an unknown output of one": {sub("for_each = [\"a\"]") + "output \"o\" { value = step.review.output[0].verdikt }\n", reviewChild, "unsupported-attribute", "Did you mean \"verdict\"?"},
		"for_each of itself":       {"step \"draft\" { uses = plugin.p.run }\nstep \"review\" {\n  workflow = \"./review.hcl\"\n  for_each = step.review.output\n  input = { text = each.value }\n}\n", reviewChild, "dependency-cycle", "step.review.output needs step.review[*]/step.judge"},
		"fallback":                 {sub("fallback { output = { verdict = 1 } }"), reviewChild, "missing-output", `an output "all"`},
		"secret":                   {sub(""), reviewChild + "secret \"s\" { env = \"S\" }", "secret-in-subflow", "declares no secrets"},
		"settings":                 {sub(""), strings.Replace(reviewChild, "\"child\" {}", "\"child\" { timeout = \"1s\" }", 1), "not-in-subflow", "timeout is a setting of the run"},
		"itself":                   {sub(""), reviewChild + "step \"again\" { workflow = \"./review.hcl\" }", "workflow-cycle", "step.review/step.again"},
		"around itself":            {sub(""), reviewChild + "step \"again\" { workflow = \"./flow.hcl\" }", "workflow-cycle", "the workflow ("},
		"syntax":                   {sub(""), "workflow \"child\" {", "", "review.hcl"},
		"no file":                  {"step \"review\" { workflow = \"./rewiev.hcl\" }", reviewChild, "unreadable-file", "rewiev.hcl"},
		"absolute":                 {"step \"review\" { workflow = \"/etc/flow.hcl\" }", reviewChild, "invalid-workflow", "absolute"},
		"outside name":             {sub(""), reviewChild + "output \"w\" { value = step.review.output }", "unknown-step", `no step "review"`},
		"twice":                    {sub("") + "step \"review\" { uses = plugin.p.run }", reviewChild, "duplicate-name", `already a step "review"`},
		"cycle":                    {"step \"review\" {\n workflow = \"./review.hcl\"\n input = { text = step.review.output.verdict }\n}", reviewChild, "dependency-cycle", "step.review/var.text"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ds := loadTree(t, c.flow, map[string]string{"review.hcl": c.child})
			found := slices.ContainsFunc(ds, func(d Diagnostic) bool {
				return (c.code == "" || d.Code == c.code) && strings.Contains(d.Error()+d.Detail, c.says) && !d.Subject.IsZero()
			})
			if !found {
				t.Errorf("want %s that says %q, got%s", c.code, c.says, explain(ds))
			}
		})
	}
}

func TestSubflowDepth(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 18 {
		files[fmt.Sprintf("d%d.hcl", i)] = fmt.Sprintf("workflow \"d\" {}\nstep \"s\" { workflow = \"./d%d.hcl\" }\n", i+1)
	}
	files["d18.hcl"] = childHeader
	if _, ds := loadTree(t, "step \"s\" { workflow = \"./d0.hcl\" }", files); !hasCode(ds, "workflow-depth") {
		t.Errorf("18 workflows inside each other are taken:%s", explain(ds))
	}
	files["d14.hcl"] = childHeader + "step \"s\" { uses = plugin.c.run }\n"
	w := mustTree(t, "step \"s\" { workflow = \"./d0.hcl\" }", files)
	if len(w.Steps) != 1 {
		t.Errorf("there are %d steps, want 1", len(w.Steps))
	}
}

func TestSubflowForEachInside(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "list" { uses = plugin.p.run }
step "first" {
  workflow = "./each.hcl"
  input    = { items = step.list.output }
}
step "second" {
  workflow = "./each.hcl"
  input    = { items = ["a", "b"] }
}
output "words" { value = [for w in step.first.output.words : w.text] }
`, map[string]string{"each.hcl": childHeader + `
variable "items" { type = list(string) }
step "do" {
  for_each = var.items
  uses     = plugin.c.run
  input    = { text = each.value }
}
output "words" { value = step.do.output }
`})
	const text = "cafe\u0301"
	e := w.Evaluator(mustBind(t, w), testRun)
	up := func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(`["` + text + `"]`), Attempts: 1}
	}
	x, ds := e.ForEach(stepNamed(t, w, "step.first/step.do"), 0, Scope{Up: up})
	if ds.HasErrors() || len(x.Each) != 1 || string(x.Each[0].Value) != `"`+text+`"` {
		t.Errorf("the instances are %v%s", x.Each, explain(ds))
	}
	x, ds = e.ForEach(stepNamed(t, w, "step.second/step.do"), 0, Scope{Up: up})
	if ds.HasErrors() || len(x.Each) != 2 || !x.List {
		t.Errorf("the instances are %v%s", x.Each, explain(ds))
	}
	numbers := func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(`{"a":1}`), Attempts: 1}
	}
	if _, ds = e.ForEach(stepNamed(t, w, "step.first/step.do"), 0, Scope{Up: numbers}); !hasCode(ds, "wrong-type") {
		t.Errorf("an object for a list is taken:%s", explain(ds))
	}
}

func TestSubflowRules(t *testing.T) {
	t.Parallel()
	child := childHeader + `
variable "n" {
  type = number
  validation {
    condition     = var.n > 3
    error_message = "n must be more than 3, is ${var.n}"
  }
}
step "do" {
  uses  = plugin.c.run
  input = { n = var.n }
}
output "n" {
  value     = step.do.output.n
  sensitive = true
  precondition {
    condition     = step.do.output.n > 0
    error_message = "n is not positive"
  }
}
`
	flow := func(n string) string {
		return "step \"a\" { uses = plugin.p.run }\nstep \"sub\" {\n workflow = \"./c.hcl\"\n input = { n = " + n + " }\n}\nstep \"z\" {\n uses = plugin.p.run\n input = { n = step.sub.output.n }\n}\n"
	}
	if _, ds := loadTree(t, flow("2"), map[string]string{"c.hcl": child}); !hasCode(ds, "invalid-variable") || !strings.Contains(explain(ds), "n must be more than 3, is 2") {
		t.Errorf("a literal that is not valid:%s", explain(ds))
	}
	w := mustTree(t, flow("step.a.output.n"), map[string]string{"c.hcl": child})
	if !w.NeedsKey() {
		t.Error("a sensitive output of a sub-workflow needs no key")
	}
	run := testRun
	run.Key = make([]byte, 32)
	e := w.Evaluator(mustBind(t, w), run)
	up := func(n string) Upstream {
		return func(int) Result {
			return Result{State: sdk.Succeeded, Output: json.RawMessage(`{"n":` + n + `}`), Attempts: 1}
		}
	}
	do, z := stepNamed(t, w, "step.sub/step.do"), stepNamed(t, w, "step.z")
	if _, ds := e.Input(do, Scope{Up: up("2")}); !hasCode(ds, "invalid-variable") {
		t.Errorf("a value that is not valid is taken:%s", explain(ds))
	}
	if in, ds := e.Input(do, Scope{Up: up("4")}); ds.HasErrors() || string(in) != `{"n":4}` {
		t.Errorf("the input is %s%s", in, explain(ds))
	}
	if _, ds := e.Input(z, Scope{Up: up("-1")}); !hasCode(ds, "precondition") {
		t.Errorf("an output whose precondition does not hold is given:%s", explain(ds))
	}
	if in, ds := e.Input(z, Scope{Up: up("1")}); ds.HasErrors() || string(in) != `{"n":1}` || len(w.Steps[z].Sensitive) == 0 {
		t.Errorf("the input is %s, sensitive are %v%s", in, w.Steps[z].Sensitive, explain(ds))
	}
}

func TestSubflowOfNothingAndInJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "flow.hcl.json", `{
  "workflow": {"w": {}},
  "plugin": {"p": {"source": "std/text"}},
  "step": {
    "none": {"workflow": "./none.hcl"},
    "a": {"uses": "plugin.p.run", "depends_on": ["step.none"], "input": {"status": "${step.none.status}", "n": "${step.none.output.n}"}}
  }
}`)
	write(t, dir, "none.hcl", "workflow \"none\" {}\noutput \"n\" { value = 1 }\n")
	w, ds := Load(filepath.Join(dir, "flow.hcl.json"))
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	in, ds := w.Evaluator(mustBind(t, w), testRun).Input(0, Scope{})
	if want := `{"n":1,"status":"succeeded"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
}

// A condition of the step is that of every step inside, and actions belong to the
// files that declare them.
func TestSubflowConditionAndAction(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
variable "go" { type = bool }
step "sub" {
  workflow = "./c.hcl"
  when     = var.go
}
`, map[string]string{"c.hcl": childHeader + `
action "refresh" { uses = plugin.c.run }
step "a" {
  uses = plugin.c.run
  when = 1 == 1
  retry {
    on     = [unauthorized]
    before = action.refresh
  }
}
step "b" {
  uses = plugin.c.run
  when = 1 == 2
}
step "c" { uses = plugin.c.run }
`})
	for vars, want := range map[string][]bool{"go=true": {true, false, true}, "go=false": {false, false, false}} {
		e := w.Evaluator(mustBind(t, w, vars), testRun)
		for i, name := range []string{"a", "b", "c"} {
			got, ds := e.When(stepNamed(t, w, "step.sub/step."+name), Scope{})
			if ds.HasErrors() || got != want[i] {
				t.Errorf("%s: %s runs: %t, want %t%s", vars, name, got, want[i], explain(ds))
			}
		}
	}
	if a := w.Actions[0]; a.Name != "sub/refresh" || w.Steps[0].Retry[0].Before != 0 {
		t.Errorf("the action is %q, and the retry's %d", a.Name, w.Steps[0].Retry[0].Before)
	}
}

// TestSubflowVersion: the versions that a flow and those inside it want are all
// asked for.
func TestSubflowVersion(t *testing.T) {
	t.Parallel()
	child := "workflow \"child\" {\n  required_version = \">= 9\"\n}\nplugin \"c\" { source = \"./c.wasm\" }\nstep \"s\" { uses = plugin.c.run }\n"
	w := mustTree(t, `step "sub" { workflow = "./child.hcl" }`, map[string]string{"child.hcl": child})
	if ds := w.CheckVersion("5.0.0"); len(ds) != 1 || !strings.HasSuffix(ds[0].Subject.File, "child.hcl") {
		t.Errorf("what a child wants is not told at its place: %s", explain(ds))
	}
	if ds := w.CheckVersion("9.1.0"); ds.HasErrors() || w.RequiredVersion != "" {
		t.Errorf("the flow itself wants %q: %s", w.RequiredVersion, explain(ds))
	}
}

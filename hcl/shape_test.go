package hcl

import (
	"encoding/json"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// What a step answered keeps its bytes through the outputs of sub-workflows, however
// the reference gets there.
func TestSubflowOutputsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	const (
		answer = `{"s": "e\u0301 \/ é", "n":1.50e2,"l":[ {"x":1.0} ]}`
		s      = `"e\u0301 \/ é"`
	)
	w := mustTree(t, `
step "a" { uses = plugin.p.run }
step "sub" {
  workflow = "./sub.hcl"
  input    = { doc = step.a.output }
}
step "outer" {
  workflow = "./outer.hcl"
  input    = { doc = step.a.output }
}
step "caught" {
  workflow = "./sub.hcl"
  input    = { doc = step.a.output }
  fallback {
    output = { whole = "none", text = "none", made = step.a.output.l, judged = 1 }
  }
}
step "each" {
  workflow = "./sub.hcl"
  for_each = { "e`+"\u0301"+`" = 1, b = 2 }
  input    = { doc = step.a.output }
}
locals {
  whole = step.sub.output
  parts = { doc = local.whole.whole, "n" = 1 + 1 }
}
step "got" {
  uses  = plugin.p.run
  input = {
    whole    = step.sub.output
    part     = step.sub.output.whole.l[0]
    made     = step.sub.output.made.text
    judged   = step.sub.output.judged
    local    = local.parts.doc.s
    computed = local.parts.n
    outer    = step.outer.output.inner.text
    deep     = step.outer.output
    caught   = step.caught.output.text
    each     = step.each.output
    one      = step.each.output["b"].whole.l[0]
    try      = try(step.each.output["b"].missing, step.sub.output.text)
  }
}
step "inside" {
  for_each = step.each.output
  uses     = plugin.p.run
  input    = { text = each.value.text }
}
output "all" { value = step.outer.output }
`, map[string]string{
		"outer.hcl": childHeader + `
variable "doc" { type = any }
step "inner" {
  workflow = "./sub.hcl"
  input    = { doc = var.doc }
}
output "inner" { value = step.inner.output }
`,
		"sub.hcl": childHeader + `
variable "doc" { type = object({ s = string, n = number, l = any }) }
step "b" {
  uses  = plugin.c.run
  input = { text = var.doc.s, part = var.doc["l"] }
}
output "whole" { value = step.b.output }
output "text" { value = step.b.output.s }
output "made" { value = { text = step.b.output.s, from = "é" } }
output "judged" {
  value = step.b.output.n
  precondition {
    condition     = step.b.output.n > 1
    error_message = "it is small"
  }
}
`})
	e := w.Evaluator(mustBind(t, w), testRun)
	up := func(i int) Result {
		res := Result{State: sdk.Succeeded, Output: json.RawMessage(answer), Attempts: 1}
		if w.Steps[i].ForEach {
			key := `"e` + "\u0301" + `"`
			res.Output = json.RawMessage(`{"b":` + answer + `,` + key + `:` + answer + `}`)
			ended := Result{State: sdk.Succeeded, Attempts: 1}
			res.Instances = []InstanceResult{{json.RawMessage(`"b"`), ended}, {json.RawMessage(key), ended}}
		}
		return res
	}
	const sub = `{"judged":1.50e2,"made":{"from":"é","text":` + s + `},"text":` + s + `,"whole":` + answer + `}`
	for _, c := range []struct{ step, want string }{
		{"step.sub/step.b", `{"part":[ {"x":1.0} ],"text":` + s + `}`},
		{"step.got", `{"caught":` + s + `,"computed":2,"deep":{"inner":` + sub + `},"each":{"b":` + sub + `,"` + "\u00e9" + `":` + sub +
			`},"judged":1.50e2,"local":` + s + `,"made":` + s + `,"one":{"x":1.0},"outer":` + s + `,"part":{"x":1.0},"try":` + s + `,"whole":` + sub + `}`},
	} {
		got, ds := e.Input(stepNamed(t, w, c.step), Scope{Up: up})
		if ds.HasErrors() || string(got) != c.want {
			t.Errorf("the input of %s is\n%s, want\n%s%s", c.step, got, c.want, explain(ds))
		}
	}
	got, ds := e.Output(0, up)
	if want := `{"inner":` + sub + `}`; ds.HasErrors() || string(got) != want {
		t.Errorf("the output is\n%s, want\n%s%s", got, want, explain(ds))
	}
	x, ds := e.ForEach(stepNamed(t, w, "step.inside"), 0, Scope{Up: up})
	if ds.HasErrors() || len(x.Each) != 2 || string(x.Each[0].Value) != sub {
		t.Errorf("the elements are %v%s", x.Each, explain(ds))
	}
}

// A part that is not there is told with the names that the flow has for it.
func TestSubflowOutputHasNoSuchPart(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
step "a" { uses = plugin.p.run }
step "sub" {
  workflow = "./review.hcl"
  for_each = ["x"]
  input    = { text = each.value }
}
locals { l = step.sub.output }
step "far" {
  uses  = plugin.p.run
  input = { v = local.l[3].verdict }
}
step "deep" {
  uses  = plugin.p.run
  input = { v = local.l[0].all.verdicts }
}
`, map[string]string{"review.hcl": reviewChild})
	e := w.Evaluator(mustBind(t, w), testRun)
	up := func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(`[{"verdict":"v"}]`), List: true, Attempts: 1,
			Instances: []InstanceResult{{json.RawMessage("0"), Result{State: sdk.Succeeded, Attempts: 1}}}}
	}
	for step, code := range map[string]string{"step.far": "invalid-index", "step.deep": "unsupported-attribute"} {
		_, ds := e.Input(stepNamed(t, w, step), Scope{Up: up})
		if !hasCode(ds, code) || len(ds) != 1 || ds[0].Detail == "" {
			t.Errorf("%s: want %s%s", step, code, explain(ds))
		}
	}
}

// Locals that name each other many times are not written out.
func TestDoublingShapes(t *testing.T) {
	t.Parallel()
	src := "step \"a\" { uses = plugin.p.run }\nlocals {\n l0 = { a = \"x\", b = { c = path.workflow } }\n"
	for i := range 13 {
		src += "  l" + string(rune('a'+i)) + " = { a = local.l" + map[bool]string{true: "0", false: string(rune('a' + i - 1))}[i == 0] + ", b = local.l" + map[bool]string{true: "0", false: string(rune('a' + i - 1))}[i == 0] + ", v = var.v }\n"
	}
	w, ds := parse1("variable \"v\" { default = 1 }\n" + src + "}\nstep \"b\" {\n uses = plugin.p.run\n input = { v = local.lm.a.a.v }\n}\n")
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	if n := shapes(w.impl.steps[1].input.shape, map[*shape]bool{}); n > 2*maxParts {
		t.Errorf("it has %d parts", n)
	}
	if got, ds := w.Evaluator(mustBind(t, w), testRun).Input(1, Scope{Up: answers("1")}); ds.HasErrors() || string(got) != `{"v":1}` {
		t.Errorf("the input is %s%s", got, explain(ds))
	}
}

func shapes(s *shape, seen map[*shape]bool) int {
	if seen[s] {
		return 0
	}
	seen[s] = true
	n := 1
	for _, it := range s.items {
		n += shapes(it, seen)
	}
	return n
}

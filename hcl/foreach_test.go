package hcl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// loopFlow is a flow whose last step has this for_each; a and y answer, and y has
// a for_each itself.
func loopFlow(forEach string) string {
	return `
variable "list" {
  type    = list(string)
  default = ["p", "q"]
}
variable "set" {
  type    = set(string)
  default = ["q", "p", "q"]
}
variable "any" {
  nullable = true
  default  = null
}
locals {
  bare  = step.a.output
  every = step.y.output
}
step "a" { uses = plugin.p.run }
step "s" {
  uses        = plugin.p.run
  output_type = set(string)
}
step "y" {
  uses     = plugin.p.run
  for_each = [1, 2]
}
step "z" {
  uses     = plugin.p.run
  for_each = ` + forEach + "\n}\n"
}

func expansionText(x Expansion) string {
	out := "map"
	if x.List {
		out = "list"
	}
	for _, e := range x.Each {
		out += fmt.Sprintf(" %s=%s", e.Key, e.Value)
	}
	return out
}

// TestForEach: what a collection expands to, and in which order.
func TestForEach(t *testing.T) {
	t.Parallel()
	const object = `{"b": {"n": 1.0}, "a": [1, 2], "é": "é", "\u0041": "\u00e9" }`
	for _, c := range []struct{ expr, output, want string }{
		{`[10, "x", null]`, `null`, `list 0=10 1="x" 2=null`},
		{`{ b = 1, a = { x = 2 } }`, `null`, `map "a"={"x":2} "b"=1`},
		{`[]`, `null`, `list`},
		{`{}`, `null`, `map`},
		{`toset(["b", "a", "b"])`, `null`, `map "a"="a" "b"="b"`},
		{`var.list`, `null`, `list 0="p" 1="q"`},
		{`var.set`, `null`, `map "p"="p" "q"="q"`},
		{`range(3)`, `null`, `list 0=0 1=1 2=2`},
		{`{ for x in ["u", "v"] : x => upper(x) }`, `null`, `map "u"="U" "v"="V"`},
		{`step.a.output`, object, `map "A"="\u00e9" "a"=[1, 2] "b"={"n": 1.0} "é"="é"`},
		{`step.a.output.a`, object, `list 0=1 1=2`},
		{`local.bare`, object, `map "A"="\u00e9" "a"=[1, 2] "b"={"n": 1.0} "é"="é"`},
		{`[step.a.output.b, step.a.output["é"]]`, object, `list 0={"n": 1.0} 1="é"`},
		{`{ x = step.a.output.b }`, object, `map "x"={"n": 1.0}`},
		{`[for x in step.a.output.a : x + 1]`, object, `list 0=2 1=3`},
		{`step.a.output`, ` [ ] `, `list`},
		{`step.s.output`, `["b","a","b"]`, `map "a"="a" "b"="b"`},
		{`step.y.output`, `[null,{"x":"e\u0301"}]`, `list 0=null 1={"x":"e\u0301"}`},
		{`step.a.status == "succeeded" ? [1] : []`, `null`, `list 0=1`},
		{`try(step.a.output.none, {})`, `{}`, `map`},
		{`coalesce(var.any, [])`, `null`, `list`},
	} {
		w, e := mustEvaluator(t, loopFlow(c.expr))
		got, ds := e.ForEach(len(w.Steps)-1, 0, Scope{Up: answers(c.output)})
		if ds.HasErrors() || expansionText(got) != c.want {
			t.Errorf("%s of %s:\n got  %s\n want %s\n%s", c.expr, c.output, expansionText(got), c.want, explain(ds))
		}
	}
}

// TestForEachMistakes: each says the place, the expression and the type.
func TestForEachMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, output, want string }{
		{`step.a.output`, `null`, `step.a.output is null`},
		{`step.a.output.x`, `{"x":"text"}`, `step.a.output.x is string "text"`},
		{`step.a.output.x`, `{"x":7}`, `step.a.output.x is number 7`},
		{`step.a.output["x"]`, `{"x":true}`, `step.a.output["x"] is bool true`},
		{`local.bare`, `"text"`, `local.bare is string "text"`},
		{`var.any`, `1`, `var.any is null`},
		{`step.a.output.x`, `{"x":"[\"一\"]"}`, `It is the text of one (list): write jsondecode(…)`},
		{`coalesce(step.a.output.x, 1)`, `{"x":" {\"a\":1}"}`, `It is the text of one (object): write jsondecode(…)`},
		{`step.a.output.x`, `{"x":"[note] none"}`, `For one instance or none, write [x] or [].`},
		{`coalesce(step.a.output.x, 1)`, `{"x":2}`, `coalesce(step.a.output.x, 1) is a number (2)`},
		{`toset(step.a.output)`, `[1,2]`, `toset(step.a.output) is a set of number`},
		{`toset(step.a.output)`, `["a",null]`, `toset(step.a.output) is a set that holds null`},
		{`step.a.output.x`, `{"y":1}`, `has no attribute "x"`},
		{`step.a.output`, `absent`, `step.a is skipped and has no output`},
	} {
		w, e := mustEvaluator(t, loopFlow(c.expr))
		up := answers(c.output)
		if c.output == "absent" {
			up = func(int) Result { return Result{State: sdk.Skipped} }
		}
		_, ds := e.ForEach(len(w.Steps)-1, 0, Scope{Up: up})
		if text := ds.Error(); !ds.HasErrors() || !strings.Contains(text, c.want) || !strings.Contains(text, "flow.hcl:31:") {
			t.Errorf("%s of %s: %s, want %q", c.expr, c.output, text, c.want)
		}
	}
}

// TestForEachTypes: what can be told without values is told at validate.
func TestForEachTypes(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`null`: "is null", `"text"`: `is a string ("text")`, `7`: "is a number (7)", `var.list[0]`: "is a string", `step.a.status`: "is a string",
		`toset([1, 2])`: "set of number", `flatten([for i in range(101) : range(100)])`: "more than 10000", `[each.key]`: "each.key cannot be used in for_each", `[self.output]`: "self.output cannot be used", `[attempt.number]`: "attempt.number cannot be used",
		`step.z.output`: "names itself",
	} {
		if _, ds := parse1(loopFlow(expr)); !ds.HasErrors() || !strings.Contains(explain(ds), want) {
			t.Errorf("%s: %s, want %q", expr, explain(ds), want)
		}
	}
	for expr, want := range map[string]string{
		`[{ id = 1 }]`: `"idd"`, `{ a = { id = 1 }, b = { id = 2 } }`: `"idd"`, `[for x in [1] : { id = x }]`: `"idd"`, `var.list`: "is a string and has no attribute",
	} {
		src := strings.TrimSuffix(loopFlow(expr), "}\n") + "  input = { x = each.value.idd }\n}\n"
		if _, ds := parse1(src); !hasCode(ds, "unsupported-attribute") || !strings.Contains(explain(ds), want) {
			t.Errorf("%s: %s, want %q", expr, explain(ds), want)
		}
	}
	for _, expr := range []string{`[{ id = 1 }, { idd = 2 }]`, `step.a.output`, `step.y.output`, `[]`} {
		mustLoad(t, strings.TrimSuffix(loopFlow(expr), "}\n")+"  input = { x = each.value.idd, k = each.key }\n}\n")
	}
	for expr, bad := range map[string]string{`[1]`: `each.key.x`, `{ a = 1 }`: `each.key + [1]`, `["x"]`: `each.value[0].x`} {
		if _, ds := parse1(strings.TrimSuffix(loopFlow(expr), "}\n") + "  input = { x = " + bad + " }\n}\n"); !ds.HasErrors() {
			t.Errorf("%s in a loop over %s is no mistake", bad, expr)
		}
	}
}

// TestMaxInstances: more than the workflow allows is an error wherever the number
// becomes known.
func TestMaxInstances(t *testing.T) {
	t.Parallel()
	flow := func(expr string) (*Workflow, Diagnostics) {
		return Parse([]File{{Path: "flow.hcl", Bytes: []byte("workflow \"w\" { max_instances = 2 }\nplugin \"p\" { source = \"std/text\" }\n" + loopFlow(expr))}})
	}
	if _, ds := flow(`[1, 2, 3]`); !hasCode(ds, "too-many-instances") {
		t.Errorf("a literal: %s", explain(ds))
	}
	for expr, output := range map[string]string{
		`step.a.output`: `[1,2,3]`, `local.bare`: `{"a":1,"b":2,"c":3}`, `[for x in step.a.output : x]`: `[1,2,3]`, `toset(step.a.output)`: `["a","b","c"]`, `tomap(step.a.output)`: `{"a":1,"b":2,"c":3}`,
	} {
		w, ds := flow(expr)
		if w.MaxInstances != 2 || ds.HasErrors() {
			t.Fatalf("%d %s", w.MaxInstances, explain(ds))
		}
		if _, ds := w.Evaluator(mustBind(t, w), testRun).ForEach(len(w.Steps)-1, 0, Scope{Up: answers(output)}); !hasCode(ds, "too-many-instances") {
			t.Errorf("%s: %s", expr, explain(ds))
		}
	}
}

// TestPair: nothing but the output of a step with for_each pairs the instances.
func TestPair(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`step.y.output`: "y", `(step.y.output)`: "y", `local.every`: "y",
		`step.a.output`: "", `step.y.output[0]`: "", `[for x in step.y.output : x]`: "", `try(step.y.output, [])`: "", `[1]`: "", `var.list`: "",
	} {
		w := mustLoad(t, loopFlow(expr))
		got := ""
		for _, f := range w.Steps[len(w.Steps)-1].Facets {
			if f.Follows == 1 {
				got += w.Steps[f.Step].Name
			}
		}
		if got != want {
			t.Errorf("%s is paired with %q, want %q", expr, got, want)
		}
	}
}

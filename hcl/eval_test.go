package hcl

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	const out = `{"n":1,"s":"a<b>&","l":[1,2.5,3],"o":{"x":{"y":[{"z":true}]}},"nil":null,"big":12345678901234567890123456789,"dec":0.1,"é":1}`
	cases := []struct{ expr, want string }{
		{`step.a.output.n + 1`, `2`},
		{`step.a.output.dec + 0.2`, `0.3`},
		{`step.a.output.big * 1`, `12345678901234567890123456789`},
		{`"${step.a.output.dec}"`, `0.1`},
		{`"${step.a.output.dec};"`, `"0.1;"`},
		{`step.a.output.l[1]`, `2.5`},
		{`step.a.output["l"][1]`, `2.5`},
		{`step.a.output.o.x.y[0].z`, `true`},
		{`step.a.output.o.x`, `{"y":[{"z":true}]}`},
		{`step.a.output.o["x"].y[*].z`, `[true]`},
		{`step.a.output.é`, `1`},
		{`step.a.output.nil`, `null`},
		{`step.a.output.nil == null`, `true`},
		{`[for x in step.a.output.l : x * 2 if x != 2.5]`, `[2,6]`},
		{`{ for i, x in step.a.output.l : "k${i}" => x }`, `{"k0":1,"k1":2.5,"k2":3}`},
		{`{ for x in ["a", "b", "a"] : x => x... }`, `{"a":["a","a"],"b":["b"]}`},
		{`[for k, v in { b = 1, a = 2 } : "${k}${v}"]`, `["a2","b1"]`},
		{`step.a.output.s`, `"a<b>&"`},
		{`jsonencode(step.a.output.s)`, `"\"a<b>&\""`},
		{`jsonencode({ b = 1.50, a = null })`, `"{\"a\":null,\"b\":1.5}"`},
		{`jsondecode("{\"a\":[1,\"x\",null]}").a[1]`, `"x"`},
		{`step.a.status`, `"succeeded"`},
		{`step.a.error == null`, `true`},
		{`step.a.attempts + 1`, `2`},
		{`step.a.degraded`, `false`},
		{`try(step.a.output.missing, "none")`, `"none"`},
		{`try(step.a.output.n, "none")`, `1`},
		{`try(step.a.error.message, "fine")`, `"fine"`},
		{`can(step.a.output.missing.x)`, `false`},
		{`can(step.a.output.n)`, `true`},
		{`true ? 1 : 2`, `1`},
		{`step.a.output.n == 1 ? [1] : []`, `[1]`},
		{`step.a.output.n > 1 ? step.a.output.missing : "else"`, `"else"`},
		{`step.a.output.n > 1 && step.a.output.missing`, `false`},
		{`length("héllo")`, `5`},
		{`length("👩‍👩‍👧")`, `1`},
		{`coalesce(null, "", "x")`, `"x"`},
		{`one([])`, `null`},
		{`sum([1, 2.5])`, `3.5`},
		{`alltrue([true, false])`, `false`},
		{`anytrue([true, false])`, `true`},
		{`startswith("abc", "ab") && endswith("abc", "bc") && strcontains("abc", "b")`, `true`},
		{`replace("a1b2", "/[0-9]/", "#")`, `"a#b#"`},
		{`replace("a.b", ".", "-")`, `"a-b"`},
		{`distinct([1, "1", 1.0, 1])`, `[1,"1"]`},
		{`timestamp()`, `"2026-01-02T03:04:05Z"`},
		{`timecmp("2026-01-01T00:00:00Z", timestamp())`, `-1`},
		{`formatdate("YYYY", run.started_at)`, `"2026"`},
		{`run.id`, `"r_test"`},
		{`convert(["1", "2"], list(number))`, `[1,2]`},
		{`base64decode(base64encode("中文"))`, `"中文"`},
		{`urlencode("a b&c")`, `"a+b%26c"`},
		{`sha256("")`, `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`},
		{`"%{ for x in step.a.output.l }${x};%{ endfor }"`, `"1;2.5;3;"`},
		{`"%{ if step.a.output.n == 1 }yes%{ else }no%{ endif }"`, `"yes"`},
		{`max(step.a.output.l...)`, `3`},
		{`merge({ a = 1 }, { b = 2 })`, `{"a":1,"b":2}`},
		{`-step.a.output.n`, `-1`},
		{`!step.a.degraded`, `true`},
		{`7 % 4`, `3`},
		{`1 / 3`, `0.` + strings.Repeat("3", 154) + "5"},
		{`1e300 * 10`, `1` + strings.Repeat("0", 301)},
	}
	for _, c := range cases {
		got, ds := value(t, c.expr, out)
		if ds.HasErrors() || got != c.want {
			t.Errorf("%s gives %s, want %s %s", c.expr, got, c.want, explain(ds))
		}
	}
}

// TestBareReferences: what is only handed on keeps its bytes; the second column
// is what the flow would give had it computed with the value.
func TestBareReferences(t *testing.T) {
	t.Parallel()
	const raw = `{ "s" : "e\u0301 \/ é",  "n":1.50e2,"o":{"b":[ 1 , 2 ],"a":{}} , "big":1` + "0000000000000000000000000000000000000000000001" + `}`
	src := `
step "a" { uses = plugin.p.run }
locals {
  whole = step.a.output
  again = (local.whole)
  part  = step.a.output.o
}
step "b" {
  uses = plugin.p.run
  input = {
    s      = step.a.output.s
    n      = step.a.output.n
    nested = { list = [step.a.output.o.b, 1], "${"x"}" = step.a.output.o["a"] }
    big    = "${step.a.output.big}"
    local  = local.again
    part   = local.part.b
    paren  = (step.a.output.o.b[1])
  }
}
`
	got, ds := inputOf(t, src, answers(raw))
	want := `{"big":10000000000000000000000000000000000000000000001,"local":` + raw + `,"n":1.50e2,"nested":{"list":[[ 1 , 2 ],1],"x":{}},"paren":2,"part":[ 1 , 2 ],"s":"e\u0301 \/ é"}`
	if ds.HasErrors() || got != want {
		t.Errorf("got  %s\nwant %s %s", got, want, explain(ds))
	}
	if err := sdk.CheckJSON([]byte(got)); err != nil {
		t.Error(err)
	}
	got, ds = inputOf(t, "step \"a\" { uses = plugin.p.run }\nstep \"b\" {\n uses = plugin.p.run\n input = step.a.output.o\n}", answers(raw))
	if ds.HasErrors() || got != `{"b":[ 1 , 2 ],"a":{}}` {
		t.Errorf("a whole input: %s %s", got, explain(ds))
	}
}

// TestTextSurvives: text of any script passes through expressions.
func TestTextSurvives(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"中文", "🏴\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F", "שלום \u202ex", "\"quotes\" \\ ${x} %{y}", "a\r\nb\t\x00", "\u2028<&>"} {
		lit, err := sdk.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		out := `{"s":` + string(lit) + `}`
		for _, expr := range []string{"step.a.output.s", `"${step.a.output.s}"`, `lower(upper(step.a.output.s)) == lower(step.a.output.s) ? step.a.output.s : step.a.output.s`, `jsondecode(jsonencode(step.a.output)).s`} {
			got, ds := value(t, expr, out)
			var back string
			if err := json.Unmarshal([]byte(got), &back); ds.HasErrors() || err != nil || back != s {
				t.Errorf("%s of %q gives %s %s", expr, s, got, explain(ds))
			}
		}
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`step.a.output.ok`:                      "true",
		`step.a.status == "failed"`:             "false",
		`step.a.output.s`:                       `wrong-type flow.hcl:6:9: Condition is not true or false: when must be true or false, this is a string ("true").`,
		`step.a.output.nil`:                     `wrong-type flow.hcl:6:9: Condition is not true or false: when must be true or false, this is null.`,
		`step.a.output.nope`:                    `unsupported-attribute flow.hcl:6:22: Output has no such part: step.a.output has no attribute "nope"; it has nil, ok, s.`,
		`step.a.output.okk`:                     `unsupported-attribute flow.hcl:6:22: Output has no such part: step.a.output has no attribute "okk"; it has nil, ok, s. Did you mean "ok"?`,
		`step.a.output.s.t`:                     `unsupported-attribute flow.hcl:6:24: Output has no such part: step.a.output.s is a string ("true") and has nothing inside.`,
		`step.a.output.nil.t`:                   `unsupported-attribute flow.hcl:6:26: Output has no such part: step.a.output.nil is null.`,
		`step.a.output[0]`:                      `unsupported-attribute flow.hcl:6:22: Output has no such part: step.a.output is an object and has no index 0. Its attributes are nil, ok, s.`,
		`step.a.output.ok ? step.a.error.x : 1`: ``,
	} {
		w, ds := parse1("step \"a\" { uses = plugin.p.run }\nstep \"b\" {\n uses = plugin.p.run\n when = " + expr + "\n}")
		if want == "" {
			if !ds.HasErrors() {
				t.Errorf("%s is no mistake", expr)
			}
			continue
		}
		if ds.HasErrors() {
			t.Errorf("%s: %s", expr, explain(ds))
			continue
		}
		e := w.Evaluator(mustBind(t, w), testRun)
		ok, ds := e.When(1, Scope{Up: answers(`{"ok":true,"s":"true","nil":null}`)})
		got := fmt.Sprint(ok)
		if ds.HasErrors() {
			got = strings.TrimSpace(explain(ds))
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", expr, got, want)
		}
		if ok, ds := e.When(0, Scope{}); !ok || ds != nil {
			t.Error("a step without when does not run")
		}
	}
}

// TestAbsent: what try and can catch when an upstream did not succeed.
func TestAbsent(t *testing.T) {
	t.Parallel()
	failed := func(int) Result {
		return Result{State: sdk.Failed, Error: &sdk.Error{Class: sdk.ClassQuota, Message: "no more 额度"}, Attempts: 3}
	}
	src := `
step "a" { uses = plugin.p.run }
locals { text = step.a.output.text }
step "b" {
  uses  = plugin.p.run
  input = {
    a = try(step.a.output.text, "none")
    b = can(step.a.output)
    c = step.a.error
    d = "${step.a.status} ${step.a.attempts} ${step.a.error.class}"
    e = try(local.text, step.a.error.message)
    f = try(try(step.a.output, local.text), 7)
  }
}
`
	got, ds := inputOf(t, src, failed)
	want := `{"a":"none","b":false,"c":{"class":"quota","message":"no more 额度"},"d":"failed 3 quota","e":"no more 额度","f":7}`
	if ds.HasErrors() || got != want {
		t.Errorf("got  %s\nwant %s %s", got, want, explain(ds))
	}
	_, ds = inputOf(t, "step \"a\" { uses = plugin.p.run }\nstep \"b\" {\n uses = plugin.p.run\n input = { x = step.a.output.t }\n}", failed)
	if !hasCode(ds, "absent-output") {
		t.Errorf("a hard reference to a failed step: %s", explain(ds))
	}
}

// TestEvaluationDiagnostics: a mistake that only values show names the place and
// the values.
func TestEvaluationDiagnostics(t *testing.T) {
	t.Parallel()
	src := "step \"a\" { uses = plugin.p.run }\nlocals {\n base = step.a.output.n\n}\nstep \"b\" {\n uses = plugin.p.run\n input = {\n  x = local.base + var.v\n  y = [for z in step.a.output.l : z + 1]\n  q = step.a.output.titel\n }\n}\nvariable \"v\" {}\n"
	w, e := mustEvaluator(t, src, "v=5")
	_, ds := e.Input(1, Scope{Up: answers(`{"n":"many","l":[1,"x"],"title":"T"}`)})
	var b strings.Builder
	if err := ds.WriteText(&b, w.Files, 80); err != nil {
		t.Fatal(err)
	}
	want := `Error: Output has no such part [unsupported-attribute]
  in flow.hcl, line 12, column 20:
   12 |   q = step.a.output.titel
      |                    ^^^^^^
  with step.a.output.titel = ?
`
	want = strings.Replace(want, "  with step.a.output.titel = ?\n", "", 1) + `  step.a.output has no attribute "titel"; it has l, n, title. Did you mean
  "title"?

Error: Operand has the wrong type [invalid-operand]
  in flow.hcl, line 10, column 7:
   10 |   x = local.base + var.v
      |       ^^^^^^^^^^
  with local.base = "many"
  + takes a number on both sides, this is a string ("many").

Error: Operand has the wrong type [invalid-operand]
  in flow.hcl, line 11, column 35:
   11 |   y = [for z in step.a.output.l : z + 1]
      |                                   ^
  with z = "x"
  + takes a number on both sides, this is a string ("x").
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConfigAndOutput(t *testing.T) {
	t.Parallel()
	w, e := mustEvaluator(t, `
variable "url" { default = "https://ai.example" }
locals { base = { url = var.url } }
plugin "q" {
  source = "./q.wasm"
  config = merge(local.base, { run = run.id, dir = path.workflow })
}
plugin "bad" {
  source = "./q.wasm"
  config = jsondecode(var.list)
}
variable "list" { default = "[1]" }
step "a" { uses = plugin.q.run }
output "whole" { value = step.a.output }
output "n" { value = "n is ${step.a.output.n}" }
`)
	if b, ds := e.Config(0); string(b) != "{}" || ds.HasErrors() {
		t.Errorf("no config gives %s %s", b, explain(ds))
	}
	if b, ds := e.Config(1); string(b) != `{"dir":"","run":"r_test","url":"https://ai.example"}` || ds.HasErrors() {
		t.Errorf("config is %s %s", b, explain(ds))
	}
	if _, ds := e.Config(2); !hasCode(ds, "wrong-type") {
		t.Errorf("a config that is a list: %s", explain(ds))
	}
	for i, want := range []string{`{"n": 1 }`, `"n is 1"`} {
		if b, ds := e.Output(i, answers(`{"n": 1 }`)); string(b) != want || ds.HasErrors() {
			t.Errorf("output %s is %s, want %s %s", w.Outputs[i].Name, b, want, explain(ds))
		}
	}
}

// TestConcurrentEvaluation is for the race detector: one evaluator, many steps.
func TestConcurrentEvaluation(t *testing.T) {
	t.Parallel()
	src := "locals {\n a = \"x\"\n b = \"${local.a}${local.a}\"\n c = [for x in [1, 2] : { v = x, t = local.b }]\n d = step.s.output.l[*].n\n}\nstep \"s\" { uses = plugin.p.run }\nstep \"t\" {\n uses = plugin.p.run\n input = { c = local.c[*].v, d = local.d, e = [for x in local.d : x] }\n}\n"
	w, e := mustEvaluator(t, src)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				b, ds := e.Input(1, Scope{Up: answers(`{"l":[{"n":1},{"n":2}]}`)})
				if string(b) != `{"c":[1,2],"d":[1,2],"e":[1,2]}` || ds.HasErrors() {
					t.Errorf("got %s %s", b, explain(ds))
				}
				if _, ds := e.Identity(1); ds.HasErrors() {
					t.Error(explain(ds))
				}
			}
		})
	}
	wg.Wait()
	if len(w.Steps) != 2 {
		t.Error("the flow changed")
	}
}

// TestBareText: a variable and a file are handed on byte for byte, too.
func TestBareText(t *testing.T) {
	t.Parallel()
	const nfd = "cafe\u0301 \u1100\u1161 中文"
	dir := t.TempDir()
	write(t, dir, "p.txt", nfd)
	write(t, dir, "v.json", `{"j":"cafe\u0301 \u1100\u1161 中文"}`)
	write(t, dir, "flow.hcl", header+"variable \"v\" {}\nvariable \"j\" { type = string }\nlocals { l = var.v }\nstep \"a\" {\n uses = plugin.p.run\n input = { v = var.v, l = \"${local.l}\", j = var.j, f = file(\"p.txt\"), n = upper(var.v) }\n}\n")
	w, ds := Load(dir)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	v, ds := w.Bind(BindOptions{Vars: []string{"v=@" + dir + "/p.txt"}, VarFiles: []string{dir + "/v.json"}})
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	got, ds := w.Evaluator(v, testRun).Input(0, Scope{})
	want := `{"f":"` + nfd + `","j":"` + nfd + `","l":"` + nfd + `","n":"CAFÉ 가 中文","v":"` + nfd + `"}`
	if string(got) != want || ds.HasErrors() {
		t.Errorf("got  %q\nwant %q %s", got, want, explain(ds))
	}
	if b := v.JSON(); string(b["v"]) != `"`+nfd+`"` {
		t.Errorf("the run record has %q", b["v"])
	}
}

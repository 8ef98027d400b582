package hcl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/retrace-dev/engine/sdk"
	"github.com/rogpeppe/go-internal/txtar"
)

// blocksFlow is the flow of testdata/forms in both forms.
func blocksFlow(t testing.TB) (native, form *Workflow) {
	t.Helper()
	ar, err := txtar.ParseFile("testdata/forms/blocks.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []*Workflow
	for _, f := range ar.Files {
		w, ds := Parse([]File{{Path: f.Name, Bytes: f.Data}})
		if len(ds) > 0 {
			t.Fatalf("%s: %s", f.Name, explain(ds))
		}
		if laid, _ := Format(f.Name, f.Data); f.Name == "flow.hcl" && string(laid) != string(f.Data) {
			t.Errorf("its layout: %s", cmp.Diff(string(f.Data), string(laid)))
		}
		out = append(out, w)
	}
	return out[0], out[1]
}

// TestBlocks: what each block and argument becomes, the same in both forms.
func TestBlocks(t *testing.T) {
	t.Parallel()
	w, form := blocksFlow(t)
	same(t, w, form)
	var caught []sdk.Class
	for _, c := range sdk.Classes() {
		if c != sdk.ClassRefused && c != sdk.ClassCancelled {
			caught = append(caught, c)
		}
	}
	want := Step{
		Name: "fan", StepType: "run", ForEach: true, Loops: []Loop{{Facets: 1}}, WhenDepth: 1, HasWhen: true, EachFacets: 1, KeyFacets: 1, Concurrency: 3, SkipOnFailure: true,
		Facets: []FacetRef{{Step: 0}, {Step: 2}, {Step: 2}},
		Retry:  []Retry{{On: []sdk.Class{"validation", "unauthorized"}, MaxAttempts: 3, Delay: time.Second, Exponential: true, Before: 0}},
		Fallbacks: []Fallback{
			{On: []sdk.Class{"timeout", "refused"}, Kind: FallbackLast, Use: Use{Plugin: -1}},
			{On: caught, Kind: FallbackStep, Use: Use{StepType: "small"}},
			{On: caught, Kind: FallbackOutput, Use: Use{Plugin: -1}},
		},
		Preconditions: 2, Postconditions: 1,
		Checks:     []Check{{Use{StepType: "judge"}}, {Use{StepType: "lint"}}},
		Compensate: &Compensate{Use: Use{StepType: "undo"}, Retry: []Retry{{On: []sdk.Class{"timeout", "unavailable", "rate_limited", "api_error", "plugin_crash"}, MaxAttempts: 9, Delay: time.Second, Exponential: true, Before: -1}}},
		Sandbox:    &Sandbox{Memory: 64 << 20}, Budget: &Budget{Tokens: 5000},
		Keep: 5, Redact: []string{"/debug/*", "raw"}, Exclude: []string{"trace", "spare"},
	}
	if diff := cmp.Diff(want, w.Steps[1], anywhere); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
	if f := w.Steps[3].Facets[0]; f.Step != 1 || f.Follows != 1 {
		t.Errorf("pair: %+v", f)
	}
	sandbox := &Sandbox{
		AllowHosts: []string{"ai.example", "http://localhost:8080"}, HostRanges: make([]Range, 2), Env: map[string]string{"LANG": "C.UTF-8", "EMPTY": ""},
		Memory: 128 << 20, Fuel: 1e9, OutputMax: 2 << 30, LogMax: 64 << 10, Isolation: "process",
		Mounts: []Mount{{Name: "models", Source: "./models"}, {Name: "out", Source: "/srv/out", ReadWrite: true}},
	}
	actions := []Action{{
		Name: "refresh", Use: Use{StepType: "token"}, Timeout: 10 * time.Second, Sandbox: &Sandbox{AllowHosts: []string{"ai.example"}, HostRanges: make([]Range, 1)},
		Retry: []Retry{{On: []sdk.Class{"unavailable"}, MaxAttempts: 2, Delay: time.Second, Exponential: true, Before: -1}},
	}}
	outputs := []Output{{Name: "all", Sensitive: true, Facets: []FacetRef{{Step: 3}, {Step: 1}, {Step: 1}}}}
	if diff := cmp.Diff([]any{sandbox, actions, outputs, &Budget{Tokens: 1e6, Calls: 200, USD: 12.5}, ">= 1.2, < 3.0", true, 50},
		[]any{w.Plugins[0].Sandbox, w.Actions, w.Outputs, w.Budget, w.RequiredVersion, w.CompensateOnFailure, w.MaxInstances}, anywhere); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := &w.Plugins[0]
	if diff := cmp.Diff([]any{&Limiter{Requests: 60, Tokens: 90_000, Concurrency: 4}, Breaker{Failures: 3, Cooldown: time.Minute}}, []any{p.Limiter, p.Breaker}, anywhere); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := w.Plugins[0].Sandbox.HostRanges[1]; at.Start.Line != 24 || at.End.Column-at.Start.Column != len(`"http://localhost:8080"`) {
		t.Errorf("the second host is at %+v", at)
	}
}

// TestBlocksEvaluated: what a run asks of each block.
func TestBlocksEvaluated(t *testing.T) {
	t.Parallel()
	native, form := blocksFlow(t)
	for _, w := range []*Workflow{native, form} {
		blocksEvaluated(t, w)
	}
}

func blocksEvaluated(t *testing.T, w *Workflow) {
	t.Helper()
	e := w.Evaluator(mustBind(t, w, "base=http://x"), testRun)
	s := Scope{
		Up: answers(`["o"]`), Each: []Each{{Key: json.RawMessage(`0`), Value: json.RawMessage(`"v\u0041"`)}}, Attempt: 2, LastError: &sdk.Error{Class: "validation", Message: "again"},
		Input: json.RawMessage(`{"text": "v\u0041"}`), Output: json.RawMessage(`{"text":""}`), Error: &sdk.Error{Class: "quota", Code: "q", Message: "no more"},
	}
	got := map[string]string{}
	put := func(name string) func(b json.RawMessage, ds Diagnostics) {
		return func(b json.RawMessage, ds Diagnostics) { got[name] = string(b) + explain(ds) }
	}
	put("input")(e.Input(1, s))
	put("check 0")(e.CheckInput(1, 0, s))
	put("check 1")(e.CheckInput(1, 1, s))
	put("fallback 1")(e.FallbackInput(1, 1, s))
	put("fallback 2")(e.FallbackOutput(1, 2, s))
	put("undo")(e.CompensateInput(1, s))
	put("action")(e.ActionInput(0))
	put("config")(e.Config(0))
	put("key")(e.KeyInput(1, json.RawMessage(got["input"]), s))
	pre, ds := e.Precondition(1, s)
	put("pre")(json.RawMessage(pre), ds)
	post, ds := e.Postcondition(1, s)
	put("post")(json.RawMessage(post), ds)
	if diff := cmp.Diff(map[string]string{
		"input":      `{"key":0,"n":2,"spare":["o"],"text":"v\u0041","trace":"r_test","was":{"class":"validation","code":"","details":null,"message":"again"}}`,
		"key":        `{"key":0,"n":2,"text":"v\u0041","was":{"class":"validation","code":"","details":null,"message":"again"}}`,
		"check 0":    `{"answer":{"text":""},"question":"v\u0041","spare":["o"]}`,
		"check 1":    `{}`,
		"fallback 1": `{"error":{"class":"quota","code":"q","details":null,"message":"no more"},"text":"v\u0041"}`,
		"fallback 2": `{"text":"vA: no more"}`,
		"undo":       `{"base":"http://x","id":"","was":{"text": "v\u0041"}}`,
		"action":     `{"run":"r_test","url":"http://x/token"}`,
		"config":     `{"url":"http://x"}`,
		"pre":        ``,
		"post":       `nothing for 0`,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, _ := e.KeyInput(0, json.RawMessage(` {"a" : 1}`), s); string(got) != ` {"a" : 1}` {
		t.Errorf("an input of which nothing is excluded: %s", got)
	}
	if _, ds := e.Output(0, answers(`["o"]`)); !hasCode(ds, "precondition") || !strings.Contains(explain(ds), "only 1.") {
		t.Errorf("output: %s", explain(ds))
	}
	if out, ds := e.Output(0, answers(`["o", "p"]`)); string(out) != `["o", "p"]` {
		t.Errorf("output: %s %s", out, explain(ds))
	}
}

// TestConditions: the first that does not hold speaks; what cannot be judged is a
// mistake, not a no.
func TestConditions(t *testing.T) {
	t.Parallel()
	rule := func(condition, message string) string {
		return fmt.Sprintf("postcondition {\n condition = %s\n error_message = %s\n}\n", condition, message)
	}
	for _, c := range []struct{ rules, message, mistake string }{
		{rule(`self.output.n > 1`, `"a"`) + rule(`false`, `"b"`), "b", ""},
		{rule(`self.output.n > 2`, `"only ${self.output.n}"`) + rule(`self.output.none`, `"b"`), "only 2", ""},
		{rule(`self.output.n > 1`, `"a"`), "", ""},
		{rule(`step.a.status == "succeeded"`, `"a"`), "", ""},
		{rule(`self.output.s`, `"a"`), "", "condition must be true or false, this is a string"},
		{rule(`self.output.none`, `"a"`), "", `self.output has no attribute "none"`},
		{rule(`self.output.nil`, `"a"`), "", "this is null"},
		{rule(`self.output.nil.x`, `"a"`), "", "self.output.nil is null"},
		{rule(`can(self.output.none)`, `"报告 is missing"`), "报告 is missing", ""},
		{rule(`self.output.n == 1`, `self.output.none`), "the condition at flow.hcl:6:14 is not met", ""},
		{rule(`self.output.n == 1`, `self.output.empty`), "the condition at flow.hcl:6:14 is not met", ""},
	} {
		w, e := mustEvaluator(t, "step \"a\" { uses = plugin.p.run }\nstep \"z\" {\n"+c.rules+" uses = plugin.p.run\n}\n")
		message, ds := e.Postcondition(len(w.Steps)-1, Scope{Up: answers(`1`), Output: json.RawMessage(`{"n":2,"s":"true","nil":null,"empty":""}`)})
		if message != c.message || ds.HasErrors() != (c.mistake != "") || !strings.Contains(explain(ds), c.mistake) {
			t.Errorf("%s: %q %s, want %q %q", c.rules, message, explain(ds), c.message, c.mistake)
		}
	}
	if _, ds := parse1("step \"z\" {\n uses = plugin.p.run\n output_type = object({ n = number })\n" + rule(`self.output.m > 1`, `"a"`) + rule(`"true"`, `7`) + "}\n"); !strings.Contains(explain(ds), `no attribute "m"; it has n.`) || strings.Count(explain(ds), "wrong-type") != 2 {
		t.Errorf("types: %s", explain(ds))
	}
}

// TestFallbackTypes: an answer that cannot fit the step's type is told at
// validate, as far as its parts are known.
func TestFallbackTypes(t *testing.T) {
	t.Parallel()
	parse := func(ty, output string) Diagnostics {
		_, ds := parse1("step \"a\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n input = { t = \"x\" }\n output_type = " + ty + "\n fallback { output = " + output + " }\n}\n")
		return ds
	}
	const object = `object({ n = number, s = optional(string), l = optional(list(string)), o = optional(object({ x = bool })), a = optional(any), t = optional(tuple([string, number])), m = optional(map(number)) })`
	for _, c := range []struct{ ty, output, want string }{
		{object, `{ n = 1 }`, ""},
		{object, `{ n = step.a.output.n, s = null, l = ["x", step.a.output], o = { x = step.a.output } }`, ""},
		{object, `step.a.output`, ""},
		{object, `{ n = step.a.attempts, s = self.error.class, a = [step.a.output, 1] }`, ""},
		{object, `{ n = 1, t = ["a", step.a.output], m = { q = step.a.attempts } }`, ""},
		{object, `self.input`, "at /t: "},
		{object, `{}`, `the attribute "n" is missing, want number`},
		{object, `{ s = step.a.status }`, `the attribute "n" is missing, want number`},
		{object, `{ n = "1" }`, `at /n: want number, found string "1"`},
		{object, `{ n = step.a.status }`, `at /n: want number, found string`},
		{object, `{ n = null, s = step.a.status }`, `at /n: want number, found null`},
		{object, `{ n = 1, s = step.a.attempts }`, `at /s: want string, found number`},
		{object, `{ n = step.a.attempts, x = 1 }`, `at /x: the type has no such attribute`},
		{object, `{ n = 1, l = [step.a.attempts] }`, `at /l/0: want string, found number`},
		{object, `{ n = 1, l = step.a.status }`, `at /l: want list(string), found string`},
		{object, `{ n = 1, o = { y = step.a.degraded } }`, `at /o/y: the type has no such attribute`},
		{object, `{ n = 1, o = step.a.error }`, `at /o/class: the type has no such attribute`},
		{object, `{ n = 1, t = [step.a.status] }`, `at /t: want 2 elements, found 1`},
		{object, `{ n = 1, t = [step.a.status, step.a.status] }`, `at /t/1: want number, found string`},
		{object, `{ n = 1, m = { q = step.a.status } }`, `at /m/q: want number, found string`},
		{object, `{ n = 1, m = [step.a.status] }`, `at /m: want map(number), found tuple([string])`},
		{`string`, `{ a = step.a.output }`, `want string, found object`},
		{`list(object({ a = number }))`, `[{ a = step.a.attempts }, { b = step.a.attempts }]`, `at /1/b: the type has no such attribute`},
		{`any`, `{ a = step.a.output }`, ""},
	} {
		ds := parse(c.ty, c.output)
		if ds.HasErrors() != (c.want != "") || !strings.Contains(explain(ds), c.want) {
			t.Errorf("%s as %s: %s, want %q", c.output, c.ty, explain(ds), c.want)
		}
	}
}

// TestExclude: what is excluded is passed on and waited for, and counts nowhere.
func TestExclude(t *testing.T) {
	t.Parallel()
	flow := func(trace, exclude string) string {
		return "variable \"v\" { default = 1 }\nstep \"a\" { uses = plugin.p.run }\nstep \"b\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n for_each = [1]\n input = { text = step.a.output, \"trace tag\" = " + trace + ", é = 1 }\n checkpoint {\n reuse = always\n exclude = " + exclude + "\n}\n}\n"
	}
	base, facets := identityOf(t, flow(`"x"`, `["trace tag", "é"]`))
	if len(facets) != 1 || len(base.Attributes) != 1 {
		t.Errorf("%+v %+v", facets, base.Attributes)
	}
	for _, trace := range []string{`"y"`, `timestamp()`, `run.id`, `var.v`, `each.value`, `step.b.output`, `[step.b.attempts, try(step.b.error.message, 1)]`} {
		w, ds := parse1(flow(trace, `["trace tag", "e\u0301"]`))
		if len(ds) > 0 {
			t.Fatal(explain(ds))
		}
		e := w.Evaluator(mustBind(t, w), testRun)
		id, ds := e.Identity(2)
		if diff := cmp.Diff(base, id); diff != "" || ds.HasErrors() {
			t.Errorf("%s counts: %s%s", trace, diff, explain(ds))
		}
		if d, _ := e.EachIdentity(2, []Each{{Value: json.RawMessage(`1`)}}); !d.IsZero() {
			t.Errorf("%s counts in the instance", trace)
		}
		if s := w.Steps[2]; s.KeyFacets != 1 || strings.Contains(trace, "step.b") != (len(s.Facets) > 1) {
			t.Errorf("facets of %s: %+v", trace, s.Facets)
		}
		in, ds := e.Input(2, Scope{Up: answers(`"t"`), Each: []Each{{Value: json.RawMessage(`1`)}}})
		if got, _ := e.KeyInput(2, in, Scope{}); string(got) != `{"text":"t"}` || !strings.Contains(string(in), `"trace tag":`) {
			t.Errorf("%s, key %s%s", in, got, explain(ds))
		}
	}
	for exclude, want := range map[string]string{`["txet"]`: `Did you mean "text"?`, `"text"`: "must be a list", `[1]`: "strings that are not empty", `[""]`: "strings that are not empty", `[var.v]`: "must be constant"} {
		if _, ds := parse1(flow(`1`, exclude)); !strings.Contains(explain(ds), want) {
			t.Errorf("%s: %s", exclude, explain(ds))
		}
	}
	for _, input := range []string{`merge({}, {})`, `{ (run.id) = 1 }`, `step.a.output`} {
		if _, ds := parse1("step \"a\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n input = " + input + "\n checkpoint { exclude = [\"a\"] }\n}\n"); !hasCode(ds, "invalid-exclude") {
			t.Errorf("%s: %s", input, explain(ds))
		}
	}
}

// TestChecksIdentity: checks are part of the identity, postconditions judge again.
func TestChecksIdentity(t *testing.T) {
	t.Parallel()
	id := func(args string, vars ...string) Identity {
		i, _ := identityOf(t, "variable \"v\" { default = 1 }\nplugin \"q\" {\n source = \"x\"\n config = { v = var.v }\n}\nstep \"z\" {\n uses = plugin.p.run\n"+args+"}\n", vars...)
		return i
	}
	plain := id("")
	check := func(uses, input string, vars ...string) Identity {
		return id(" check {\n uses = plugin."+uses+"\n input = "+input+"\n}\n", vars...)
	}
	seen := map[sdk.Digest]string{plain.Checks: "none"}
	for _, c := range [][3]string{{"p.j", `{}`, "v=1"}, {"p.k", `{}`, "v=1"}, {"p.j", `{ x = self.output }`, "v=1"}, {"p.j", `{ x = self.input }`, "v=1"}, {"p.j", `{ x = var.v }`, "v=1"}, {"p.j", `{ x = var.v }`, "v=2"}, {"q.j", `{}`, "v=1"}, {"q.j", `{}`, "v=2"}} {
		got := check(c[0], c[1], c[2])
		if seen[got.Checks] != "" {
			t.Errorf("%s and %s are equal", c, seen[got.Checks])
		}
		seen[got.Checks] = fmt.Sprint(c)
		if got.Input != plain.Input || got.Judge != plain.Judge {
			t.Errorf("%s counts elsewhere", c)
		}
	}
	if !plain.Judge.IsZero() || !plain.Checks.IsZero() || !check("p.j", `{ x = run.id }`).RunBound {
		t.Errorf("%+v", plain)
	}
	post := func(condition, message string, vars ...string) sdk.Digest {
		got := id(" postcondition {\n condition = "+condition+"\n error_message = "+message+"\n}\n", vars...)
		if got.Checks != plain.Checks || got.Input != plain.Input || len(got.Values) > 0 {
			t.Errorf("%s counts elsewhere: %+v", condition, got)
		}
		return got.Judge
	}
	a := post(`self.output.n > var.v`, `"a"`)
	if a.IsZero() || a != post(`(self.output["n"] > var.v)`, `"another ${var.v}"`) || a == post(`self.output.n > var.v`, `"a"`, "v=2") || a == post(`self.output.n >= var.v`, `"a"`) {
		t.Error("a postcondition is its condition with the values it names")
	}
	for _, setting := range []string{" fallback { last = true }\n", " concurrency = 2\n for_each = [1]\n", " on_failure = skip\n", " precondition {\n condition = var.v == 1\n error_message = \"x\"\n}\n", " sandbox { memory = \"1MiB\" }\n", " budget { calls = 1 }\n", " checkpoint {\n keep = 2\n redact = [\"x\"]\n}\n"} {
		got := id(setting)
		got.ForEach = sdk.Digest{}
		if diff := cmp.Diff(plain, got); diff != "" {
			t.Errorf("%s counts: %s", setting, diff)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1B": 1, "64MiB": 64 << 20, "64 KiB": 64 << 10, "1024GiB": 1 << 40, "0007B": 7} {
		if got, err := parseSize(text); got != want || err != nil {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", "64", "64MB", "64M", "-1B", "1.5GiB", "1025GiB", "9999999999999GiB", "99999999999999B", "0B", "1  KiB", "1KiB ", "１KiB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		constraint, engine string
		ok                 bool
	}{
		{">= 1.2", "1.2.0", true}, {">= 1.2", "v1.10.1", true}, {">= 1.2", "1.1.9", false}, {"~> 1.4", "1.9.0", true}, {"~> 1.4", "2.0.0", false},
		{">= 1.2, < 2.0", "2.1.0", false}, {">= 1.2", "1.2.0-rc1", true}, {">= 9", "(devel)", true}, {">= 9", "", true},
	} {
		w, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte("workflow \"w\" {\n required_version = \"" + c.constraint + "\"\n}\n")}})
		if ds.HasErrors() || w.RequiredVersion != c.constraint {
			t.Fatalf("%q %s", w.RequiredVersion, explain(ds))
		}
		if ds := w.CheckVersion(c.engine); ds.HasErrors() == c.ok || !c.ok && (ds[0].Subject.Start.Line != 2 || !strings.Contains(explain(ds), c.engine)) {
			t.Errorf("%s with engine %s: %s", c.constraint, c.engine, explain(ds))
		}
	}
	if ds := mustLoad(t, "").CheckVersion("0.1.0"); ds.HasErrors() {
		t.Errorf("no constraint: %s", explain(ds))
	}
}

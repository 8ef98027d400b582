package hcl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/retrace-dev/engine/sdk"
)

const eachFlow = `
step "a" { uses = plugin.p.run }
step "z" {
  uses     = plugin.p.run
  for_each = step.a.output
  when     = each.value.on
  input    = { id = each.value.id, key = each.key, text = "${each.value.text}!", whole = each.value.doc, n = each.key + 1 }
  precondition {
    condition     = each.value.n > 0
    error_message = "n of ${each.key} is ${each.value.n}"
  }
  postcondition {
    condition     = self.output.id == each.value.id
    error_message = "not ${each.value.id}"
  }
  check {
    uses  = plugin.p.judge
    input = { want = each.value, got = self.output, in = self.input.id }
  }
  fallback {
    output = { id = each.value.id, why = self.error.class }
  }
  fallback {
    uses  = plugin.p.other
    input = { was = self.input, key = each.key }
  }
  checkpoint {
    salt = each.value.id
  }
}
`

// TestEach: each has its value wherever it is allowed, byte for byte where it
// stands alone.
func TestEach(t *testing.T) {
	t.Parallel()
	w, e := mustEvaluator(t, eachFlow)
	if s := w.Steps[1]; !s.ForEach || s.WhenDepth != 1 || !s.HasWhen || s.EachFacets != 1 || s.WhenFacets != 0 || s.KeyFacets != 1 {
		t.Errorf("%+v", s)
	}
	s := Scope{
		Up:    answers(`[]`),
		Each:  []Each{{Key: json.RawMessage(`3`), Value: json.RawMessage(`{"on":true,"id":1.50,"text":"e\u0301","doc":{"x": "e\u0301" },"n":0}`)}},
		Input: json.RawMessage(`{"id": 1.50}`), Output: json.RawMessage(`{"id":1.5, "t":"e\u0301"}`), Error: &sdk.Error{Class: sdk.ClassQuota},
	}
	if yes, ds := e.When(1, s); !yes || ds.HasErrors() {
		t.Errorf("when: %v %s", yes, explain(ds))
	}
	got := map[string]string{}
	collect := func(name string, b json.RawMessage, ds Diagnostics) { got[name] = string(b) + explain(ds) }
	in, ds := e.Input(1, s)
	collect("input", in, ds)
	in, ds = e.CheckInput(1, 0, s)
	collect("check", in, ds)
	in, ds = e.FallbackOutput(1, 0, s)
	collect("fallback", in, ds)
	in, ds = e.FallbackInput(1, 1, s)
	collect("other", in, ds)
	msg, ds := e.Precondition(1, s)
	collect("precondition", json.RawMessage(msg), ds)
	msg, ds = e.Postcondition(1, s)
	collect("postcondition", json.RawMessage(msg), ds)
	if diff := cmp.Diff(map[string]string{
		"input":         `{"id":1.50,"key":3,"n":4,"text":"é!","whole":{"x": "e\u0301" }}`,
		"check":         `{"got":{"id":1.5, "t":"e\u0301"},"in":1.50,"want":` + string(s.Each[0].Value) + `}`,
		"fallback":      `{"id":1.50,"why":"quota"}`,
		"other":         `{"key":3,"was":{"id": 1.50}}`,
		"precondition":  `n of 3 is 0`,
		"postcondition": ``,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What an element lacks is told like what an output lacks.
	s.Each[0].Value = json.RawMessage(`{"on":"yes"}`)
	if _, ds := e.When(1, s); !hasCode(ds, "wrong-type") {
		t.Errorf("a condition that is a string: %s", explain(ds))
	}
	if _, ds := e.Input(1, s); !strings.Contains(explain(ds), `each.value has no attribute "id"; it has on.`) {
		t.Errorf("a missing attribute: %s", explain(ds))
	}
}

// TestComputedIndex: an index that is computed takes its part, byte for byte where
// it stands alone, and means what HCL means by it.
func TestComputedIndex(t *testing.T) {
	t.Parallel()
	const list, object = `[{"t": "e\u0301", "n":1},null,[2.50]]`, `{"k": {"t": "e\u0301"}, "0": [1.0]}`
	for _, c := range []struct{ expr, key, output, want string }{
		{`step.y.output[each.key]`, `0`, list, `{"t": "e\u0301", "n":1}`},
		{`(step.y.output)[each.key].t`, `0`, list, `"e\u0301"`},
		{`"${step.y.output[each.key].t}!"`, `0`, list, `"é!"`},
		{`step.y.output[each.key][0]`, `2`, list, `2.50`},
		{`step.y.output[each.key].n + 1`, `0`, list, `2`},
		{`step.y.output[each.key]`, `1`, list, `null`},
		{`step.y.output["${each.key}"]`, `2`, list, `[2.50]`},
		{`step.y.output[each.key]`, `"k"`, object, `{"t": "e\u0301"}`},
		{`step.y.output[each.key].t`, `"k"`, object, `"e\u0301"`},
		{`step.y.output[each.key]`, `0`, object, `[1]`},
		{`step.y.output[each.key]`, `5`, list, ``},
		{`step.y.output[each.key]`, `0.5`, list, ``},
		{`step.y.output[each.key]`, `-1`, list, ``},
		{`step.y.output[each.key]`, `"none"`, object, ``},
		{`step.y.output[each.key].none`, `"k"`, object, ``},
		{`try(step.y.output[each.key].none, "none")`, `"k"`, object, `"none"`},
		{`step.y.output[each.key]`, `null`, list, ``},
		{`step.y.output[each.key]`, `[1]`, list, ``},
		{`step.t.output[each.key]`, `"k"`, `{"k":1}`, `1`},
		{`step.t.output[each.key] + 1`, `"k"`, `{"k":1}`, `2`},
		{`step.s.output[each.key]`, `0`, `["a"]`, ``},
	} {
		w, e := mustEvaluator(t, "step \"a\" { uses = plugin.p.run }\nstep \"y\" { uses = plugin.p.run }\nstep \"t\" {\n uses = plugin.p.run\n output_type = map(number)\n}\nstep \"s\" {\n uses = plugin.p.run\n output_type = set(string)\n}\nstep \"z\" {\n uses = plugin.p.run\n for_each = step.a.output\n input = { v = "+strings.ReplaceAll(c.expr, "step.s.output", "try(step.s.output)")+" }\n}\n")
		got, ds := e.Input(len(w.Steps)-1, Scope{Up: answers(c.output), Each: []Each{{Key: json.RawMessage(c.key)}}})
		if want := `{"v":` + c.want + `}`; c.want == "" && !ds.HasErrors() || c.want != "" && string(got) != want {
			t.Errorf("%s with %s: got %s, want %s%s", c.expr, c.key, got, want, explain(ds))
		}
	}
}

// TestEachIdentity: an instance is the parts of each that it names, by value.
func TestEachIdentity(t *testing.T) {
	t.Parallel()
	w, e := mustEvaluator(t, strings.Replace(eachFlow, `whole = each.value.doc, n = each.key + 1`, `m = try(each.value.maybe, 1)`, 1))
	id := func(key, value string) sdk.Digest {
		d, ds := e.EachIdentity(1, []Each{{Key: json.RawMessage(key), Value: json.RawMessage(value)}})
		if ds.HasErrors() || d.IsZero() {
			t.Fatalf("%s %s", d, explain(ds))
		}
		return d
	}
	base := id(`1`, `{"on":true,"id":1,"text":"x","n":5}`)
	for _, same := range []string{`{"on":true,"id":1.0,"text":"x","n":6}`, ` { "text":"\u0078", "id" : 1e0, "on":true, "other": [] }`} {
		if id(`1`, same) != base {
			t.Errorf("differs: %s", same)
		}
	}
	for _, other := range [][2]string{
		{`2`, `{"on":true,"id":1,"text":"x"}`}, {`"1"`, `{"on":true,"id":1,"text":"x"}`}, {`1`, `{"on":false,"id":1,"text":"x"}`}, {`1`, `{"on":true,"id":"1","text":"x"}`},
		{`1`, `{"on":true,"id":1,"text":"y"}`}, {`1`, `{"on":true,"id":1}`}, {`1`, `{"on":true,"id":1,"text":null}`}, {`1`, `{"on":true,"id":1,"text":"x","maybe":1}`},
		{`1`, `{"on":true,"id":{"a":1},"text":"x"}`}, {`1`, `{"on":true,"id":[1],"text":"x"}`}, {`1`, `{"on":true,"id":1,"text":"é"}`}, {`1`, `{"on":true,"id":1,"text":"e\u0301"}`},
	} {
		if id(other[0], other[1]) == base {
			t.Errorf("equal: %s", other)
		}
	}
	if id(`1`, `{"on":true,"id":1,"text":"é"}`) == id(`1`, `{"on":true,"id":1,"text":"e\u0301"}`) {
		t.Error("two texts that only normal form makes equal are the same instance")
	}
	a, b := strings.Repeat("1", 400), strings.Repeat("1", 399)+"2"
	if id(`1`, `{"on":true,"id":`+a+`,"text":"x"}`) == id(`1`, `{"on":true,"id":`+b+`,"text":"x"}`) {
		t.Error("two numbers that differ in the last of many digits are the same instance")
	}
	if d, ds := e.EachIdentity(0, nil); !d.IsZero() || ds.HasErrors() {
		t.Errorf("a step without for_each: %s %s", d, explain(ds))
	}
	salts := map[sdk.Digest]bool{}
	for _, v := range []string{`{"id":1}`, `{"id":2}`, `{"id":1.0}`} {
		d, ds := e.Salt(1, []Each{{Value: json.RawMessage(v)}})
		if ds.HasErrors() || d.IsZero() {
			t.Errorf("salt: %s", explain(ds))
		}
		salts[d] = true
	}
	if len(salts) != 2 {
		t.Errorf("%d different salts", len(salts))
	}
	if ident, ds := e.Identity(1); ds.HasErrors() || ident.Salt.IsZero() || salts[ident.Salt] {
		t.Errorf("the identity's salt: %+v %s", ident, explain(ds))
	}
	w2, e2 := mustEvaluator(t, "step \"z\" {\n uses = plugin.p.run\n for_each = [1, 1]\n input = { same = true }\n postcondition {\n condition = each.key == 0\n error_message = \"x\"\n}\n}\n")
	if d, _ := e2.EachIdentity(len(w2.Steps)-1, []Each{{Key: json.RawMessage(`1`), Value: json.RawMessage(`1`)}}); !d.IsZero() {
		t.Error("each in a postcondition counts")
	}
	if ident, _ := e.Identity(1); ident.ForEach.IsZero() || ident.Judge.IsZero() || ident.Checks.IsZero() || len(w.Steps[1].Checks) != 1 {
		t.Errorf("%+v", ident)
	}
}

// TestEachFiles: a path may follow from each, and the file is then part of the
// instance's identity.
func TestEachFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "en.txt", "one")
	write(t, dir, "de.txt", "eins")
	write(t, dir, "flow.hcl", header+"step \"z\" {\n uses = plugin.p.run\n for_each = toset([\"en\", \"de\"])\n input = { t = file(\"${each.key}.txt\") }\n}\nstep \"y\" {\n uses = plugin.p.run\n for_each = [1]\n input = { t = file(step.z.output[each.key]) }\n}\n")
	load := func() (*Evaluator, func(key string) sdk.Digest) {
		w, ds := Load(dir)
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		e := w.Evaluator(mustBind(t, w), testRun)
		return e, func(key string) sdk.Digest {
			d, ds := e.EachIdentity(0, []Each{{Key: json.RawMessage(key), Value: json.RawMessage(key)}})
			if ds.HasErrors() {
				t.Fatal(explain(ds))
			}
			return d
		}
	}
	e, id := load()
	en, de := id(`"en"`), id(`"de"`)
	if _, ds := e.Identity(0); ds.HasErrors() {
		t.Errorf("identity: %s", explain(ds))
	}
	if _, ds := e.EachIdentity(1, []Each{{Key: json.RawMessage(`0`), Value: json.RawMessage(`1`)}}); !hasCode(ds, "invalid-function-argument") {
		t.Errorf("a path that follows from an output: %s", explain(ds))
	}
	write(t, dir, "en.txt", "changed")
	_, id = load()
	if id(`"en"`) == en || id(`"de"`) != de {
		t.Error("the text of the instance's own file does not count, or that of another does")
	}
}

// TestInstancesFacets: the facets of a step with for_each have the collection's
// shape.
func TestInstancesFacets(t *testing.T) {
	t.Parallel()
	flow := func(forEach, input string) string {
		return "step \"y\" {\n uses = plugin.p.run\n for_each = " + forEach + "\n output_type = object({ n = number })\n}\nstep \"z\" {\n uses = plugin.p.run\n input = { v = " + input + " }\n}\n"
	}
	failed := &sdk.Error{Class: sdk.ClassQuota, Message: "no more"}
	instances := func(keys ...string) []InstanceResult {
		return []InstanceResult{
			{json.RawMessage(keys[0]), Result{State: sdk.Succeeded, Output: json.RawMessage(`{"n":1}`), Attempts: 2, Degraded: true}},
			{json.RawMessage(keys[1]), Result{State: sdk.Skipped, Error: failed, Attempts: 1}},
		}
	}
	list := Result{State: sdk.Succeeded, Output: json.RawMessage(`[{"n":1},null]`), Instances: instances(`0`, `1`), List: true}
	object := Result{State: sdk.Succeeded, Output: json.RawMessage(`{"a":{"n":1},"b":null}`), Instances: instances(`"a"`, `"b"`)}
	empty := Result{State: sdk.Succeeded, Output: json.RawMessage(`[]`), Instances: []InstanceResult{}, List: true}
	none := Result{State: sdk.Succeeded, Output: json.RawMessage(`{}`), Instances: []InstanceResult{}}
	whole := Result{State: sdk.Failed, Error: failed, Attempts: 1}
	for _, c := range []struct {
		res         Result
		expr, input string
		want        string
	}{
		{list, `[1, 2]`, `step.y.output`, `[{"n":1},null]`},
		{list, `[1, 2]`, `step.y.output[0].n`, `1`},
		{list, `[1, 2]`, `[for o in step.y.output : o.n if o != null]`, `[1]`},
		{list, `[1, 2]`, `try(step.y.output[1].n, "none")`, `"none"`},
		{list, `[1, 2]`, `step.y.status`, `["succeeded","skipped"]`},
		{list, `[1, 2]`, `[step.y.error[0] == null, step.y.error[1].class, step.y.attempts[1], step.y.degraded]`, `[true,"quota",1,[true,false]]`},
		{list, `[1, 2]`, `step.y.error[*].message`, ``},
		{object, `{ a = 1, b = 2 }`, `step.y.output["a"].n + 1`, `2`},
		{object, `{ a = 1, b = 2 }`, `step.y.output.a`, `{"n":1}`},
		{object, `{ a = 1, b = 2 }`, `[for k, o in step.y.output : k if o == null]`, `["b"]`},
		{object, `{ a = 1, b = 2 }`, `[step.y.status.a, step.y.status["b"], step.y.attempts]`, `["succeeded","skipped",{"a":2,"b":1}]`},
		{object, `{ a = 1, b = 2 }`, `step.y.error`, `{"a":null,"b":{"class":"quota","message":"no more"}}`},
		{empty, `var.x`, `[step.y.output, step.y.status, length(step.y.output)]`, `[[],[],0]`},
		{none, `var.x`, `[step.y.output, step.y.error]`, `[{},{}]`},
		{whole, `[1, 2]`, `[step.y.status, step.y.error.class, step.y.attempts, step.y.degraded, try(step.y.output, "none")]`, `["failed","quota",1,false,"none"]`},
	} {
		got, ds := inputOf(t, "variable \"x\" { default = [] }\n"+flow(c.expr, c.input), func(int) Result { return c.res })
		if want := `{"v":` + c.want + `}`; c.want == "" && !ds.HasErrors() || c.want != "" && got != want {
			t.Errorf("%s: got %s, want %s%s", c.input, got, want, explain(ds))
		}
	}
	// While types are checked, the collection is known too.
	for input, code := range map[string]string{
		`step.y.output.n`: "unsupported-attribute", `step.y.output[0].m`: "unsupported-attribute", `step.y.output + 1`: "invalid-operand", `step.y[0].output`: "invalid-step-reference",
	} {
		if _, ds := parse1(flow(`[1, 2]`, input)); !hasCode(ds, code) {
			t.Errorf("%s: %s", input, explain(ds))
		}
	}
	for input, want := range map[string]string{`step.y["k"].output`: `step.y.output["k"]`, `step.y[0].status`: `step.y.status[0]`, `step.y["k"].output.n`: `step.y.output["k"].n`} {
		if _, ds := parse1(flow(`{ k = 1 }`, input)); !strings.Contains(explain(ds), "Write "+want+".") {
			t.Errorf("%s: %s", input, explain(ds))
		}
	}
	// A chain: the element of the second is what one instance of the first answered.
	if _, ds := parse1(flow(`[1, 2]`, `1`) + "step \"x\" {\n uses = plugin.p.run\n for_each = step.y.output\n input = { v = each.value.m }\n}\n"); !hasCode(ds, "unsupported-attribute") {
		t.Errorf("the type of a paired element: %s", explain(ds))
	}
}

// TestEachPlaces: where each, self and attempt mean nothing, it is said where
// they do.
func TestEachPlaces(t *testing.T) {
	t.Parallel()
	step := func(args string) string { return "step \"z\" {\n uses = plugin.p.run\n" + args + "\n}\n" }
	for src, want := range map[string]string{
		step(" input = { x = each.value }"):                                                                           "this step has none. Write for_each",
		step(" when = each.key == 1"):                                                                                 "this step has none",
		step(" for_each = [1]\n input = { x = each.vaule }"):                                                          `Did you mean "value"?`,
		step(" for_each = [1]\n input = { x = each }"):                                                                "There is no each here. Each has key, value.",
		"locals { x = each.key }\n":                                                                                   "each.key cannot be used in a local",
		"output \"o\" { value = each.key }\n":                                                                         "cannot be used in an output",
		step(" input = { x = self.output }"):                                                                          "self.output cannot be used in an input",
		step(" for_each = [1]\n depends_on = [each.key]"):                                                             "Not a step",
		step(" when = attempt.number > 1"):                                                                            "It may stand in the input of a step",
		step(" postcondition {\n condition = self.input.x\n error_message = \"x\"\n}"):                                "There is no self.input.x here. Self has output.",
		step(" precondition {\n condition = self.output\n error_message = \"x\"\n}"):                                  "cannot be used in a precondition",
		step(" check {\n uses = plugin.p.j\n input = { x = self.error }\n}"):                                          "Self has input, output.",
		step(" fallback { output = { x = self.output } }"):                                                            "Self has input, error.",
		step(" for_each = [1]\n compensate {\n uses = plugin.p.j\n input = { x = each.key }\n}"):                      "each.key cannot be used in compensate",
		step(" compensate {\n uses = plugin.p.j\n input = { x = step.z.output }\n}"):                                  "sees nothing but the step that it undoes",
		step(" checkpoint { salt = self.input }"):                                                                     "cannot be used in a checkpoint's salt",
		"variable \"v\" {\n validation {\n condition = each.key\n error_message = \"x\"\n}\n}\n":                      "cannot be used in a validation",
		"action \"a\" {\n uses = plugin.p.a\n input = { x = attempt.number }\n}\n":                                    "cannot be used in an action",
		"step \"y\" { uses = plugin.p.run }\naction \"a\" {\n uses = plugin.p.a\n input = { x = step.y.output }\n}\n": "evaluated before any step has run",
	} {
		if _, ds := parse1(src); !ds.HasErrors() || !strings.Contains(explain(ds), want) {
			t.Errorf("%s: %s, want %q", src, explain(ds), want)
		}
	}
}

// TestAttempt: what the try before failed with is there for the next one, and in
// no key.
func TestAttempt(t *testing.T) {
	t.Parallel()
	src := "step \"z\" {\n uses = plugin.p.run\n input = { n = attempt.number, fix = attempt.last_error == null ? null : \"${attempt.last_error.class}/${attempt.last_error.code}: ${attempt.last_error.message}\", e = attempt.last_error }\n}\n"
	w, e := mustEvaluator(t, src)
	for _, c := range []struct {
		s    Scope
		want string
	}{
		{Scope{}, `{"e":null,"fix":null,"n":1}`},
		{Scope{Attempt: 3, LastError: &sdk.Error{Class: sdk.ClassValidation, Code: "c", Message: "不行"}}, `{"e":{"class":"validation","code":"c","details":null,"message":"不行"},"fix":"validation/c: 不行","n":3}`},
		{Scope{Attempt: 2, LastError: &sdk.Error{Class: sdk.ClassValidation, Details: json.RawMessage(`{"answer":"半","n":1.5}`)}}, `{"e":{"class":"validation","code":"","details":{"answer":"半","n":1.5},"message":""},"fix":"validation/: ","n":2}`},
	} {
		if got, ds := e.Input(len(w.Steps)-1, c.s); string(got) != c.want {
			t.Errorf("got %s, want %s%s", got, c.want, explain(ds))
		}
	}
	id, facets := identityOf(t, src)
	if len(id.Values) != 0 || len(facets) != 0 || id.RunBound {
		t.Errorf("%+v", id)
	}
	if _, ds := parse1("step \"z\" {\n uses = plugin.p.run\n input = { n = attempt.last_error.clas }\n}\n"); !strings.Contains(explain(ds), `Did you mean "class"?`) {
		t.Errorf("a misspelt part: %s", explain(ds))
	}
}

// TestFacetOrderOfAll: when, for_each, input, depends_on, and then what is in no
// key.
func TestFacetOrderOfAll(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for _, n := range strings.Split("w f i d c1 c2 q1 q2 k b1 b2", " ") {
		fmt.Fprintf(&steps, "step %q { uses = plugin.p.run }\n", n)
	}
	w := mustLoad(t, steps.String()+`
step "z" {
  uses       = plugin.p.run
  depends_on = [step.d]
  fallback {
    output = { x = try(step.b1.output, 1) }
  }
  fallback {
    uses  = plugin.p.o
    input = { x = step.b2.error }
  }
  check {
    uses  = plugin.p.j
    input = { x = step.k.output }
  }
  postcondition {
    condition     = step.q1.output
    error_message = step.q2.output
  }
  precondition {
    condition     = step.c1.status == "x"
    error_message = step.c2.output
  }
  input    = { x = step.i.output, e = each.key }
  for_each = step.f.output
  when     = step.w.output
}
`)
	s := w.Steps[len(w.Steps)-1]
	var got []string
	for _, f := range s.Facets {
		got = append(got, fmt.Sprintf("%s.%s %s", w.Steps[f.Step].Name, f.Facet, [...]string{"hard", "optional", "soft"}[f.Kind]))
	}
	want := []string{"w.output hard", "f.output hard", "i.output hard", "d.output hard", "c1.status soft", "c2.output hard", "q1.output hard", "q2.output hard", "k.output hard", "b1.output optional", "b2.error soft"}
	if !slices.Equal(got, want) || s.WhenFacets != 1 || s.EachFacets != 1 || s.KeyFacets != 4 || s.WhenDepth > 0 {
		t.Errorf("%d %d %d\n got %s\nwant %s", s.WhenFacets, s.EachFacets, s.KeyFacets, got, want)
	}
}

// TestLoopIdentity: spellings of a for_each and of parts of each.
func TestLoopIdentity(t *testing.T) {
	t.Parallel()
	id := func(forEach, input string, vars ...string) Identity {
		i, _ := identityOf(t, "variable \"n\" { default = 1 }\nlocals { l = [1, 2] }\nstep \"a\" { uses = plugin.p.run }\nstep \"b\" { uses = plugin.p.run }\nstep \"z\" {\n uses = plugin.p.run\n for_each = "+forEach+"\n input = { x = "+input+" }\n}\n", vars...)
		return i
	}
	for _, same := range [][4]string{
		{`[1, 2]`, `1`, `local.l`, `1`}, {`step.a.output`, `1`, `(step.b.output)`, `1`}, {`step.a.output`, `each.value.id`, `step.a.output`, `"${(each.value["id"])}"`},
	} {
		a, b := id(same[0], same[1]), id(same[2], same[3])
		if a.ForEach != b.ForEach || a.Input != b.Input {
			t.Errorf("different: %s", same)
		}
	}
	inputs := map[sdk.Digest]string{}
	for _, in := range []string{`each.key`, `each.value`, `each.value.key`, `each.value.id`, `each.value[0]`, `attempt.number`, `attempt.last_error`, `1`} {
		d := id(`step.a.output`, in).Input
		if inputs[d] != "" {
			t.Errorf("equal: %s and %s", in, inputs[d])
		}
		inputs[d] = in
	}
	if a, b := id(`range(var.n)`, `1`), id(`range(var.n)`, `1`, "n=2"); a.ForEach == b.ForEach || a.Input != b.Input || a.Values[0].Name != "var.n" {
		t.Error("the value of a variable that for_each names does not count, or counts for the input")
	}
}

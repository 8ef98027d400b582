package hcl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

const eachReview = `
step "draft" { uses = plugin.p.run }
step "review" {
  workflow = "./review.hcl"
  for_each = step.draft.output
  input    = { text = each.value.text }
}
step "publish" {
  uses  = plugin.p.run
  input = { all = step.review.output, one = step.review.output["b"].verdict, how = step.review.status }
}
`

// A sub-workflow with for_each is its steps, each with that for_each; inside they
// name the same instance, from outside the whole.
func TestSubflowForEachIsExpanded(t *testing.T) {
	t.Parallel()
	w := mustTree(t, eachReview, map[string]string{"review.hcl": reviewChild})
	var got []string
	for i := range w.Steps {
		s := &w.Steps[i]
		line := fmt.Sprintf("%s %v", s.Address(), s.ForEach)
		for k, f := range s.Facets {
			line += " " + strings.Repeat("=", f.Shared) + facetsOf(w, i)[k]
		}
		got = append(got, line)
	}
	want := []string{
		"step.draft false",
		"step.publish false step.draft.output step.review[*]/step.judge.output step.review[*]/step.judge.output step.review[*]/step.judge.status" +
			" step.draft.output step.review[*]/step.read.status step.review[*]/step.judge.status" +
			" step.draft.output step.review[*]/step.judge.output step.review[*]/step.judge.output step.review[*]/step.judge.status",
		"step.review[*]/step.read true step.draft.output",
		"step.review[*]/step.judge true step.draft.output =step.review[*]/step.read.output",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of an instance's input counts what the variables that it names were given, and
// is passed on as it was written.
func TestSubflowForEachValues(t *testing.T) {
	t.Parallel()
	const text = "cafe\u0301 \u202e\u4f60\u597d"
	w := mustTree(t, eachReview, map[string]string{"review.hcl": reviewChild})
	e := w.Evaluator(mustBind(t, w), testRun)
	read := stepNamed(t, w, "step.review[*]/step.read")
	digest := func(value string) sdk.Digest {
		d, ds := e.EachIdentity(read, []Each{{Key: json.RawMessage(`"k"`), Value: json.RawMessage(value)}})
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		return d
	}
	a := digest(`{"text":"a","at":1}`)
	if a != digest(`{"at":2,"text":"a"}`) || a == digest(`{"text":"b","at":1}`) || a.IsZero() {
		t.Error("not exactly each.value.text counts")
	}
	in, ds := e.Input(read, Scope{Each: []Each{{Key: json.RawMessage(`"k"`), Value: json.RawMessage(`{"text":"` + text + `"}`)}}})
	if want := `{"lang":"en","text":"` + text + `"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}

	ended := func(key string, state sdk.State) InstanceResult {
		return InstanceResult{json.RawMessage(key), Result{State: state, Attempts: 1}}
	}
	up := func(i int) Result {
		switch w.Steps[i].Address() {
		case "step.draft":
			return Result{State: sdk.Succeeded, Output: json.RawMessage(`{"b":{"text":"1"},"a":{"text":"2"}}`), Attempts: 1}
		case "step.review[*]/step.judge":
			return Result{
				State: sdk.Succeeded, Output: json.RawMessage(`{"a":null,"b":{"verdict":"` + text + `"}}`),
				Instances: []InstanceResult{ended(`"a"`, sdk.Skipped), ended(`"b"`, sdk.Succeeded)},
			}
		}
		return Result{State: sdk.Succeeded, Instances: []InstanceResult{ended(`"a"`, sdk.Succeeded), ended(`"b"`, sdk.Succeeded)}}
	}
	in, ds = e.Input(stepNamed(t, w, "step.publish"), Scope{Up: up})
	if want := `{"all":{"a":null,"b":{"all":{"verdict":"` + text + `"},"verdict":"` + text + `"}},"how":{"a":"skipped","b":"succeeded"},"one":"` + text + `"}`; ds.HasErrors() || string(in) != want {
		t.Errorf("the input is %s, want %s%s", in, want, explain(ds))
	}
}

// An attribute that names a secret counts by everything else that it names, also
// what an instance gives by way of a variable.
func TestSubflowForEachWithSecrets(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
secret "key" { env = "KEY" }
step "s" {
  workflow = "./child.hcl"
  for_each = ["a", "b"]
  input    = { token = "${each.value} ${secret.key}" }
}
`, map[string]string{"child.hcl": childHeader + "variable \"token\" {}\nstep \"a\" {\n  uses  = plugin.c.run\n  input = { t = \"Bearer ${var.token}\" }\n}\n"})
	e := w.Evaluator(mustBind(t, w), RunInfo{Key: []byte("k"), Secret: func(int) (string, bool, error) { return "hidden", true, nil }})
	step := stepNamed(t, w, "step.s[*]/step.a")
	key := func(value string) string {
		in, ds := e.KeyInput(step, nil, Scope{Each: []Each{{Key: json.RawMessage("0"), Value: json.RawMessage(value)}}})
		if ds.HasErrors() {
			t.Fatal(explain(ds))
		}
		return string(in)
	}
	if a := key(`"a"`); a == key(`"b"`) || strings.Contains(a, "hidden") || a != key(`"a"`) {
		t.Errorf("the keys are %s and %s", a, key(`"b"`))
	}
}

// What all instances are made of is not evaluated again for each of them.
func TestSubflowForEachIsBounded(t *testing.T) {
	t.Parallel()
	w := mustTree(t, `
variable "n" { default = 1 }
step "s" {
  workflow = "./child.hcl"
  for_each = range(1000)
  input    = { n = each.value }
}
output "o" { value = length(step.s.output) }
`, map[string]string{"child.hcl": childHeader + "variable \"n\" {}\nstep \"a\" { uses = plugin.c.run }\noutput \"r\" { value = join(\"\", [for i in range(1000) : \"${i} ${var.n} ${step.a.output}\"]) }\n"})
	e := w.Evaluator(mustBind(t, w), testRun)
	all := make([]InstanceResult, 1000)
	for k := range all {
		all[k].State = sdk.Succeeded
	}
	out := json.RawMessage("[" + strings.Repeat("1,", 999) + "1]")
	_, ds := e.Output(0, func(int) Result {
		return Result{State: sdk.Succeeded, Output: out, Instances: all, List: true}
	})
	if !ds.HasErrors() || ds[0].Code != "evaluation-limit" {
		t.Errorf("a million rounds were made%s", explain(ds))
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ address, step, name string }{
		{"step.a", "step.a", ""},
		{"step.a[0]", "step.a", "0"},
		{`step.a["k"]`, "step.a", `"k"`},
		{`step.报告["第一/章]\""]`, "step.报告", `"第一/章]\""`},
		{`step.a["\u006b"]`, "step.a", `"k"`},
		{`step.a["k"]/step.b/step.c`, "step.a[*]/step.b/step.c", `"k"`},
		{"step.a[*]/step.b", "step.a[*]/step.b", ""},
		{"step.a/step.b[3]", "step.a/step.b", "3"},
	} {
		step, name, err := SplitAddress(c.address)
		if err != nil || step != c.step || name != c.name {
			t.Errorf("%s is %s and %s, %v", c.address, step, name, err)
		}
		back := InstanceAddress(step, name)
		if again, key, err := SplitAddress(back); err != nil || again != step || key != name {
			t.Errorf("%s became %s: %s %s, %v", c.address, back, again, key, err)
		}
		for _, named := range []string{back, step, strings.ReplaceAll(step, AllInstances, "")} {
			if !Covers(named, back) {
				t.Errorf("%s does not cover %s", named, back)
			}
		}
		if Covers("step.other", back) || Covers(back+"x", back) {
			t.Errorf("something else covers %s", back)
		}
	}
	if !Covers("step.a", `step.a["k"]/step.b`) || !Covers(`step.a["k"]`, `step.a["k"]/step.b`) || Covers(`step.a["j"]`, `step.a["k"]/step.b`) || !Covers("step.a", "step.a/step.b") {
		t.Error("a sub-workflow covers what is inside, an instance what is inside of it")
	}
	for _, bad := range []string{"step.a[", "step.a[k]", "step.a[0", `step.a["k`, "step.a[-1]", `step.a["k"]x`, "step.a[0]x", "step.a[]"} {
		if step, name, err := SplitAddress(bad); err == nil || !strings.Contains(err.Error(), "step.NAME[0]") {
			t.Errorf("%s is %s and %s", bad, step, name)
		}
	}
}

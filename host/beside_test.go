package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// tree applies a flow with other flows beside it: text without the blocks that all
// of them share.
func (s *scene) tree(text string, files map[string]string, o Options, ro RunOptions) (*Result, error) {
	s.t.Helper()
	dir := s.t.TempDir()
	shared := "\nplugin \"p\" { source = \"./p.wasm\" }\n"
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("workflow \"child\" {}"+shared+body), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "flow.hcl")
	if !strings.HasPrefix(text, "workflow ") {
		text = "workflow \"w\" {}\n" + text
	}
	if err := os.WriteFile(path, []byte(text+shared), 0o600); err != nil {
		s.t.Fatal(err)
	}
	wf, diags := hcl.Load(path)
	if diags.HasErrors() {
		s.t.Fatal(diags)
	}
	f, diags := Compile(wf, dir, []loader.Loader{s})
	if diags.HasErrors() {
		s.t.Fatal(diags)
	}
	v, diags := wf.Bind(hcl.BindOptions{})
	if diags.HasErrors() {
		s.t.Fatal(diags)
	}
	if o.Store == nil {
		o.Store = s.store
	}
	h, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return h.Apply(context.Background(), f, v, ro)
}

// treeEnds is tree for a run that is expected to end with status.
func (s *scene) treeEnds(status checkpoint.RunStatus, text string, files map[string]string, ro RunOptions) *Result {
	s.t.Helper()
	res, err := s.tree(text, files, Options{}, ro)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.Run.Status != status {
		s.t.Fatalf("the run %s: %+v", res.Run.Status, res.Failures)
	}
	return res
}

// chain is a sub-workflow of three steps, each of which names the one before.
var chain = map[string]string{"chain.hcl": `
variable "v" { type = string }
step "a" {
  uses  = plugin.p.echo
  input = { v = { text = var.v } }
}
step "b" {
  uses  = plugin.p.echo
  input = { v = "${step.a.output.text}!" }
}
step "c" {
  uses  = plugin.p.echo
  when  = step.b.output != "no!"
  input = { v = "${step.b.output}?" }
}
output "text" { value = step.c.output }
output "of" { value = var.v }
`}

func eachOf(collection, more string) string {
	return `locals { all = ` + collection + ` }
step "s" {
  workflow = "./chain.hcl"
  for_each = local.all
  input    = { v = each.value }
  ` + more + `
}
step "end" {
  uses  = plugin.p.echo
  input = { v = [for k, o in step.s.output : try(o.text, "-")] }
}
output "all" { value = step.s.output }
output "status" { value = step.s.status }
output "end" { value = try(step.end.output, "none") }
`
}

// The instances of a sub-workflow give a collection of the shape of its for_each;
// one of whose outputs a step was skipped is null.
func TestSubflowForEachShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ collection, all, status, end string }{
		{`["x", "第一"]`, `[{"of":"x","text":"x!?"},{"of":"第一","text":"第一!?"}]`, `["succeeded","succeeded"]`, `["x!?","第一!?"]`},
		{`{ "k/[0]\"" = "x", b = "no" }`, `{"b":null,"k/[0]\"":{"of":"x","text":"x!?"}}`, `{"b":"skipped","k/[0]\"":"succeeded"}`, `["-","x!?"]`},
		{`toset(["b", "a"])`, `{"a":{"of":"a","text":"a!?"},"b":{"of":"b","text":"b!?"}}`, `{"a":"succeeded","b":"succeeded"}`, `["a!?","b!?"]`},
		{`[]`, `[]`, `[]`, `[]`},
		{`{}`, `{}`, `{}`, `[]`},
	} {
		s := newScene(t)
		res := s.treeEnds(checkpoint.RunSucceeded, eachOf(c.collection, ""), chain, RunOptions{})
		wantOutput(t, res, "all", c.all)
		wantOutput(t, res, "status", c.status)
		wantOutput(t, res, "end", c.end)
		s.called()
		if again := s.treeEnds(checkpoint.RunSucceeded, eachOf(c.collection, ""), chain, RunOptions{}); again.Opened {
			t.Errorf("%s: apply after success opened a run", c.collection)
		}
		s.wantCalls("again, " + c.collection)
	}
}

// A failing instance holds no other up: those go through all steps, and apply goes
// on in the middle of the one that failed.
func TestSubflowForEachResumes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.failing(sdk.ClassInternal, `s["y"]/step.b`)
	text := eachOf(`{ x = "x", y = "y", z = "z" }`, "")
	first := s.treeEnds(checkpoint.RunFailed, text, chain, RunOptions{})
	s.wantCalls("first", `s["x"]/step.a`, `s["x"]/step.b`, `s["x"]/step.c`, `s["y"]/step.a`, `s["y"]/step.b`, `s["z"]/step.a`, `s["z"]/step.b`, `s["z"]/step.c`)
	if len(first.Failures) != 1 || first.Failures[0].Step != `step.s["y"]/step.b` {
		t.Fatalf("%+v", first.Failures)
	}
	wantOutput(t, first, "status", `{"x":"succeeded","y":"failed","z":"succeeded"}`)
	s.run = nil
	second := s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
	s.wantCalls("second", "end", `s["y"]/step.b`, `s["y"]/step.c`)
	wantOutput(t, second, "end", `["x!?","y!?","z!?"]`)
}

// Instances are their own computations: an element more, or at another place, runs
// that instance alone, in every step.
func TestSubflowForEachGrows(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.treeEnds(checkpoint.RunSucceeded, eachOf(`["x", "y"]`, ""), chain, RunOptions{})
	s.called()
	res := s.treeEnds(checkpoint.RunSucceeded, eachOf(`["new", "x", "y"]`, ""), chain, RunOptions{})
	s.wantCalls("grown", "end", "s[0]/step.a", "s[0]/step.b", "s[0]/step.c")
	wantOutput(t, res, "end", `["new!?","x!?","y!?"]`)
	res = s.treeEnds(checkpoint.RunSucceeded, eachOf(`["y", "x"]`, ""), chain, RunOptions{})
	s.wantCalls("turned round", "end")
	wantOutput(t, res, "end", `["y!?","x!?"]`)
	res = s.treeEnds(checkpoint.RunSucceeded, eachOf(`["x", "x"]`, ""), chain, RunOptions{})
	wantOutput(t, res, "end", `["x!?","x!?"]`)
}

// A step of the sub-workflow that is edited runs with its downstream, and what is
// above is taken from its record, instance by instance.
func TestSubflowForEachEdited(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := eachOf(`{ x = "x", no = "no" }`, "")
	s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
	s.called()
	edited := map[string]string{"chain.hcl": strings.Replace(chain["chain.hcl"], `}?"`, `}??"`, 1)}
	res := s.treeEnds(checkpoint.RunSucceeded, text, edited, RunOptions{})
	s.wantCalls("edited", "end", `s["x"]/step.c`)
	wantOutput(t, res, "end", `["-","x!??"]`)
	if res.Counts.Reused == 0 || res.Counts.Skipped != 1 {
		t.Errorf("%+v", res.Counts)
	}
}

// The addresses of instances, of steps of all instances and of sub-workflows work
// wherever a step is named.
func TestSubflowForEachAddresses(t *testing.T) {
	t.Parallel()
	text := eachOf(`{ x = "x", y = "y" }`, "")
	for _, c := range []struct {
		name string
		o    RunOptions
		want []string
	}{
		{"rerun an instance of a step", RunOptions{Rerun: []string{`step.s["x"]/step.b`}}, []string{`s["x"]/step.b`}},
		{"rerun a step", RunOptions{Rerun: []string{`s/step.b`}}, []string{`s["x"]/step.b`, `s["y"]/step.b`}},
		{"rerun a step, all spelled out", RunOptions{Rerun: []string{`step.s[*]/step.b`}}, []string{`s["x"]/step.b`, `s["y"]/step.b`}},
		{"rerun an instance", RunOptions{Rerun: []string{`s["y"]`}}, []string{`s["y"]/step.a`, `s["y"]/step.b`, `s["y"]/step.c`}},
		{"rerun the sub-workflow", RunOptions{Rerun: []string{`s`}}, []string{`s["x"]/step.a`, `s["x"]/step.b`, `s["x"]/step.c`, `s["y"]/step.a`, `s["y"]/step.b`, `s["y"]/step.c`}},
		{"from an instance", RunOptions{From: []string{`s["x"]/step.b`}}, []string{"end", `s["x"]/step.b`, `s["x"]/step.c`}},
		{"set an instance", RunOptions{Set: map[string]json.RawMessage{`s["x"]/step.b`: json.RawMessage(`"given"`)}}, []string{"end", `s["x"]/step.c`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
			s.called()
			s.treeEnds(checkpoint.RunSucceeded, text, chain, c.o)
			s.wantCalls(c.name, c.want...)
		})
	}
	s := newScene(t)
	if _, err := s.tree(text, chain, Options{}, RunOptions{Set: map[string]json.RawMessage{"s": json.RawMessage(`{}`)}}); err == nil || !strings.Contains(err.Error(), "step.s[*]/step.a, step.s[*]/step.b") {
		t.Errorf("an answer for a sub-workflow: %v", err)
	}
	if _, err := s.tree(text, chain, Options{}, RunOptions{Rerun: []string{`s["x"]/step.bb`}}); err == nil || !strings.Contains(err.Error(), "step.s[*]/step.b") {
		t.Errorf("a step that is not there: %v", err)
	}
	s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{Targets: []string{"s/step.a"}})
	s.wantCalls("a target", `s["x"]/step.a`, `s["y"]/step.a`)
}

// Failures that count as skips, and answers for what is absent, are those of one
// instance.
func TestSubflowForEachFallback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ more, all, status, degraded string }{
		{`on_failure = "skip"`, `{"x":null,"y":{"of":"y","text":"y!?"}}`, `{"x":"skipped","y":"succeeded"}`, `{"x":false,"y":false}`},
		{`fallback {
    output = { text = "instead of ${each.key}", of = null }
  }`, `{"x":{"of":"x","text":"instead of x"},"y":{"of":"y","text":"y!?"}}`, `{"x":"succeeded","y":"succeeded"}`, `{"x":true,"y":false}`},
	} {
		s := newScene(t)
		s.failing(sdk.ClassInternal, `s["x"]/step.b`)
		text := eachOf(`{ x = "x", y = "y" }`, c.more) + "output \"degraded\" { value = step.s.degraded }\noutput \"error\" { value = step.s.error[\"x\"].class }\n"
		res := s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
		wantOutput(t, res, "all", c.all)
		wantOutput(t, res, "status", c.status)
		wantOutput(t, res, "degraded", c.degraded)
	}
}

// Conditions and bounds of the step around are those of each instance.
func TestSubflowForEachConditions(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	res := s.treeEnds(checkpoint.RunSucceeded, eachOf(`{ x = "x", y = "y" }`, `when = each.key != "x"
  concurrency = 1`), chain, RunOptions{})
	s.wantCalls("a condition on each", "end", `s["y"]/step.a`, `s["y"]/step.b`, `s["y"]/step.c`)
	wantOutput(t, res, "all", `{"x":null,"y":{"of":"y","text":"y!?"}}`)
	res = s.treeEnds(checkpoint.RunSucceeded, eachOf(`{ x = "x", y = "y" }`, `when = length(local.all) > 5`), chain, RunOptions{})
	s.wantCalls("a condition on all")
	wantOutput(t, res, "end", `"none"`)
}

// A loop inside of a loop can be written with keys of both, at the price of a barrier:
// the inner elements are known only when the outer steps have ended.
func TestLoopsInsideOfLoops(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.failing(sdk.ClassInternal, `sum["b/1"]`)
	flow := `
step "read" {
  for_each = { a = [], b = ["x", "y"], c = ["z"] }
  uses     = plugin.p.echo
  input    = { v = { chapters = each.value } }
}
locals {
  chapters = merge([for k, b in step.read.output : { for i, c in b.chapters : "${k}/${i}" => { book = k, text = c } }]...)
}
step "sum" {
  for_each   = local.chapters
  uses       = plugin.p.echo
  on_failure = "skip"
  input      = { v = "${each.value.text}!" }
}
locals {
  sums = { for k, b in step.read.output : k => [for key, c in local.chapters : step.sum.output[key] if c.book == k] }
}
output "sums" { value = local.sums }
`
	wantOutput(t, s.succeeds(flow), "sums", `{"a":[],"b":["x!",null],"c":["z!"]}`)
	s.run = nil
	s.called()
	wantOutput(t, s.succeeds(flow), "sums", `{"a":[],"b":["x!","y!"],"c":["z!"]}`)
	s.wantCalls("what had failed", `sum["b/1"]`)
}

// One instance as the target: what it needs of the same key, and of other steps what
// it names. A collection that is not whole is none, for outputs and later runs.
func TestTargetOfOneInstance(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	flow := eachOf(`{ x = "x", y = "y" }`, "")
	res := s.treeEnds(checkpoint.RunSucceeded, flow, chain, RunOptions{Targets: []string{`s["x"]/step.b`}})
	s.wantCalls("one step of one instance", `s["x"]/step.a`, `s["x"]/step.b`)
	if c := res.Counts; c.Ran != 2 || c.Cancelled != 0 || c.Failed != 0 {
		t.Errorf("the counts are %+v", c)
	}
	for _, o := range res.Outputs {
		if o.Name == "all" && (o.Value != nil || o.Unavailable == "") {
			t.Errorf("the output is %s %s", o.Value, o.Unavailable)
		}
	}
	s.treeEnds(checkpoint.RunSucceeded, flow, chain, RunOptions{Targets: []string{`s["x"]`}, Rerun: []string{`s["y"]/step.a`}})
	s.wantCalls("the rest of the instance, and what was asked for besides", `s["x"]/step.c`, `s["y"]/step.a`)
	res = s.treeEnds(checkpoint.RunSucceeded, flow, chain, RunOptions{})
	s.wantCalls("all", "end", `s["y"]/step.b`, `s["y"]/step.c`)
	wantOutput(t, res, "all", `{"x":{"of":"x","text":"x!?"},"y":{"of":"y","text":"y!?"}}`)

	s.failing(sdk.ClassInternal, `s["x"]/step.b`)
	s.store = checkpoint.NewMemoryStore()
	s.treeEnds(checkpoint.RunFailed, flow, chain, RunOptions{Targets: []string{`s["x"]`}})
	for _, ro := range []RunOptions{{Targets: []string{`s["z"]`}}, {Rerun: []string{`s["z"]/step.a`}}, {From: []string{`s["z"]/step.a`}}, {Set: map[string]json.RawMessage{`s["z"]/step.a`: json.RawMessage(`1`)}}} {
		_, err := s.tree(flow, chain, Options{}, ro)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), `has no instance "z"`) {
			t.Errorf("%+v: %v", ro, err)
		}
	}
}

// As many instances are under way as the step around says, whichever of their steps
// they are at; a place is free while an instance waits for a step outside.
func TestSubflowForEachConcurrency(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var mu sync.Mutex
	under, most := map[string]bool{}, 0
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Instance != "" {
			mu.Lock()
			defer mu.Unlock()
			under[req.Instance] = true
			if most = max(most, len(under)); strings.HasSuffix(req.Step, "/step.c") {
				delete(under, req.Instance)
			}
		}
		return nil, nil
	}
	s.treeEnds(checkpoint.RunSucceeded, eachOf(`{ for k in range(20) : "k${k}" => "x" }`, `concurrency = 2`), chain, RunOptions{})
	if most > 2 || len(s.called()) != 61 {
		t.Errorf("%d were under way", most)
	}

	s = newScene(t)
	second := make(chan struct{})
	s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch {
		case req.Step == "step.late":
			select {
			case <-second:
			case <-ctx.Done():
				return nil, sdk.Ended(ctx)
			}
		case req.Instance == "1" && strings.HasSuffix(req.Step, "/step.a"):
			close(second)
		}
		return nil, nil
	}
	s.treeEnds(checkpoint.RunSucceeded, `
step "late" {
  uses  = plugin.p.echo
  input = { v = "late" }
}
step "s" {
  workflow    = "./two.hcl"
  for_each    = ["x", "y"]
  concurrency = 1
  input       = { v = each.value, late = step.late.output }
}
`, map[string]string{"two.hcl": `
variable "v" { type = string }
variable "late" { type = string }
step "a" {
  uses  = plugin.p.echo
  input = { v = var.v }
}
step "b" {
  uses  = plugin.p.echo
  input = { v = "${step.a.output} ${var.late}" }
}
`}, RunOptions{})
	s.wantCalls("all", "late", "s[0]/step.a", "s[0]/step.b", "s[1]/step.a", "s[1]/step.b")
}

// In loops inside of loops max_instances bounds each collection, and the concurrency of
// an inner step its instances in each instance of the sub-workflow.
func TestNestedLimits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var mu sync.Mutex
	under, most := map[string]int{}, 0
	both := make(chan struct{})
	s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		outer := hcl.FirstKeys(req.Instance, 1)
		mu.Lock()
		under[outer]++
		most = max(most, under[outer])
		if len(under) == 2 {
			select {
			case <-both:
			default:
				close(both)
			}
		}
		mu.Unlock()
		select { // both collections go on at once
		case <-both:
		case <-ctx.Done():
			return nil, sdk.Ended(ctx)
		}
		mu.Lock()
		under[outer]--
		mu.Unlock()
		return nil, nil
	}
	files := map[string]string{"inner.hcl": `
variable "n" { type = number }
step "a" {
  uses        = plugin.p.echo
  for_each    = range(var.n)
  concurrency = 1
  input       = { v = each.value }
}
output "all" { value = step.a.output }
`}
	flow := func(counts string) string {
		return `step "s" {
  workflow = "./inner.hcl"
  for_each = ` + counts + `
  input    = { n = each.value }
}
output "all" { value = step.s.output }
`
	}
	wantOutput(t, s.treeEnds(checkpoint.RunSucceeded, flow(`{ x = 3, y = 2 }`), files, RunOptions{}), "all", `{"x":{"all":[0,1,2]},"y":{"all":[0,1]}}`)
	if most != 1 {
		t.Errorf("%d of one collection at once", most)
	}
	s.run = nil
	res := s.treeEnds(checkpoint.RunFailed, "workflow \"w\" { max_instances = 3 }\n"+flow(`{ x = 3, y = 4, z = 3 }`), files, RunOptions{})
	if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Step, `s["y"]/step.a`) || !strings.Contains(res.Failures[0].Error.Message, "max_instances") {
		t.Errorf("one collection has too many: %+v", res.Failures)
	}
}

// An instance of the last step runs before the first step is done with all: the
// instances are chains of their own.
func TestSubflowForEachHasNoBarrier(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	done := make(chan struct{})
	s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch hcl.InstanceAddress(req.Step, req.Instance) {
		case "step.s[0]/step.c":
			close(done)
		case "step.s[1]/step.a":
			select {
			case <-done:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	}
	s.treeEnds(checkpoint.RunSucceeded, eachOf(`["x", "y"]`, ""), chain, RunOptions{})
}

// What for_each of the step around follows is followed by every step inside,
// instance by instance; and a sub-workflow inside of it has its instances too.
func TestSubflowForEachFollows(t *testing.T) {
	t.Parallel()
	files := map[string]string{"chain.hcl": chain["chain.hcl"], "outer.hcl": `
variable "w" {}
step "in" {
  workflow = "./chain.hcl"
  input    = { v = var.w.name }
}
step "out" {
  uses       = plugin.p.echo
  depends_on = [step.in]
  input      = { v = "${step.in.output.text} ${step.in.status}" }
}
output "r" { value = step.out.output }
`}
	text := `step "y" {
  uses     = plugin.p.echo
  for_each = ["p", "q"]
  input    = { v = { name = each.value } }
}
step "s" {
  workflow = "./outer.hcl"
  for_each = step.y.output
  input    = { w = each.value }
}
output "all" { value = step.s.output[*].r }
output "one" { value = step.s.output[1].r }
`
	s := newScene(t)
	res := s.treeEnds(checkpoint.RunSucceeded, text, files, RunOptions{})
	wantOutput(t, res, "all", `["p!? succeeded","q!? succeeded"]`)
	wantOutput(t, res, "one", `"q!? succeeded"`)
	s.wantCalls("first", "s[0]/step.in/step.a", "s[0]/step.in/step.b", "s[0]/step.in/step.c", "s[0]/step.out",
		"s[1]/step.in/step.a", "s[1]/step.in/step.b", "s[1]/step.in/step.c", "s[1]/step.out", "y[0]", "y[1]")
	s.treeEnds(checkpoint.RunSucceeded, text, files, RunOptions{Rerun: []string{"s[1]/step.in/step.a"}})
	s.wantCalls("one again", "s[1]/step.in/step.a")
}

// A run that ends after any of its calls is gone on with: it gives what an
// undisturbed one does, and no call that was answered is made again.
func TestSubflowForEachGoesOn(t *testing.T) {
	t.Parallel()
	text := eachOf(`{ x = "x", no = "no", z = "z" }`, "")
	whole := newScene(t)
	want := whole.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
	for k := range whole.called() {
		s := newScene(t)
		var answered []string
		s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(answered) == k {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "no more"}
			}
			answered = append(answered, strings.TrimPrefix(hcl.InstanceAddress(req.Step, req.Instance), "step."))
			return nil, nil
		}
		if first, err := s.tree(text, chain, Options{Concurrency: 1 + k%3}, RunOptions{}); err != nil || first.Run.Status != checkpoint.RunFailed {
			t.Fatalf("after %d calls: %v %+v", k, err, first)
		}
		s.called()
		s.run = nil
		res := s.treeEnds(checkpoint.RunSucceeded, text, chain, RunOptions{})
		for i := range want.Outputs {
			if d := cmp.Diff(string(want.Outputs[i].Value), string(res.Outputs[i].Value)); d != "" {
				t.Errorf("after %d calls: %s", k, d)
			}
		}
		for _, again := range s.called() {
			if slices.Contains(answered, again) {
				t.Errorf("after %d calls: %s ran again", k, again)
			}
		}
	}
}

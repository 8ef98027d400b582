package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// over is a fan-out over a collection, its whole output, and a step below.
func over(collection, more string) string {
	return `locals { c = ` + collection + ` }
step "x" {
  uses     = plugin.p.echo
  for_each = local.c
  input    = { v = each.value }
  ` + more + `
}
step "all" {
  uses  = plugin.p.echo
  input = { v = step.x.output }
}
output "x" { value = step.x.output }
output "all" { value = step.all.output }
`
}

// A collection gives a collection of its shape, in its order, whatever language
// its keys are in; an empty one gives an empty one and runs nothing.
func TestFanOutShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		collection, output string
		calls              []string
	}{
		{`[]`, `[]`, []string{"all"}},
		{`{}`, `{}`, []string{"all"}},
		{`["a", "b", null]`, `["a","b",null]`, []string{"all", "x[0]", "x[1]", "x[2]"}},
		{`toset(["b", "a"])`, `{"a":"a","b":"b"}`, []string{"all", `x["a"]`, `x["b"]`}}, // a set has no positions
		{`{ b = 1, a = { n = [1] } }`, `{"a":{"n":[1]},"b":1}`, []string{"all", `x["a"]`, `x["b"]`}},
		{`{ "第一章" = "开始", "🙂" = 2, "שלום" = 3, "a\"b\\c" = 4 }`, `{"a\"b\\c":4,"שלום":3,"第一章":"开始","🙂":2}`, []string{"all", `x["a\"b\\c"]`, `x["שלום"]`, `x["第一章"]`, `x["🙂"]`}},
	} {
		s := newScene(t)
		res := s.succeeds(over(c.collection, ""))
		wantOutput(t, res, "x", c.output)
		wantOutput(t, res, "all", c.output)
		s.wantCalls(c.collection, c.calls...)
		if want := max(len(c.calls), 2); res.Counts.Total != want || res.Counts.Ran != want {
			t.Errorf("%s: %+v", c.collection, res.Counts)
		}
		if again := s.succeeds(over(c.collection, "")); again.Opened {
			t.Errorf("%s: apply after success opened a run", c.collection)
		}
		s.wantCalls("again, " + c.collection)
	}
}

// What is no collection is a mistake at that step, and the run says where.
func TestForEachOfNoCollection(t *testing.T) {
	t.Parallel()
	for _, v := range []string{`"text"`, `7`, `null`, `true`} {
		s := newScene(t)
		rec := &recorder{}
		res, err := s.try(`step "a" {
  uses  = plugin.p.echo
  input = { v = `+v+` }
}
step "x" {
  uses     = plugin.p.echo
  for_each = step.a.output
  input    = { v = each.value }
  retry {
    max_attempts = 3
  }
  fallback {
    output = 1
  }
}`, Options{Observer: rec}, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Failures) != 1 || res.Failures[0].Step != "step.x" || res.Failures[0].Error.Class != sdk.ClassInvalidInput || !strings.Contains(res.Failures[0].Error.Message, "bench.hcl:") {
			t.Fatalf("%s: %+v", v, res.Failures)
		}
		s.wantCalls(v, "a")
		if slices.ContainsFunc(rec.events, func(e Event) bool { return e.Type == EventAttemptFailed }) {
			t.Errorf("%s: a mistake in for_each was tried again", v)
		}
	}
}

// Two of five fail: the others finish, the step fails and names the first, what
// is below waits, and apply goes on with exactly those two.
func TestFanOutFailures(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.failing(sdk.ClassInternal, "x[1]", "x[3]")
	text := over(`["a", "b", "c", "d", "e"]`, "")
	rec := &recorder{}
	first, err := s.try(text, Options{Observer: rec}, RunOptions{})
	if err != nil || first.Run.Status != checkpoint.RunFailed {
		t.Fatalf("%v %+v", err, first)
	}
	s.wantCalls("first", "x[0]", "x[1]", "x[2]", "x[3]", "x[4]")
	var failed []string
	for _, f := range first.Failures {
		failed = append(failed, f.Step)
	}
	slices.Sort(failed)
	if d := cmp.Diff([]string{"step.x[1]", "step.x[3]"}, failed); d != "" || first.Counts.Failed != 2 || first.Counts.Ran != 3 || first.Counts.Skipped != 1 {
		t.Fatalf("%+v %s", first.Counts, d)
	}
	for _, e := range rec.events {
		if e.Type == EventFailed && e.Step == "step.x" && !strings.Contains(e.Error.Message, "2 of 5 instances failed, the first is step.x[1]: the model answers 不行 🙅") {
			t.Errorf("the step's own failure: %v", e.Error)
		}
	}
	if d := cmp.Diff(map[string]string{"x": "failed", "x[0]": "succeeded", "x[1]": "failed", "x[2]": "succeeded", "x[3]": "failed", "x[4]": "succeeded", "all": "skipped"}, rec.states()); d != "" {
		t.Error(d)
	}
	s.run = nil
	second := s.succeeds(text)
	s.wantCalls("second", "all", "x[1]", "x[3]")
	if second.Run.ID != first.Run.ID || second.Counts.Reused != 3 {
		t.Fatalf("%+v", second)
	}
	wantOutput(t, second, "all", `["a","b","c","d","e"]`)
}

// Instances count by what they are made of, not by where they stand: a list
// that grows at either end or in the middle, or is put in another order, runs
// what is new.
func TestCollectionsThatChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, before, after string
		calls               []string
	}{
		{"back", `["a", "b"]`, `["a", "b", "c"]`, []string{"all", "x[2]"}},
		{"front", `["a", "b"]`, `["z", "a", "b"]`, []string{"all", "x[0]"}},
		{"middle", `["a", "b"]`, `["a", "m", "b"]`, []string{"all", "x[1]"}},
		{"less", `["a", "b", "c"]`, `["a", "c"]`, []string{"all"}},
		{"order", `["a", "b", "c"]`, `["c", "a", "b"]`, []string{"all"}},
		{"one value", `["a", "b", "c"]`, `["a", "B", "c"]`, []string{"all", "x[1]"}},
		{"to nothing", `["a"]`, `[]`, []string{"all"}},
		{"from nothing", `[]`, `["a"]`, []string{"all", "x[0]"}},
		{"a sample more", `["s", "s"]`, `["s", "s", "s"]`, []string{"all", "x[2]"}},
		{"a sample less", `["s", "s", "s"]`, `["s", "s"]`, []string{"all"}},
		{"new in front of samples", `["s", "s"]`, `["n", "s", "s"]`, []string{"all", "x[0]"}},
		{"key renamed", `{ a = 1, b = 2 }`, `{ a = 1, c = 2 }`, []string{"all"}},
		{"key added", `{ b = 2 }`, `{ "一" = 1, b = 2 }`, []string{"all", `x["一"]`}},
		{"list to map", `["p", "q"]`, `{ one = "p", two = "q" }`, []string{"all"}},
	} {
		s := newScene(t)
		s.succeeds(over(c.before, ""))
		s.called()
		res := s.succeeds(over(c.after, ""))
		s.wantCalls(c.what, c.calls...)
		if !res.Opened {
			t.Errorf("%s: no run", c.what)
		}
		// Taken back, everything is there.
		s.succeeds(over(c.before, ""))
		s.wantCalls(c.what + ", taken back")
	}
}

// Five samples of one prompt are five calls, in one run and when it goes on,
// and stay five answers.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var n atomic.Int64
	s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.x" {
			return sdk.Output(n.Add(1))
		}
		return nil, nil
	}
	text := over(`[for i in range(5) : "one prompt"]`, "")
	res := s.succeeds(strings.Replace(text, "workflow", "workflow", 1))
	s.wantCalls("five samples", "all", "x[0]", "x[1]", "x[2]", "x[3]", "x[4]")
	var all []int
	if err := sdk.Unmarshal(res.Outputs[0].Value, &all); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	if d := cmp.Diff([]int{1, 2, 3, 4, 5}, all); d != "" {
		t.Fatal(d)
	}
	// One of them again is that one alone.
	s.succeeds(text, "step.x[3]")
	s.wantCalls("--rerun", "all", "x[3]")
}

// Chained fan-outs have no barrier between them: the first instance of the
// second step runs while the last of the first has not begun to answer, and
// what needs all of them gets all of them.
func TestChainWithoutBarrier(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	below := make(chan struct{})
	s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		switch hcl.InstanceAddress(req.Step, req.Instance) {
		case "step.x[2]": // ends only when y[0] has run
			select {
			case <-below:
			case <-ctx.Done():
				return nil, sdk.Ended(ctx)
			}
		case "step.y[0]":
			close(below)
		}
		return nil, nil
	}
	text := `step "x" {
  uses     = plugin.p.echo
  for_each = ["a", "b", "c"]
  input    = { v = each.value }
}
step "y" {
  uses     = plugin.p.echo
  for_each = step.x.output
  input    = { v = "${each.value}${each.key}!" }
}
step "join" {
  uses  = plugin.p.echo
  input = { v = join(" ", step.y.output) }
}
output "joined" { value = step.join.output }
`
	res := s.succeeds(text)
	wantOutput(t, res, "joined", `"a0! b1! c2!"`)
	s.wantCalls("chain", "join", "x[0]", "x[1]", "x[2]", "y[0]", "y[1]", "y[2]")
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}
	// A changed element runs its own chain and what gathers, nothing else.
	s.run = nil
	s.succeeds(strings.Replace(text, `"b"`, `"B"`, 1))
	s.wantCalls("one element changed", "join", "x[1]", "y[1]")
}

// An instance that follows one that was skipped is skipped, one that follows a
// failed one too, and the others run.
func TestPairedWithSkippedAndFailed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := `step "x" {
  uses     = plugin.p.echo
  for_each = ["a", "skip", "c", "d"]
  when     = each.value != "skip"
  input    = { v = each.value }
}
step "y" {
  uses     = plugin.p.echo
  for_each = step.x.output
  input    = { v = each.value }
}
output "y" { value = step.y.output }
`
	s.failing(sdk.ClassInternal, "x[3]")
	s.fails(text)
	s.wantCalls("first", "x[0]", "x[2]", "x[3]", "y[0]", "y[2]")
	s.run = nil
	res := s.succeeds(text)
	s.wantCalls("second", "x[3]", "y[3]")
	wantOutput(t, res, "y", `["a",null,"c","d"]`)
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}
	// The same when what is followed is a record, where a skipped one is null.
	rec := &recorder{}
	res, err := s.try(strings.Replace(text, "for_each = step.x.output\n  input    = { v = each.value }", "for_each = step.x.output\n  input    = { v = \"${each.value}!\" }", 1), Options{Observer: rec}, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.wantCalls("y was edited", "y[0]", "y[2]", "y[3]")
	wantOutput(t, res, "y", `["a!",null,"c!","d!"]`)
	if !slices.ContainsFunc(rec.events, func(e Event) bool {
		return e.Type == EventSkipped && e.Step == "step.y[1]" && e.Reason == "upstream_skipped: step.x[1] was skipped"
	}) {
		t.Error("y[1] was not skipped because x[1] was")
	}
}

// An answer that is null is an answer: what follows it runs, from the run and
// from the record.
func TestPairedWithNull(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := func(more string) string {
		return `step "x" {
  uses     = plugin.p.echo
  for_each = { "甲" = null, b = 1 }
  input    = { v = each.value }
}
step "y" {
  uses     = plugin.p.echo
  for_each = step.x.output
  input    = { v = [each.key, each.value` + more + `] }
}
output "y" { value = step.y.output }
`
	}
	wantOutput(t, s.succeeds(text("")), "y", `{"b":["b",1],"甲":["甲",null]}`)
	s.called()
	wantOutput(t, s.succeeds(text(", 2")), "y", `{"b":["b",1,2],"甲":["甲",null,2]}`)
	s.wantCalls("y was edited", `y["b"]`, `y["甲"]`)
}

// Conditions of instances: each its own; without each, for the whole step.
func TestWhenOfInstances(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := over(`[1, 2, 3, 4]`, "when = each.value % 2 == 0")
	res := s.succeeds(text)
	wantOutput(t, res, "all", `[null,2,null,4]`)
	s.wantCalls("even", "all", "x[1]", "x[3]")
	if res.Counts.Skipped != 2 || s.succeeds(text).Opened {
		t.Errorf("%+v", res.Counts)
	}
	res = s.succeeds(over(`[1, 2, 3, 4]`, "when = each.value > 2"))
	s.wantCalls("another condition", "all", "x[2]") // x[3] has its answer
	wantOutput(t, res, "all", `[null,null,3,4]`)

	s = newScene(t)
	res = s.succeeds(over(`[1, 2]`, "when = false"))
	s.wantCalls("not at all")
	if res.Counts.Skipped != 2 || !strings.Contains(res.Outputs[0].Unavailable, "skipped") {
		t.Errorf("%+v %+v", res.Counts, res.Outputs)
	}
}

// What is below sees the facets of a fan-out in the collection's shape, the
// same from a fresh run and from a record.
func TestFacetsOfCollections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ collection, status, attempts, degraded, errors string }{
		{`["a", "bad", "c"]`, `["succeeded","skipped","succeeded"]`, `[1,1,1]`, `[false,false,false]`, `["","internal",""]`},
		{`{ k = "a", "坏" = "bad" }`, `{"k":"succeeded","坏":"skipped"}`, `{"k":1,"坏":1}`, `{"k":false,"坏":false}`, `{"k":"","坏":"internal"}`},
	} {
		s := newScene(t)
		s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			if req.Step == "step.x" && strings.Contains(string(req.Input), "bad") {
				return nil, &sdk.Error{Class: sdk.ClassInternal, Message: "no"}
			}
			return nil, nil
		}
		text := func(more string) string {
			errors := `[for e in step.x.error : try(e.class, "")]`
			if strings.HasPrefix(c.collection, "{") {
				errors = `{ for k, e in step.x.error : k => try(e.class, "") }`
			}
			return `step "x" {
  uses       = plugin.p.echo
  for_each   = ` + c.collection + `
  on_failure = "skip"
  input      = { v = each.value }
}
step "below" {
  uses  = plugin.p.echo
  input = { v = { s = step.x.status, a = step.x.attempts, d = step.x.degraded, e = ` + errors + more + ` } }
}
output "below" { value = step.below.output }
`
		}
		want := func(more string) string {
			return `{"a":` + c.attempts + `,"d":` + c.degraded + `,"e":` + c.errors + more + `,"s":` + c.status + `}`
		}
		wantOutput(t, s.succeeds(text("")), "below", want(""))
		s.called()
		// From the record: x is not due in a run that only asks for below again.
		res, err := s.try(text(", more = 1"), Options{}, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantOutput(t, res, "below", want(`,"more":1`))
	}
}

// As many instances of a step run at once as it says, and its slots are all
// used.
func TestConcurrencyOfInstances(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var now, most atomic.Int64
	full := make(chan struct{})
	s.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step != "step.x" {
			return nil, nil
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		select {
		case <-full: // three are inside at once
			return nil, nil
		case <-ctx.Done():
			return nil, sdk.Ended(ctx)
		}
	}
	s.succeeds("workflow \"w\" { concurrency = 16 }\n" + over(`range(40)`, "concurrency = 3"))
	if most.Load() != 3 {
		t.Errorf("%d at once", most.Load())
	}
}

// A volatile fan-out keeps records without data; what is below keeps its own,
// and rebuilds only what it lacks.
func TestVolatileFanOut(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := over(`["a", "b"]`, "checkpoint {\n mode = \"volatile\"\n }")
	text = strings.Replace(text, "output \"x\" { value = step.x.output }\n", "", 1)
	wantOutput(t, s.succeeds(text), "all", `["a","b"]`)
	s.called()
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}
	ix, err := s.store.Snapshot(context.Background(), "default", "w")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0", "1", ""} {
		if h := ix.Head("step.x", name); h == nil || h.HasData() {
			t.Errorf("the record of step.x[%s] is %+v", name, h)
		}
	}
	edited := strings.Replace(text, "input = { v = step.x.output }", "input = { v = step.x.output, w = 1 }", 1)
	s.succeeds(edited)
	s.wantCalls("below was edited", "all", "x[0]", "x[1]") // nothing of x was kept
}

// numbers is a collection of 9,999 and what is put in front.
func numbers(front string) string {
	return `concat(` + front + `slice(flatten([for a in range(100) : [for b in range(100) : 100 * a + b]]), 0, 9999))`
}

// Ten thousand instances end, are found current, and hold in memory what they
// must.
func TestManyInstances(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	text := over(numbers(""), "")
	res := s.succeeds(text)
	if res.Counts.Ran != 10_000 {
		t.Fatalf("%+v", res.Counts)
	}
	if n := len(s.called()); n != 10_000 {
		t.Fatalf("%d calls", n)
	}
	if s.succeeds(text).Opened {
		t.Error("apply after success opened a run")
	}
	// One more in front runs one more.
	s.succeeds(over(numbers("[-1], "), ""))
	s.wantCalls("one in front", "all", "x[0]")
	res = s.fails("workflow \"w\" { max_instances = 2 }\n" + `step "a" {
  uses  = plugin.p.echo
  input = { v = [1, 2, 3] }
}
` + over(`step.a.output`, ""))
	if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Error.Message, "max_instances") {
		t.Errorf("more than may be: %+v", res.Failures)
	}
}

// Damaged or missing data of one instance makes that one run, whether the
// collection was known or is put together anew.
func TestLostInstance(t *testing.T) {
	t.Parallel()
	lossy := &losing{MemoryStore: checkpoint.NewMemoryStore(), lost: map[checkpoint.Seq]bool{}}
	s := &scene{t: t, store: lossy}
	s.succeeds(over(`["a", "b", "c"]`, ""))
	s.called()
	ix, err := s.store.Snapshot(context.Background(), "default", "w")
	if err != nil {
		t.Fatal(err)
	}
	lossy.lost[ix.Head("step.x", "1").Data.Seq] = true
	res := s.succeeds(over(`["a", "b", "c", "d"]`, ""))
	s.wantCalls("b was lost", "all", "x[1]", "x[3]")
	wantOutput(t, res, "all", `["a","b","c","d"]`)
}

// losing loses what is named.
type losing struct {
	*checkpoint.MemoryStore
	lost map[checkpoint.Seq]bool
}

func (l *losing) Data(ctx context.Context, tenant string, ref checkpoint.DataRef) (json.RawMessage, error) {
	if l.lost[ref.Seq] {
		return nil, fmt.Errorf("record %d: %w", ref.Seq, checkpoint.ErrCorrupt)
	}
	return l.MemoryStore.Data(ctx, tenant, ref)
}

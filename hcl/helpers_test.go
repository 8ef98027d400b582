package hcl

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

const header = "workflow \"w\" {}\nplugin \"p\" { source = \"std/text\" }\n"

func parse1(src string) (*Workflow, Diagnostics) {
	return Parse([]File{{Path: "flow.hcl", Bytes: []byte(header + src)}})
}

// mustLoad loads a flow without mistakes; the header declares plugin p.
func mustLoad(t testing.TB, src string) *Workflow {
	t.Helper()
	w, ds := parse1(src)
	if ds.HasErrors() {
		t.Fatalf("the flow has mistakes: %s\n%s", explain(ds), src)
	}
	return w
}

func mustBind(t testing.TB, w *Workflow, vars ...string) *Values {
	t.Helper()
	v, ds := w.Bind(BindOptions{Vars: vars})
	if ds.HasErrors() {
		t.Fatalf("bind: %s", explain(ds))
	}
	return v
}

var testRun = RunInfo{ID: "r_test", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func mustEvaluator(t testing.TB, src string, vars ...string) (*Workflow, *Evaluator) {
	t.Helper()
	w := mustLoad(t, src)
	return w, w.Evaluator(mustBind(t, w, vars...), testRun)
}

func explain(ds Diagnostics) string {
	var b strings.Builder
	for i := range ds {
		b.WriteString("\n" + ds[i].Code + " " + ds[i].Error())
	}
	return b.String()
}

// answers is an Upstream in which every step answered the same.
func answers(out string) Upstream {
	return func(int) Result {
		return Result{State: sdk.Succeeded, Output: json.RawMessage(out), Attempts: 1}
	}
}

func hasCode(ds Diagnostics, code string) bool {
	for i := range ds {
		if ds[i].Code == code {
			return true
		}
	}
	return false
}

// inputOf evaluates the input of the last step.
func inputOf(t testing.TB, src string, up Upstream, vars ...string) (string, Diagnostics) {
	t.Helper()
	w, e := mustEvaluator(t, src, vars...)
	b, ds := e.Input(len(w.Steps)-1, Scope{Up: up})
	return string(b), ds
}

// value evaluates one expression over the output of step a.
func value(t testing.TB, expr, output string) (string, Diagnostics) {
	t.Helper()
	got, ds := inputOf(t, "step \"a\" { uses = plugin.p.run }\nstep \"b\" {\n uses = plugin.p.run\n input = { v = "+expr+" }\n}\n", answers(output))
	return strings.TrimSuffix(strings.TrimPrefix(got, `{"v":`), "}"), ds
}

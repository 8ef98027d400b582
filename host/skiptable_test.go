package host

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// tableFlow has steps that name step.up in every way there is.
const tableFlow = `
step "hard" {
  uses  = plugin.p.echo
  input = { v = step.up.output }
}
step "after" {
  uses       = plugin.p.echo
  depends_on = [step.up]
  input      = { v = "ran" }
}
step "tried" {
  uses  = plugin.p.echo
  input = { v = try(step.up.output, "absent") }
}
step "last" {
  uses  = plugin.p.echo
  input = { v = try("first", step.up.output) }
}
step "caught" {
  uses  = plugin.p.echo
  input = { v = try(try("first", step.up.output), "absent") }
}
step "can" {
  uses  = plugin.p.echo
  input = { v = can(step.up.output) }
}
step "soft" {
  uses  = plugin.p.echo
  input = { v = { status = step.up.status, error = try(step.up.error.class, "none"), degraded = step.up.degraded } }
}
# Only direct upstreams count.
step "above" {
  uses  = plugin.p.echo
  input = { v = step.tried.status }
}
output "hard" { value = step.hard.output }
output "after" { value = step.after.output }
output "tried" { value = step.tried.output }
output "last" { value = step.last.output }
output "caught" { value = step.caught.output }
output "can" { value = step.can.output }
output "soft" { value = step.soft.output }
output "above" { value = step.above.output }
`

// TestSkipTable is the table of the language's page, cell by cell: what becomes of
// a step whose upstream has ended in some way, by how it names it.
func TestSkipTable(t *testing.T) {
	t.Parallel()
	ran := func(tried, can, soft string) map[string]string {
		return map[string]string{"hard": `"up"`, "after": `"ran"`, "tried": tried, "last": `"first"`, "caught": `"first"`, "can": can, "soft": soft, "above": `"succeeded"`}
	}
	absent := func(soft string) map[string]string {
		m := ran(`"absent"`, "false", soft)
		m["hard"], m["after"], m["last"] = "", "", ""
		return m
	}
	for name, c := range map[string]struct {
		up     string
		fails  bool
		status checkpoint.RunStatus
		want   map[string]string
		reason string // of those that are skipped
	}{
		"succeeded":         {"", false, checkpoint.RunSucceeded, ran(`"up"`, "true", `{"degraded":false,"error":"none","status":"succeeded"}`), ""},
		"fallback":          {"fallback {\n output = \"up\"\n }", true, checkpoint.RunSucceeded, ran(`"up"`, "true", `{"degraded":true,"error":"none","status":"succeeded"}`), ""},
		"condition":         {"when = false", false, checkpoint.RunSucceeded, absent(`{"degraded":false,"error":"none","status":"skipped"}`), "upstream_skipped: step.up was skipped"},
		"upstream skipped":  {"depends_on = [step.never]", false, checkpoint.RunSucceeded, absent(`{"degraded":false,"error":"none","status":"skipped"}`), "upstream_skipped: step.up was skipped"},
		"failed, and skips": {"on_failure = \"skip\"", true, checkpoint.RunSucceeded, absent(`{"degraded":false,"error":"quota","status":"skipped"}`), "upstream_failed: step.up failed"},
		"failed":            {"", true, checkpoint.RunFailed, absent(`{"degraded":false,"error":"quota","status":"failed"}`), "upstream_failed: step.up failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if c.fails {
				s.failing(sdk.ClassQuota, "up")
			}
			rec := &recorder{}
			text := "step \"never\" {\n uses = plugin.p.echo\n when = false\n}\nstep \"up\" {\n uses = plugin.p.echo\n input = { v = \"up\" }\n " + c.up + "\n}\n" + tableFlow
			res, err := s.try(text, Options{Observer: rec}, RunOptions{})
			if err != nil || res.Run.Status != c.status {
				t.Fatalf("%v, %+v", err, res)
			}
			got := map[string]string{}
			for _, o := range res.Outputs {
				got[o.Name] = string(o.Value)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("outputs (-want +got):\n%s", d)
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			for _, e := range rec.events {
				if e.Type == EventSkipped && slices.Contains([]string{"step.hard", "step.after", "step.last"}, e.Step) && e.Reason != c.reason {
					t.Errorf("%s is skipped: %s, want %s", e.Step, e.Reason, c.reason)
				}
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		ctx, cancel := context.WithCancel(context.Background())
		s.run = func(in context.Context, req *sdk.Request) (*sdk.Response, error) {
			cancel()
			<-in.Done()
			return nil, sdk.Ended(in)
		}
		f, v := s.flow("step \"up\" {\n uses = plugin.p.echo\n input = { v = \"up\" }\n}\n" + tableFlow)
		rec := &recorder{}
		h, err := New(Options{Store: s.store, Observer: rec})
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Apply(ctx, f, v, RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunCancelled {
			t.Fatalf("%v, %+v", err, res)
		}
		if d := cmp.Diff([]string{"above", "after", "can", "caught", "hard", "last", "soft", "tried", "up"}, rec.steps(EventCancelled)); d != "" {
			t.Errorf("cancelled (-want +got):\n%s", d)
		}
		s.wantCalls("cancelled", "up")
	})
}

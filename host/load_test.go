package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// slowLoader takes an hour, or as long as it may.
type slowLoader struct{ *scene }

func (l slowLoader) Load(ctx context.Context, _ *loader.Artifact) (loader.Plugin, error) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	select {
	case <-t.C:
		return l.scene, nil
	case <-ctx.Done():
		return nil, sdk.Ended(ctx)
	}
}

// TestNoClockRunsWhileAPluginLoads: the time of an attempt, of its checks, its
// fallback and of an undo begins when they can be asked.
func TestNoClockRunsWhileAPluginLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.failing(sdk.ClassInternal, "b")
		f, v := compiled(t, `
workflow "w" {}
plugin "p" { source = "./p.wasm" }
plugin "q" { source = "./q.wasm" }
plugin "r" { source = "./r.wasm" }
step "a" {
  uses    = plugin.p.echo
  timeout = "1s"
  input   = { v = { ok = true } }
  check {
    uses  = plugin.q.judge
    input = { v = self.output }
  }
}
step "b" {
  uses    = plugin.r.echo
  timeout = "1s"
  input   = { v = 1 }
  fallback {
    uses  = plugin.r.other
    input = { v = 2 }
  }
}
`, slowLoader{s})
		h, err := New(Options{Store: s.store})
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Apply(context.Background(), f, v, RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded {
			t.Fatalf("%v, %+v", err, res)
		}
	})
}

// TestTheStrongestIsolationCounts: of a plugin, of a step, of what is around a
// sub-workflow.
func TestTheStrongestIsolationCounts(t *testing.T) {
	t.Parallel()
	in, process := &hcl.Sandbox{Isolation: "inprocess"}, &hcl.Sandbox{Isolation: "process"}
	for _, c := range []struct {
		blocks []*hcl.Sandbox
		want   loader.Isolation
	}{
		{nil, ""}, {[]*hcl.Sandbox{in}, ""}, {[]*hcl.Sandbox{process}, loader.Process}, {[]*hcl.Sandbox{in, process}, loader.Process}, {[]*hcl.Sandbox{process, in, nil}, loader.Process},
	} {
		var g grant
		for _, sb := range c.blocks {
			var diags hcl.Diagnostics
			if g, diags = narrow(g, sb); diags.HasErrors() {
				t.Fatal(diags)
			}
		}
		if g.limits.Isolation != c.want {
			t.Errorf("%+v gives %q, want %q", c.blocks, g.limits.Isolation, c.want)
		}
	}
}

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

// TestCeilings: a sandbox can ask for as much as the ceiling and no more.
func TestCeilings(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]func(sb *hcl.Sandbox, to int64) (most int64){
		"memory":     func(sb *hcl.Sandbox, to int64) int64 { sb.Memory = to; return loader.MaxMemory },
		"output_max": func(sb *hcl.Sandbox, to int64) int64 { sb.OutputMax = to; return loader.MaxResponse },
		"log_max":    func(sb *hcl.Sandbox, to int64) int64 { sb.LogMax = to; return loader.MaxStderr },
	} {
		sb := &hcl.Sandbox{}
		most := set(sb, 1)
		if set(sb, most); len(second(narrow(grant{}, sb))) != 0 {
			t.Errorf("%s of the ceiling is refused", what)
		}
		set(sb, most+1)
		if ds := second(narrow(grant{}, sb)); len(ds) != 1 || ds[0].Code != "limit-above-ceiling" || ds[0].Summary != what+" is more than an attempt can have" {
			t.Errorf("%s above its ceiling: %v", what, ds)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// failingLoader cannot load for as long as it is told, and counts. Its calls
// come one after the other.
type failingLoader struct {
	*scene
	fails bool
	loads int
}

func (l *failingLoader) Load(context.Context, *loader.Artifact) (loader.Plugin, error) {
	if l.loads++; l.fails {
		return nil, &sdk.Error{Class: sdk.ClassPluginCrash, Code: loader.CodeStart, Message: "it does not start"}
	}
	return l.scene, nil
}

// TestALoadFailureIsNoAttempt: it uses no try of retry and leaves neither an
// attempt nor an intent, so that a step that must happen once simply runs when
// its plugin can be loaded; a fallback answers for it.
func TestALoadFailureIsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, step string
		status     checkpoint.RunStatus
	}{
		{"retry", `
step "a" {
  uses  = plugin.p.pay
  input = { v = 1 }
  retry {
    on           = [plugin_crash]
    max_attempts = 5
  }
}`, checkpoint.RunFailed},
		{"fallback", `
step "a" {
  uses  = plugin.p.echo
  input = { v = 1 }
  retry {
    on           = [plugin_crash]
    max_attempts = 5
  }
  fallback { output = 1 }
}`, checkpoint.RunSucceeded},
		{"action", `
action "open" {
  uses  = plugin.p.echo
  input = { v = { token = "long enough" } }
  retry {
    on           = [plugin_crash]
    max_attempts = 5
  }
}
secret "s" {
  action = action.open
  path   = "token"
}
step "a" {
  uses  = plugin.p.echo
  input = { v = secret.s }
}`, checkpoint.RunFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			l := &failingLoader{scene: s, fails: true}
			f, v := compiled(t, "workflow \"w\" {}\nplugin \"p\" { source = \"./p.wasm\" }\n"+c.step, l)
			apply := func() *Result {
				h, err := New(Options{Store: s.store})
				if err != nil {
					t.Fatal(err)
				}
				res, err := h.Apply(context.Background(), f, v, RunOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			res := apply()
			if res.Run.Status != c.status || l.loads != 1 {
				t.Errorf("the run %s after %d loads: %+v", res.Run.Status, l.loads, res.Failures)
			}
			if kept, err := s.store.Attempts(context.Background(), DefaultTenant, res.Run.ID); err != nil || len(kept) > 0 {
				t.Errorf("attempts are recorded: %+v, %v", kept, err)
			}
			if l.fails = false; c.status != checkpoint.RunFailed {
				return
			}
			if res = apply(); res.Run.Status != checkpoint.RunSucceeded {
				t.Errorf("the next run %s: %+v", res.Run.Status, res.Failures)
			}
		})
	}
}

// preparer is a plugin whose attempts need what takes an hour to make.
type preparer struct {
	*scene
	prepared, held, unprepared int
}

func (p *preparer) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return p, nil }

func (p *preparer) Step(name string, l loader.Limits) (sdk.Step, error) {
	step, err := p.scene.Step(name, l)
	return &preparedStep{step, p}, err
}

type preparedStep struct {
	sdk.Step
	p *preparer
}

func (s *preparedStep) Prepare(context.Context) (func(), error) {
	time.Sleep(time.Hour)
	s.p.prepared++
	s.p.held++
	return func() { s.p.held-- }, nil
}

func (s *preparedStep) Run(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	if s.p.held == 0 {
		s.p.unprepared++
	}
	return s.Step.Run(ctx, req, host)
}

// TestNoClockRunsWhileAnAttemptIsPrepared: of a step that is held for its intent,
// of one that is tried again, and of an undo.
func TestNoClockRunsWhileAnAttemptIsPrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		tries := 0
		s.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			if tries++; tries == 1 {
				return nil, &sdk.Error{Class: sdk.ClassUnavailable}
			}
			return nil, nil
		}
		p := &preparer{scene: s}
		f, v := compiled(t, `
workflow "w" {}
plugin "p" { source = "./p.wasm" }
step "a" {
  uses    = plugin.p.mail
  timeout = "1s"
  input   = { v = { ok = true } }
  retry {
    on           = [unavailable]
    max_attempts = 2
  }
  check {
    uses  = plugin.p.judge
    input = { v = self.output }
  }
}
`, p)
		h, err := New(Options{Store: s.store})
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.Apply(context.Background(), f, v, RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded {
			t.Fatalf("%v, %+v", err, res)
		}
		if p.prepared < 2 || p.held != 0 || p.unprepared != 0 || tries != 3 {
			t.Errorf("prepared %d times, %d not released, %d of %d calls not prepared", p.prepared, p.held, p.unprepared, tries)
		}
	})
}

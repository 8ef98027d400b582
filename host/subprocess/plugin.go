package subprocess

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

// untyped is the step type of a plugin without a manifest.
const untyped = "run"

// plugin is a loaded executable with at most one process for each environment.
type plugin struct {
	o        Options
	path     string
	manifest *sdk.Manifest
	dir      string // private: the copy, sockets, TMPDIR
	exe      string
	turn     chan struct{} // held by the attempt that runs; nil if they may run at once

	startMu sync.Mutex // one start at a time

	attempts attempts

	mu        sync.Mutex
	processes map[string]*process // by environment
}

var _ loader.Plugin = (*plugin)(nil)

// Step returns a step type under limits.
func (p *plugin) Step(stepType string, limits loader.Limits) (sdk.Step, error) {
	switch {
	case p.manifest == nil && stepType != untyped:
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("plugin %s has no manifest, so its only step type is %q, not %q", p.path, untyped, stepType)}
	case p.manifest != nil:
		if _, ok := p.manifest.Steps[stepType]; !ok {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("plugin %s has no step type %q; it has %s", p.path, stepType, strings.Join(p.manifest.StepNames(), ", "))}
		}
	}
	return &step{plugin: p, stepType: stepType, limits: limits.WithDefaults()}, nil
}

// Close ends running attempts, then the process and all it has started.
func (p *plugin) Close() error {
	first := p.attempts.close()
	p.startMu.Lock() // a start that was under way ends before the directory goes
	defer p.startMu.Unlock()
	if !first {
		return nil
	}
	for _, proc := range p.processes {
		if proc != nil { // it was started
			proc.shutdown()
		}
	}
	return os.RemoveAll(p.dir)
}

// running returns the process with this environment, and starts one if there is
// none that lives.
func (p *plugin) running(ctx context.Context, env map[string]string) (*process, error) {
	var own []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		own = append(own, name+"="+env[name])
	}
	key := strings.Join(own, "\x00")
	p.startMu.Lock()
	defer p.startMu.Unlock()
	p.mu.Lock()
	have := p.processes[key]
	p.mu.Unlock()
	if have != nil {
		if have.alive() {
			return have, nil
		}
		have.kill()
	}
	started, err := start(ctx, p.o, p.path, p.exe, p.dir, own)
	p.mu.Lock()
	if p.processes == nil {
		p.processes = map[string]*process{}
	}
	p.processes[key] = started
	p.mu.Unlock()
	return started, err
}

// step is a step type; each Run is one attempt.
type step struct {
	plugin   *plugin
	stepType string
	limits   loader.Limits
}

var (
	_ sdk.Step        = (*step)(nil)
	_ loader.Preparer = (*step)(nil)
)

// env is the environment of the process that it needs.
func (s *step) env() map[string]string {
	if s.limits.World == nil {
		return nil
	}
	return s.limits.World.Env
}

// Prepare starts the process, if none runs. All attempts share it.
func (s *step) Prepare(ctx context.Context) (release func(), err error) {
	ctx, _, end, err := s.plugin.attempts.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if _, err := s.plugin.running(ctx, s.env()); err != nil {
		return nil, err
	}
	return func() {}, nil
}

func (s *step) Run(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	p := s.plugin
	ctx, cancel, end, err := p.attempts.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if p.turn != nil {
		select {
		case p.turn <- struct{}{}:
			defer func() { <-p.turn }()
		case <-ctx.Done():
			return nil, sdk.Ended(ctx)
		}
	}
	proc, err := p.running(ctx, s.env())
	if err != nil {
		return nil, err
	}
	own := *req
	own.StepType = s.stepType
	out := &listener{ctx: context.WithoutCancel(ctx), host: host, limit: s.limits.Stderr, exceeded: func(e *sdk.Error) { cancel(e) }}
	proc.stderr.attach(out)
	r, err := proc.client.Run(ctx, &own, host, wire.Limits{Request: s.limits.Request, Response: s.limits.Response, Grace: s.limits.Grace})
	var broken *wire.Broken
	if errors.As(err, &broken) {
		err = s.bury(proc, broken)
	} else {
		proc.stderr.barrier()
	}
	proc.stderr.detach(out)
	if err != nil {
		e := *sdk.AsError(err)
		e.Stderr = out.text()
		return nil, &e
	}
	return r, nil
}

// bury ends a process that can take no more attempts, and says how it died if
// it died by itself.
func (s *step) bury(proc *process, b *wire.Broken) *sdk.Error {
	e := *b.Err
	if b.Gone && e.Class == sdk.ClassPluginCrash || b.Gone && e.Class == sdk.ClassProtocol {
		if how, ended := proc.awaitExit(); ended {
			e = sdk.Error{Class: sdk.ClassPluginCrash, Message: fmt.Sprintf("plugin %s %s during the attempt", s.plugin.path, how)}
			if how == exited(0) {
				e.Class = sdk.ClassProtocol
				e.Message = fmt.Sprintf("plugin %s %s without a response; it must serve until the engine shuts it down", s.plugin.path, how)
			}
			if seen := proc.stdout.seen(); len(seen) > 0 {
				e.Message += "; its output" + strings.TrimPrefix(sdk.Seen(seen), ";")
			}
		}
	}
	proc.kill()
	return &e
}

package wasm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// plugin is one use of a compiled module, under one manifest.
type plugin struct {
	shared    *shared
	manifest  *sdk.Manifest // nil: untyped, step type "run"
	path      string
	workers   loader.Workers
	isolation loader.Isolation // the least
	release   func()

	mu       sync.Mutex
	program  *program // nil until attempts run in this process
	closed   bool
	running  sync.WaitGroup
	cancels  map[*attempt]context.CancelCauseFunc
	isolated map[loader.Limits]isolated
}

var _ loader.Plugin = (*plugin)(nil)

var errClosed = &sdk.Error{Class: sdk.ClassCancelled, Message: "the plugin was closed"}

// untyped is the step type of a module without a manifest.
const untyped = "run"

// Step returns a step type under limits.
func (p *plugin) Step(stepType string, limits loader.Limits) (sdk.Step, error) {
	s := &step{plugin: p, limits: limits.WithDefaults()}
	switch {
	case p.manifest == nil && stepType != untyped:
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("module %s has no manifest, so its only step type is %q, not %q", p.path, untyped, stepType)}
	case p.manifest != nil:
		t, ok := p.manifest.Steps[stepType]
		if !ok {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("module %s has no step type %q; it has %s", p.path, stepType, strings.Join(p.manifest.StepNames(), ", "))}
		}
		s.pure = t.Effects == sdk.EffectsNone && !s.changesFiles()
	}
	if need := p.shared.facts.Memory; need > s.limits.Memory {
		return nil, exhausted(codeMemory, "module %s needs at least %d MiB of memory, the limit is %d MiB", p.path, need>>20, s.limits.Memory>>20)
	}
	if p.isolation == loader.Process || s.limits.Isolation == loader.Process {
		return p.isolate(stepType, s.limits)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program != nil {
		return s, nil
	}
	var err error
	if p.program, err = p.shared.load(context.Background()); err != nil { // from the cache, unless that was damaged
		return nil, loadError(p.path, err)
	}
	return s, nil
}

// changesFiles reports whether an attempt can change what is there after it.
func (s *step) changesFiles() bool {
	w := s.limits.World
	return w != nil && slices.ContainsFunc(w.Mounts, func(m loader.Mount) bool { return m.ReadWrite })
}

// Close ends running attempts and waits for them.
func (p *plugin) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	for _, cancel := range p.cancels {
		cancel(errClosed)
	}
	workers := p.isolated
	p.mu.Unlock()
	var err error
	for _, w := range workers {
		err = errors.Join(err, w.close())
	}
	p.running.Wait()
	if first {
		p.release()
	}
	return err
}

// begin registers an attempt, so that Close ends it.
func (p *plugin) begin(a *attempt) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.ctx = ctx
	if p.cancels == nil {
		p.cancels = map[*attempt]context.CancelCauseFunc{}
	}
	p.cancels[a] = cancel
	p.running.Add(1)
	return func() {
		p.mu.Lock()
		delete(p.cancels, a)
		p.mu.Unlock()
		cancel(nil)
		p.running.Done()
	}, nil
}

// step is a step type; each Run is an attempt with an instance of its own.
type step struct {
	plugin *plugin
	limits loader.Limits
	pure   bool // no effects: time and randomness follow from the idempotency key
}

var _ sdk.Step = (*step)(nil)

func (s *step) Run(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	b, err := sdk.Marshal(req)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "the request cannot be encoded: " + err.Error()}
	}
	if int64(len(b)) > s.limits.Request {
		return nil, exhausted(codeRequestTooLarge, "the request has %d bytes, the limit is %d; pass less, or a reference", len(b), s.limits.Request)
	}
	a := &attempt{ctx: ctx, host: host, limits: s.limits}
	a.stderr.a = a
	if m := s.plugin.manifest; m != nil && m.IO == ioRaw {
		in, err := parseRawInput(req.Input)
		if err != nil {
			return nil, err
		}
		a.program = &rawProgram{in: in}
	}
	end, err := s.plugin.begin(a)
	if err != nil {
		return nil, err
	}
	defer end()
	r, err := s.plugin.program.run(a, b, s.pure, req.IdempotencyKey)
	if err != nil {
		var e *sdk.Error
		if !errors.As(err, &e) {
			e = sdk.AsError(err)
		}
		own := *e
		own.Stderr = a.stderr.text()
		return nil, &own
	}
	return r, nil
}

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// cast holds what steps and plugins are made to answer in the run that a test
// makes. It is set between runs.
type cast struct {
	answers hcl.Answers
	own     map[string]string  // step type by address of a step
	plugins map[plugged]string // those that are mocked, by name
}

// plugged tells plugins apart whichever copy of theirs is loaded.
type plugged struct {
	path   string
	digest sdk.Digest
}

func pluggedBy(a *loader.Artifact) plugged { return plugged{a.Path, a.Digest} }

// play sets the answers of the next run.
func (c *cast) play(flow *host.Flow, answers hcl.Answers) {
	c.answers, c.own, c.plugins = answers, map[string]string{}, map[plugged]string{}
	wf := flow.Workflow()
	for i := range wf.Steps {
		c.own[wf.Steps[i].Address()] = wf.Steps[i].StepType
	}
	for i := range wf.Plugins {
		if _, mocked := answers.Plugins[wf.Plugins[i].Name]; mocked {
			c.plugins[pluggedBy(flow.Artifact(i))] = wf.Plugins[i].Name
		}
	}
}

// answer is what a request gets instead of its plugin being asked; nil: ask.
func (c *cast) answer(a *loader.Artifact, stepType string, req *sdk.Request) (*hcl.Answer, error) {
	list, ok := c.answers.Steps[hcl.InstanceAddress(req.Step, req.Instance)]
	if !ok {
		list, ok = c.answers.Steps[req.Step]
	}
	if ok && c.own[req.Step] == stepType { // else a check or a fallback asks
		return nth(list, req.Attempt), nil
	}
	name, mocked := c.plugins[pluggedBy(a)]
	if !mocked {
		return nil, nil
	}
	if list, ok = c.answers.Plugins[name][stepType]; !ok {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: "not_mocked", Message: fmt.Sprintf("mock_plugin %q has no mock_step %q, which %s asks for", name, stepType, req.Step)}
	}
	return nth(list, req.Attempt), nil
}

// nth is the answer of an attempt: the last one is that of all further ones.
func nth(list []hcl.Answer, attempt int) *hcl.Answer {
	return &list[min(max(attempt, 1), len(list))-1]
}

// castLoader is a loader of whose plugins some are played.
type castLoader struct {
	loader.Loader
	cast *cast
}

func (l *castLoader) Load(_ context.Context, a *loader.Artifact) (loader.Plugin, error) {
	return &castPlugin{l: l, a: a}, nil
}

// castPlugin loads the plugin it stands for when something is asked that no
// answer is known to.
type castPlugin struct {
	l  *castLoader
	a  *loader.Artifact
	mu sync.Mutex
	p  loader.Plugin
}

func (p *castPlugin) real(ctx context.Context) (loader.Plugin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p != nil {
		return p.p, nil
	}
	real, err := p.l.Loader.Load(ctx, p.a)
	if err == nil {
		p.p = real
	}
	return real, err
}

func (p *castPlugin) Step(stepType string, limits loader.Limits) (sdk.Step, error) {
	return &castStep{p, stepType, limits}, nil
}

func (p *castPlugin) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p == nil {
		return nil
	}
	return p.p.Close()
}

type castStep struct {
	p        *castPlugin
	stepType string
	limits   loader.Limits
}

func (s *castStep) Run(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
	answer, err := s.p.l.cast.answer(s.p.a, s.stepType, req)
	switch {
	case err != nil:
		return nil, err
	case answer == nil:
		return s.ask(ctx, req, h)
	case answer.Error != nil:
		e := *answer.Error // who gets it may add to it
		return nil, &e
	}
	return &sdk.Response{Output: answer.Output}, nil
}

func (s *castStep) ask(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
	real, err := s.p.real(ctx)
	if err != nil {
		return nil, err
	}
	step, err := real.Step(s.stepType, s.limits)
	if err != nil {
		return nil, err
	}
	return step.Run(ctx, req, h)
}

package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

// Options say what is known of the step. The zero value checks little.
type Options struct {
	Type string       // the step type, sent in each request
	Spec sdk.StepType // of the manifest: its examples are run, its effects say whether attempts must repeat
	// Bad are inputs that must be refused as invalid_input or validation.
	// Defaults to one that is not an object.
	Bad []json.RawMessage
	// Slow is an input on which the step runs until it is told to stop. nil
	// leaves the checks of deadline and cancel out.
	Slow   json.RawMessage
	Config json.RawMessage // Defaults to {}
	Host   sdk.Host        // Defaults to one that accepts every operation
	// Within is how long the step may take to stop. Defaults to 10 s, which is
	// for busy machines; a step that is checked alone stops in milliseconds.
	Within time.Duration
	// Timeout is how long an attempt may take that is not told to stop. Defaults
	// to the manifest's timeout_ms, else 1 min.
	Timeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Bad == nil {
		o.Bad = []json.RawMessage{json.RawMessage(`"not an object"`)}
	}
	if o.Config == nil {
		o.Config = json.RawMessage(`{}`)
	}
	if o.Host == nil {
		o.Host = accept{}
	}
	if o.Within <= 0 {
		o.Within = 10 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Duration(o.Spec.TimeoutMS) * time.Millisecond
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
}

type accept struct{}

func (accept) Call(ctx context.Context, _ []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return []byte(`{"ok":{}}`), nil
}

// Result is one check: Err is nil if it holds.
type Result struct {
	Name string
	Err  error
}

// Run checks step and reports each check as a subtest.
func Run(t *testing.T, step sdk.Step, o Options) {
	t.Helper()
	for _, r := range Check(t.Context(), step, o) {
		t.Run(r.Name, func(t *testing.T) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// Check runs every check, one after the other, until ctx ends.
func Check(ctx context.Context, step sdk.Step, o Options) []Result {
	o.setDefaults()
	c := &checker{step: step, o: o}
	c.check("manifest", c.manifest)
	for i, e := range o.Spec.Examples {
		c.check(fmt.Sprintf("example %d", i), func() error { return c.example(ctx, e) })
	}
	for i, in := range o.Bad {
		c.check(fmt.Sprintf("bad input %d", i), func() error { return c.bad(ctx, in) })
	}
	if o.Spec.Effects == sdk.EffectsNone && len(o.Spec.Examples) > 0 {
		c.check("attempts repeat", func() error { return c.repeat(ctx) })
	}
	c.check("ended context", func() error { return c.ended(ctx) })
	if o.Slow != nil {
		c.check("deadline", func() error { return c.deadline(ctx) })
		c.check("cancel", func() error { return c.cancel(ctx) })
	}
	return c.results
}

type checker struct {
	step    sdk.Step
	o       Options
	base    sdk.Request // what requests hold where it matters
	output  *jsonschema.Schema
	results []Result
}

func (c *checker) check(name string, f func() error) {
	c.results = append(c.results, Result{name, f()})
}

// manifest wants schemas that can be read, and examples that fit them.
func (c *checker) manifest() error {
	input, err := jsonschema.Compile(c.o.Spec.Input, jsonschema.Options{})
	if err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	if c.output, err = jsonschema.Compile(c.o.Spec.Output, jsonschema.Options{}); err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	for i, e := range c.o.Spec.Examples {
		if err := fits(input, e.Input); err != nil {
			return fmt.Errorf("the input of example %d: %w", i, err)
		}
		if e.Output == nil {
			continue
		}
		if err := fits(c.output, e.Output); err != nil {
			return fmt.Errorf("the output of example %d: %w", i, err)
		}
	}
	return nil
}

// fits says every place of a text that does not fit a schema.
func fits(s *jsonschema.Schema, text json.RawMessage) error {
	ms, err := s.Check(text)
	if err != nil {
		return err
	}
	errs := make([]error, len(ms))
	for i, m := range ms {
		errs[i] = fmt.Errorf("at %q: %s", m.Path, m.Message)
	}
	return errors.Join(errs...)
}

// run is an attempt whose failure is an error, and whose output fits the
// schema.
func (c *checker) run(ctx context.Context, input json.RawMessage) (*sdk.Response, error) {
	r, err := c.attempt(ctx, input)
	switch {
	case err != nil:
		return nil, err
	case r.Error != nil:
		return nil, r.Error
	}
	if err := fits(c.output, r.Output); err != nil {
		return nil, fmt.Errorf("output %s: %w", r.Output, err)
	}
	return r, nil
}

// attempt runs the step once and reads its response as a host does.
func (c *checker) attempt(ctx context.Context, input json.RawMessage) (*sdk.Response, error) {
	req := c.base
	req.V, req.Input = sdk.Version, input
	fill(&req.StepType, c.o.Type)
	fill(&req.Workflow, "steptest")
	fill(&req.Run, "r_steptest")
	fill(&req.Step, "step.steptest")
	fill(&req.IdempotencyKey, "steptest")
	fill(&req.Engine, "steptest")
	req.Attempt = max(req.Attempt, 1)
	if req.Config == nil {
		req.Config = c.o.Config
	}
	if d, ok := ctx.Deadline(); ok {
		req.DeadlineMS = max(time.Until(d).Milliseconds(), 1)
	}
	r, err := c.step.Run(ctx, &req, c.o.Host)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, errors.New("neither a response nor an error")
	}
	b, err := sdk.Marshal(r)
	if err != nil {
		return nil, err
	}
	return sdk.ParseResponse(b)
}

func fill(s *string, text string) {
	if *s == "" {
		*s = text
	}
}

// bounded is run with the timeout of the options.
func (c *checker) bounded(ctx context.Context, input json.RawMessage) (*sdk.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	return c.run(ctx, input)
}

func (c *checker) example(ctx context.Context, e sdk.Example) error {
	r, err := c.bounded(ctx, e.Input)
	if err != nil {
		return fmt.Errorf("input %s: %w", e.Input, err)
	}
	if e.Output != nil && !equal(r.Output, e.Output) {
		return fmt.Errorf("input %s gives %s, the manifest says %s", e.Input, r.Output, e.Output)
	}
	return nil
}

func (c *checker) bad(ctx context.Context, input json.RawMessage) error {
	r, err := c.bounded(ctx, input)
	if err == nil {
		return fmt.Errorf("input %s gives %s, want an error of class invalid_input or validation", input, r.Output)
	}
	if e := sdk.AsError(err); e.Class != sdk.ClassInvalidInput && e.Class != sdk.ClassValidation {
		return fmt.Errorf("input %s gives %w, want class invalid_input or validation", input, e)
	}
	return nil
}

// repeat runs the examples in order and again, so that state that one leaves
// behind meets another.
func (c *checker) repeat(ctx context.Context) error {
	var first []json.RawMessage
	for range 2 {
		for i, e := range c.o.Spec.Examples {
			r, err := c.bounded(ctx, e.Input)
			switch {
			case err != nil:
				return fmt.Errorf("input %s: %w", e.Input, err)
			case len(first) < len(c.o.Spec.Examples):
				first = append(first, r.Output)
			case !equal(first[i], r.Output):
				return fmt.Errorf("input %s gives %s, then %s, though the step has no effects", e.Input, first[i], r.Output)
			}
		}
	}
	return nil
}

func (c *checker) ended(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errStop)
	input := json.RawMessage(`{}`)
	if len(c.o.Spec.Examples) > 0 {
		input = c.o.Spec.Examples[0].Input
	}
	return c.stops(ctx, input, sdk.ClassCancelled, true)
}

var errStop = &sdk.Error{Class: sdk.ClassCancelled, Message: "steptest stops the attempt"}

func (c *checker) deadline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	return c.stops(ctx, c.o.Slow, sdk.ClassTimeout, false)
}

func (c *checker) cancel(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(errStop) })
	defer timer.Stop()
	return c.stops(ctx, c.o.Slow, sdk.ClassCancelled, false)
}

// stops wants the attempt to end soon, as an error of the class. A step that
// does not look at its context may still answer when it is quick.
func (c *checker) stops(ctx context.Context, input json.RawMessage, want sdk.Class, quick bool) error {
	type ending struct {
		r   *sdk.Response
		err error
	}
	ended := make(chan ending, 1)
	go func() { // outlives the check only if the step does not stop, which is reported
		r, err := c.run(ctx, input)
		ended <- ending{r, err}
	}()
	select {
	case e := <-ended:
		switch {
		case e.err == nil && !quick:
			return fmt.Errorf("input %s gives %s, want it to run until it is stopped", input, e.r.Output)
		case e.err == nil:
			return nil
		}
		if got := class(ctx, e.err); got != want && !quick {
			return fmt.Errorf("stopped with %w, want class %s", e.err, want)
		}
		return nil
	case <-afterEnd(ctx, c.o.Within):
		return fmt.Errorf("still running %s after it should have stopped", c.o.Within)
	}
}

// class is that of an error a step may also give as its context's own.
func class(ctx context.Context, err error) sdk.Class {
	if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())) {
		return sdk.Ended(ctx).Class
	}
	return sdk.AsError(err).Class
}

// afterEnd fires some time after ctx has ended.
func afterEnd(ctx context.Context, d time.Duration) <-chan struct{} {
	late := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(late) }) })
	return late
}

// equal compares JSON texts; numbers are equal if they have the same value.
func equal(a, b json.RawMessage) bool {
	var x, y any
	return sdk.Unmarshal(a, &x) == nil && sdk.Unmarshal(b, &y) == nil && same(x, y)
}

func same(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		n, ok := y.(json.Number)
		return ok && sameNumber(x, n)
	case []any:
		a, ok := y.([]any)
		return ok && slices.EqualFunc(x, a, same)
	case map[string]any:
		o, ok := y.(map[string]any)
		return ok && maps.EqualFunc(x, o, same)
	}
	return x == y
}

func sameNumber(x, y json.Number) bool {
	if x == y {
		return true
	}
	a, errA := x.Float64()
	b, errB := y.Float64()
	_, wholeX := new(big.Int).SetString(x.String(), 10)
	_, wholeY := new(big.Int).SetString(y.String(), 10)
	return errA == nil && errB == nil && a == b && !(wholeX && wholeY) // whole numbers may have more digits than a float64
}

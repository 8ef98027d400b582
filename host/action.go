package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// actionSlot is an action in a run. One caller at a time runs it; those who
// wait for it take what it gave.
type actionSlot struct {
	busy  chan struct{} // holds a token while the action runs
	ended time.Time     // of the last success
	out   json.RawMessage
}

// act runs action k on behalf of who, unless it has succeeded after since.
func (r *run) act(ctx context.Context, k int, who string, since time.Time) *sdk.Error {
	slot := &r.actions[k]
	select {
	case slot.busy <- struct{}{}:
		defer func() { <-slot.busy }()
	case <-ctx.Done():
		return sdk.Ended(ctx)
	}
	if !slot.ended.IsZero() && slot.ended.After(since) {
		return nil
	}
	a := &r.s.f.wf.Actions[k]
	address := "action." + a.Name
	policies := retries(a.Retry)
	tries, began := make([]int, len(policies)), time.Now()
	for attempt := 1; ; attempt++ {
		out, err := r.runAction(ctx, k, address, attempt)
		if err == nil {
			slot.out, slot.ended = out, time.Now()
			return nil
		}
		h := checkpoint.NewHasher("engine/jitter/1")
		h.String(address)
		h.Int(attempt)
		delay, block := backoff(policies, tries, err, time.Since(began), h.Sum())
		if block < 0 || ctx.Err() != nil {
			e := *err
			e.Message = fmt.Sprintf("%s, which runs before the next attempt of %s, failed: %s", address, who, err.Message)
			return &e
		}
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return sdk.Ended(ctx)
		}
	}
}

// runAction is one attempt of action k.
func (r *run) runAction(ctx context.Context, k int, address string, attempt int) (json.RawMessage, *sdk.Error) {
	s, a := r.s, &r.s.f.wf.Actions[k]
	input, diags := s.eval.ActionInput(k)
	if diags.HasErrors() {
		return nil, inputError(diags)
	}
	st := s.f.types[stepTypeKey{a.Use.Plugin, a.Use.StepType}]
	if err := st.schemas.input.check(input, sdk.ClassInvalidInput, "the input"); err != nil {
		return nil, err
	}
	timeout := timeoutOf(a.Timeout, &st.StepType)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &sdk.Error{Class: sdk.ClassTimeout, Code: "attempt", Message: fmt.Sprintf("%s did not end within its timeout of %s; raise timeout if it needs longer", address, timeout)})
	defer cancel()
	step, err := r.load(ctx, address, a.Use, s.f.actions[k].limits)
	if err != nil {
		return nil, sdk.AsError(err)
	}
	ops := operation.New(operation.Options{Sink: &sink{r: r, step: address, attempt: attempt}, Network: r.h.o.Network, Grants: operation.Grants{Hosts: s.f.actions[k].hosts}})
	defer ops.Close()
	h := checkpoint.NewHasher("engine/idempotency/1")
	h.String(string(s.record.ID))
	h.String(address)
	h.Int(int(time.Now().UnixNano())) // each time it runs it is meant to happen
	resp, err := step.Run(ctx, &sdk.Request{
		V: sdk.Version, StepType: a.Use.StepType, Workflow: s.f.wf.Name, Run: string(s.record.ID), Step: address, Attempt: attempt,
		IdempotencyKey: h.Sum().String(), DeadlineMS: max(timeout.Milliseconds(), 1), Engine: r.h.o.Version, Input: input, Config: s.configs[a.Use.Plugin],
	}, ops)
	switch {
	case err != nil:
		return nil, ops.Own(sdk.AsError(err))
	case resp.Error != nil:
		return nil, ops.Own(resp.Error)
	}
	if err := st.schemas.output.check(resp.Output, sdk.ClassValidation, "the output"); err != nil {
		return nil, err
	}
	return resp.Output, nil
}

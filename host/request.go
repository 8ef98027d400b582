package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// request is what a step type is asked once: by an attempt of a step, its
// fallback or check, by an action, by an undo.
type request struct {
	who            string // for events and messages
	of             int32  // the step whose budget it uses; -1 for none
	step, instance string // as the plugin is told
	attempt        int
	use            hcl.Use
	grant          grant
	input, config  json.RawMessage
	key            string  // idempotency key
	secrets        []int   // that it names: of these the bound ones may be injected
	ticket         *ticket // of the plugin's limiter; nil: asked for, if there is one
	open           bool    // its answer is where secrets come from, and is not masked
	began          func()  // called when the plugin is ready; may be nil

	sent  bool        // the plugin was asked
	usage []sdk.Usage // what it cost, whatever became of it
}

// hidden are the members of the answer of which nothing may be shown: of one that
// secrets are taken from, all.
func (q *request) hidden() []string {
	if q.open {
		return []string{""}
	}
	return nil
}

// request carries q to its plugin when the plugin's limiter lets it, and checks
// the shape of the answer. ctx has the deadline.
func (r *run) request(ctx context.Context, q *request) (*sdk.Response, *sdk.Error) {
	if q.ticket == nil {
		var late *sdk.Error
		if q.ticket, late = r.line(ctx, q); late != nil {
			return nil, late
		}
	}
	resp, err := r.carryOut(ctx, q)
	r.called(q, err)
	return resp, err
}

// carryOut is request without its limiter and breaker.
func (r *run) carryOut(ctx context.Context, q *request) (*sdk.Response, *sdk.Error) {
	step, err := r.load(ctx, q.who, q.use, q.grant.limits)
	if err != nil {
		return nil, sdk.AsError(err)
	}
	received, err := checkpoint.Blobs(q.input)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "input: " + err.Error()}
	}
	kept := r.s.blobs()
	mask := r.s.secrets.redactor()
	ears := &sink{r: r, step: q.who, attempt: q.attempt, emitted: mask.Stream()}
	ops := operation.New(operation.Options{
		Sink:  ears,
		Blobs: kept, Received: received,
		Network: r.h.o.Network, Grants: operation.Grants{Hosts: q.grant.hosts, Secrets: r.s.secrets.grants(q.secrets), Redactor: mask},
	})
	defer ops.Close()
	settle, exceeded := r.reserve(ctx, q)
	if exceeded != nil {
		return nil, exceeded
	}
	defer settle()
	if q.began != nil {
		q.began()
	}
	deadline, _ := ctx.Deadline()
	q.sent = true
	resp, err := step.Run(ctx, &sdk.Request{
		V: sdk.Version, StepType: q.use.StepType, Workflow: r.s.f.wf.Name, Run: string(r.s.record.ID), Step: q.step, Instance: q.instance,
		Attempt: q.attempt, IdempotencyKey: q.key, DeadlineMS: max(time.Until(deadline).Milliseconds(), 1),
		Engine: r.h.o.Version, Input: q.input, Config: q.config,
	}, ops)
	ears.end()
	q.usage = ops.Usage()
	r.s.secrets.maskUsage(q.usage)
	if err != nil {
		return nil, r.text(ops.Own(sdk.AsError(err)))
	}
	own := resp.Error
	r.s.secrets.maskResponse(resp, q.open)
	q.usage = append(q.usage, resp.Usage...)
	if own != nil {
		return nil, r.text(ops.Own(own))
	}
	if err := kept.keep(ctx, resp.Output, ops.Holds); err != nil {
		return nil, err
	}
	if err := fits(r.s.f.types[stepTypeKey{q.use.Plugin, q.use.StepType}].schemas.output, resp.Output, sdk.ClassValidation, "the output", q.hidden()...); err != nil {
		return nil, err
	}
	return resp, nil
}

// outside is work outside of the graph: an action or an undo.
type outside struct {
	address string
	use     hcl.Use
	grant   grant
	timeout time.Duration // of one attempt, as the flow says
	retry   []RetryPolicy
	input   func() (json.RawMessage, hcl.Diagnostics)
	key     string
	secrets []int
	open    bool
	failed  func(attempt int, started time.Time, err *sdk.Error) // may be nil
}

// perform runs o until it succeeds, its retries are used up, its plugin cannot be
// loaded, or ctx ends. Waits
// between attempts are spent here: nothing else can go on before it has ended.
func (r *run) perform(ctx context.Context, o *outside) (json.RawMessage, *sdk.Error) {
	tries, began := make([]int, len(o.retry)), time.Now()
	for attempt := 1; ; attempt++ {
		release, err := r.prepare(ctx, o.address, o.use, o.grant.limits, false) // before its time begins
		if err != nil {
			return nil, r.text(err)
		}
		started := time.Now()
		out, err := r.performOnce(ctx, o, attempt)
		release()
		if err == nil {
			return out, nil
		}
		err = r.text(err)
		if o.failed != nil {
			o.failed(attempt, started, err)
		}
		delay, block := backoff(o.retry, tries, err, time.Since(began), jitter(o.address, attempt))
		if block < 0 || ctx.Err() != nil {
			return nil, err
		}
		t := time.NewTimer(r.h.o.delay(delay))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, sdk.Ended(ctx)
		}
	}
}

func (r *run) performOnce(ctx context.Context, o *outside, attempt int) (json.RawMessage, *sdk.Error) {
	if err := r.need(ctx, o.secrets, o.address); err != nil {
		return nil, err
	}
	input, diags := o.input()
	if diags.HasErrors() {
		return nil, inputError(diags)
	}
	config, err := r.config(o.use.Plugin)
	if err != nil {
		return nil, err
	}
	st := r.s.f.types[stepTypeKey{o.use.Plugin, o.use.StepType}]
	if err := fits(st.schemas.input, input, sdk.ClassInvalidInput, "the input", hidden(o.use)...); err != nil {
		return nil, err
	}
	timeout := timeoutOf(o.timeout, &st.StepType)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timedOut(o.address, timeout))
	defer cancel()
	resp, err := r.request(ctx, &request{who: o.address, of: -1, step: o.address, attempt: attempt, use: o.use, grant: o.grant, input: input, config: config, key: o.key, secrets: o.secrets, open: o.open})
	if err != nil {
		return nil, err
	}
	return resp.Output, nil
}

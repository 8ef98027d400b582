package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

func good(ctx context.Context, in struct{ Text string }, _ sdk.Host) (any, error) {
	if in.Text == "slow" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return map[string]any{"upper": strings.ToUpper(in.Text), "n": 1}, nil
}

func options() Options {
	return Options{Type: "good", Slow: json.RawMessage(`{"text":"slow"}`), Within: 50 * time.Millisecond, Spec: sdk.StepType{
		Output: json.RawMessage(`{"properties":{"upper":{"type":"string"}}}`),
		Examples: []sdk.Example{
			{Input: json.RawMessage(`{"text":"a"}`), Output: json.RawMessage(`{ "n":1, "upper":"A" }`)}, {Input: json.RawMessage(`{"text":"b"}`)}}}}
}

// TestManifests: what a manifest gets wrong by itself.
func TestManifests(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]sdk.StepType{
		"input schema: ":            {Input: json.RawMessage(`{"type":7}`)},
		"output schema: ":           {Output: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)},
		"the input of example 0: ":  {Input: json.RawMessage(`{"required":["text"]}`), Examples: []sdk.Example{{Input: json.RawMessage(`{}`)}}},
		"the output of example 0: ": {Output: json.RawMessage(`{"type":"object"}`), Examples: []sdk.Example{{Input: json.RawMessage(`{"text":"a"}`), Output: json.RawMessage(`7`)}}},
	} {
		r := Check(t.Context(), sdk.Func(good), Options{Spec: spec})[0]
		if r.Name != "manifest" || r.Err == nil || !strings.HasPrefix(r.Err.Error(), want) {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
	}
}

func TestAGoodStep(t *testing.T) {
	t.Parallel()
	Run(t, sdk.Func(good), options())
}

// TestBadStepsAreFound: for each check there is a step that only it finds.
func TestBadStepsAreFound(t *testing.T) {
	t.Parallel()
	ok := sdk.Func(good)
	n, first := 0, true
	for name, s := range map[string]sdk.StepFunc{
		"example 1": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if string(req.Input) == `{"text":"b"}` && first {
				first = false
				return sdk.Output(map[string]any{"upper": 7})
			}
			return ok.Run(ctx, req, h)
		},
		"example 0": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if string(req.Input) == `{"text":"a"}` {
				return sdk.Output(map[string]any{"upper": "A", "n": 2})
			}
			return ok.Run(ctx, req, h)
		},
		"bad input 0": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if req.Input[0] == '"' {
				return nil, errors.New("unclear")
			}
			return ok.Run(ctx, req, h)
		},
		"attempts repeat": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if n++; string(req.Input) == `{"text":"b"}` {
				return sdk.Output(map[string]any{"upper": "B", "n": n})
			}
			return ok.Run(ctx, req, h)
		},
		"deadline": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if _, has := ctx.Deadline(); has && string(req.Input) == `{"text":"slow"}` {
				return nil, &sdk.Error{Class: sdk.ClassQuota}
			}
			return ok.Run(ctx, req, h)
		},
		"cancel": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if _, has := ctx.Deadline(); !has && string(req.Input) == `{"text":"slow"}` {
				return sdk.Output("at once")
			}
			return ok.Run(ctx, req, h)
		},
		"ended context": func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
			if ctx.Err() != nil {
				<-t.Context().Done()
			}
			return ok.Run(ctx, req, h)
		},
	} {
		for _, r := range Check(t.Context(), s, options()) {
			if (r.Err != nil) != (r.Name == name) {
				t.Errorf("a step that is wrong in %q: %s gives %v", name, r.Name, r.Err)
			}
		}
	}
}

// Command http is the plugin std/http: requests to web services. What it may
// reach, and which secrets it may send, the flow's sandbox and secret blocks
// say; the host does the rest.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"get": sdk.StepFunc(get), "request": sdk.StepFunc(request)})
}

// get is request without what changes the world.
func get(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	return do(ctx, req, host, "GET", "HEAD")
}

func request(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	return do(ctx, req, host)
}

type output struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`        // names in lower case, several values joined by ", "
	JSON    json.RawMessage   `json:"json,omitempty"` // the body, if it is JSON
	Text    *string           `json:"text,omitempty"` // the body, if it is other text
	Blob    *sdk.Blob         `json:"blob,omitempty"` // the body, if it is neither
}

// do sends one request; methods are those that are allowed, none for all.
func do(ctx context.Context, req *sdk.Request, host sdk.Host, methods ...string) (*sdk.Response, error) {
	in, err := parse(req.Input)
	if err != nil {
		return nil, err
	}
	if methods != nil && !slices.Contains(methods, in.Method) {
		return nil, invalid("/method", "this step type sends %s; use request for %s", strings.Join(methods, " and "), in.Method)
	}
	op, body, err := in.op()
	if err != nil {
		return nil, err
	}
	if methods == nil && op.Headers["Idempotency-Key"] == nil && req.IdempotencyKey != "" {
		op.Headers["Idempotency-Key"] = []string{req.IdempotencyKey}
	}
	rep, data, err := sdk.HTTP(ctx, host, *op, body)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(in.OKStatus, rep.Status) {
		if e := rep.Err(data); e != nil {
			return nil, e
		}
	}
	out := output{Status: rep.Status, Headers: map[string]string{}}
	for name, values := range rep.Headers {
		out.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if err := out.body(ctx, host, in.Response, data); err != nil {
		return nil, err
	}
	return sdk.Output(out)
}

// body puts the body into one of three places: where the flow wants it, else
// where it fits.
func (o *output) body(ctx context.Context, host sdk.Host, as string, data []byte) error {
	strict := sdk.CheckJSON(data)
	switch {
	case as == "json" && strict != nil:
		return &sdk.Error{Class: sdk.ClassValidation, Code: "json", Message: fmt.Sprintf("the body is not JSON: %v%s", strict, sdk.Seen(data))}
	case as == "json", as == "" && strict == nil && strings.Contains(o.Headers["content-type"], "json"):
		o.JSON = data
	case as != "blob" && utf8.Valid(data):
		text := string(data)
		o.Text = &text
	case as == "text":
		return &sdk.Error{Class: sdk.ClassValidation, Code: "text", Message: "the body is not text in UTF-8" + sdk.Seen(data)}
	default:
		return o.blob(ctx, host, data)
	}
	return nil
}

func (o *output) blob(ctx context.Context, host sdk.Host, data []byte) error {
	ok, _, err := sdk.Operate(ctx, host, sdk.BlobPutOp{Op: sdk.OpBlobPut, Type: o.Headers["content-type"]}, data)
	if err != nil {
		return err
	}
	o.Blob = new(sdk.Blob)
	return sdk.Unmarshal(ok, o.Blob)
}

func invalid(path, format string, args ...any) error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: fmt.Sprintf(format, args...)}
}

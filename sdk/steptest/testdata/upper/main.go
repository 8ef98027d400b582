// Upper is the step that the conformance tests run on every carrier: the same
// source is built as a module and as a native plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

type input struct {
	Text string `json:"text"`
}

type output struct {
	Upper string `json:"upper"`
	Words int    `json:"words"`
}

func upper(_ context.Context, in input, _ sdk.Host) (output, error) {
	if in.Text == "" {
		return output{}, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "text is missing", Path: "/text"}
	}
	return output{strings.ToUpper(in.Text), len(strings.Fields(in.Text))}, nil
}

// wait runs until it is told to stop. A module has one thread: without the
// timer there would be nothing it could wait for.
func wait(ctx context.Context, _ struct{}, host sdk.Host) (any, error) {
	sdk.Log(ctx, host, "info", "waiting", nil)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(time.Hour):
		return "waited", nil
	}
}

func fail(ctx context.Context, in struct{ How string }, host sdk.Host) (any, error) {
	fmt.Fprintln(os.Stderr, "about to fail: 中文 🏴")
	switch in.How {
	case "panic":
		panic("at the step")
	case "quota":
		return nil, &sdk.Error{Class: sdk.ClassQuota, Code: "used_up", Message: "no more", RetryAfterMS: 5}
	case "class":
		return nil, &sdk.Error{Class: sdk.ClassSandbox, Message: "not a step's word"}
	case "unsupported":
		_, _, err := sdk.Operate(ctx, host, map[string]string{"op": "http"}, []byte("body"))
		return nil, err
	}
	return nil, fmt.Errorf("plain error")
}

func main() {
	serve.Main(map[string]sdk.Step{"upper": sdk.Func(upper), "wait": sdk.Func(wait), "fail": sdk.Func(fail)})
}

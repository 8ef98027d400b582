// Command note is a native plugin that changes the world: it appends the key of
// each attempt to a file, so that a test can see how often it happened.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

type input struct {
	File string `json:"file"`
	Text string `json:"text"`
}

func note(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
	var in input
	if err := sdk.Unmarshal(req.Input, &in); err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: err.Error()}
	}
	f, err := os.OpenFile(in.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", req.Step, req.IdempotencyKey); err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Millisecond) // a kill may come between the deed and the answer
	return sdk.Output(map[string]any{"noted": in.Text})
}

func main() { serve.Main(map[string]sdk.Step{"note": sdk.StepFunc(note)}) }

// Command json is the plugin std/json: data reshaped by filters of jq.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"jq": sdk.Func(jq)})
}

type input struct {
	Filter string         `json:"filter"`
	Data   any            `json:"data"`
	Vars   map[string]any `json:"vars"` // $name in the filter
}

// output holds what the filter gave, in order. Result is the first of Results,
// null when there is none.
type output struct {
	Result  json.RawMessage   `json:"result"`
	Results []json.RawMessage `json:"results"`
}

// maxResults ends filters that would never end, such as repeat(1).
const maxResults = 100_000

func jq(ctx context.Context, in input, _ sdk.Host) (*output, error) {
	names := slices.Sorted(maps.Keys(in.Vars))
	code, err := compile(in.Filter, names)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/filter", Message: "the filter cannot be used: " + err.Error()}
	}
	values := make([]any, len(names))
	for i, n := range names {
		values[i] = in.Vars[n]
	}
	out := &output{Result: json.RawMessage("null"), Results: []json.RawMessage{}}
	for results := code.RunWithContext(ctx, in.Data, values...); ; {
		v, ok := results.Next()
		if !ok {
			break
		}
		if err, failed := v.(error); failed {
			if halted(err) {
				break
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: "jq", Message: fmt.Sprintf("the filter failed at its result %d: %v", len(out.Results)+1, err)}
		}
		if len(out.Results) == maxResults {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: "too_many_results", Path: "/filter",
				Message: fmt.Sprintf("the filter gives more than %d results; wrap it in limit(n; ...) or [ ... ]", maxResults)}
		}
		b, err := gojq.Marshal(v)
		if err != nil {
			return nil, err
		}
		out.Results = append(out.Results, b)
	}
	if len(out.Results) > 0 {
		out.Result = out.Results[0]
	}
	return out, nil
}

// halted: the filter said `halt`, which ends it without an error.
func halted(err error) bool {
	var h *gojq.HaltError
	return errors.As(err, &h) && h.ExitCode() == 0
}

// compile makes a filter without environment, files or further inputs.
func compile(filter string, names []string) (*gojq.Code, error) {
	if strings.TrimSpace(filter) == "" {
		return nil, errors.New(`it is empty; "." gives the data as it is`)
	}
	q, err := gojq.Parse(filter)
	if err != nil {
		var at *gojq.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%w at byte %d", err, at.Offset)
		}
		return nil, err
	}
	vars := make([]string, len(names))
	for i, n := range names {
		vars[i] = "$" + n
	}
	return gojq.Compile(q, gojq.WithVariables(vars))
}

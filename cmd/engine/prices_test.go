package main

import (
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// What is not known is told as unknown, never as 0 or as nothing.
func TestSpent(t *testing.T) {
	t.Parallel()
	counted, lost := sdk.Usage{Model: "m", Calls: 2, Counted: 2, InputTokens: 30, OutputTokens: 6}, sdk.Usage{Model: "n", Calls: 1}
	for want, c := range map[string]struct {
		usage []sdk.Usage
		cost  checkpoint.Cost
	}{
		"":                             {},
		"2 calls of models, 36 tokens": {[]sdk.Usage{counted}, checkpoint.Cost{}},
		"2 calls of models, 36 tokens, 0.5000 USD":                                                         {[]sdk.Usage{counted}, checkpoint.Cost{USD: 0.5}},
		"1 call of models, tokens unknown, price unknown":                                                  {[]sdk.Usage{lost}, checkpoint.Cost{Unknown: true}},
		"3 calls of models, 36 tokens and those of 1 call unknown, 0.5000 USD and what has no known price": {[]sdk.Usage{counted, lost}, checkpoint.Cost{USD: 0.5, Unknown: true}},
	} {
		if got := spent(c.usage, c.cost); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

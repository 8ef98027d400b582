package main

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

// listPrices are those that providers asked on the file's date.
//
//go:embed prices.json
var listPrices []byte

// prices reads a file of prices, or gives those that the engine came with.
func prices(file string) (*host.Prices, error) {
	b := listPrices
	if file != "" {
		var err error
		if b, err = os.ReadFile(file); err != nil {
			return nil, exit(exitUsage, "--prices: %w", err)
		}
	}
	p, err := host.ParsePrices(b)
	if err != nil && file != "" {
		return nil, exit(exitUsage, "%s: %w", file, err)
	}
	return p, err
}

// spent says what calls of models used, "" for none.
func spent(usage []sdk.Usage, usd float64, known bool) string {
	var calls, tokens int64
	for _, u := range usage {
		calls += max(u.Calls, 1)
		tokens += u.InputTokens + u.OutputTokens
	}
	if calls == 0 {
		return ""
	}
	s := fmt.Sprintf("%s of models, %d tokens", count(int(calls), "call"), tokens)
	switch {
	case known:
		s += fmt.Sprintf(", %.4f USD", usd)
	case usd > 0:
		s += fmt.Sprintf(", %.4f USD and what has no known price", usd)
	default:
		s += ", price unknown"
	}
	return s
}

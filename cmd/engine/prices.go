package main

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/retrace-dev/engine/checkpoint"
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

// listDate is the day of the prices that the engine came with.
func listDate() string {
	p, err := prices("")
	if err != nil {
		panic("the list of prices in this engine: " + err.Error())
	}
	return p.Date
}

// spent says what calls of models used and cost, "" for none.
func spent(usage []sdk.Usage, cost checkpoint.Cost) string {
	var calls, uncounted, tokens int64
	for _, u := range usage {
		calls += max(u.Calls, 1)
		uncounted += max(u.Calls-u.Counted, 0)
		tokens += u.InputTokens + u.OutputTokens
	}
	if calls == 0 {
		return ""
	}
	s := count(int(calls), "call") + " of models, "
	switch { // what nobody counted is not 0
	case uncounted > 0 && tokens == 0:
		s += "tokens unknown"
	case uncounted > 0:
		s += fmt.Sprintf("%d tokens and those of %s unknown", tokens, count(int(uncounted), "call"))
	default:
		s += fmt.Sprintf("%d tokens", tokens)
	}
	if cost != (checkpoint.Cost{}) {
		s += ", " + cost.String()
	}
	return s
}

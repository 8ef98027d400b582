package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// Prices say what the tokens of models cost. They are those of one day: who
// pays others gives a file of their own.
type Prices struct {
	Date   string           `json:"date"` // when they held, "2006-01-02"
	Models map[string]Price `json:"models"`
}

// Price is what a million tokens cost, in USD.
type Price struct {
	Input      float64  `json:"input"`
	Output     float64  `json:"output"`
	Cached     *float64 `json:"cached,omitempty"`      // read from the provider's cache; nil: as Input
	CacheWrite *float64 `json:"cache_write,omitempty"` // put into it; nil: as Input
}

// ParsePrices reads a file of prices. The error says what is wrong with it.
func ParsePrices(b []byte) (*Prices, error) {
	var p Prices
	if err := sdk.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
		return nil, fmt.Errorf("prices: date %q; want the day on which they hold, such as %q", p.Date, "2026-01-31")
	}
	var errs []error
	for name, m := range p.Models {
		if name == "" || m.Input < 0 || m.Output < 0 || m.Cached != nil && *m.Cached < 0 || m.CacheWrite != nil && *m.CacheWrite < 0 {
			errs = append(errs, fmt.Errorf("prices: model %q: a price is a number of USD per million tokens, from 0", name))
		}
	}
	return &p, errors.Join(errs...)
}

// price is that of a model: its own, or that of the name without the date that
// providers put behind it ("gpt-x-2026-01-31" is "gpt-x").
func (p *Prices) price(model string) (Price, bool) {
	if p == nil {
		return Price{}, false
	}
	for name := model; name != ""; {
		if m, ok := p.Models[name]; ok {
			return m, true
		}
		cut := strings.LastIndexByte(name, '-')
		if cut < 0 || strings.Trim(name[cut+1:], "0123456789") != "" {
			break
		}
		name = name[:cut]
	}
	return Price{}, false
}

// Cost is what usage costs in USD. known is false when the price of a model or
// the tokens of a call are not known; usd is then what is known of it.
func (p *Prices) Cost(usage []sdk.Usage) (usd float64, known bool) {
	known = true
	for i := range usage {
		u := &usage[i]
		if u.Calls > u.Counted && u.Counted > 0 {
			known = false
		}
		if u.InputTokens == 0 && u.OutputTokens == 0 {
			known = known && u.Calls == 0
			continue
		}
		m, ok := p.price(u.Model)
		if !ok {
			known = false
			continue
		}
		plain := u.InputTokens - u.CachedTokens - u.CacheWriteTokens
		usd += (float64(max(plain, 0))*m.Input + float64(u.OutputTokens)*m.Output +
			float64(u.CachedTokens)*or(m.Cached, m.Input) + float64(u.CacheWriteTokens)*or(m.CacheWrite, m.Input)) / 1e6
	}
	return usd, known
}

func or(p *float64, otherwise float64) float64 {
	if p != nil {
		return *p
	}
	return otherwise
}

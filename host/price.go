package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
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

// Cost is what usage costs. What has no price, and calls whose tokens nobody
// has counted, are unknown.
func (p *Prices) Cost(usage []sdk.Usage) (c checkpoint.Cost) {
	for i := range usage {
		u := &usage[i]
		if u.Calls > u.Counted && u.Counted > 0 {
			c.Unknown = true
		}
		if u.InputTokens == 0 && u.OutputTokens == 0 {
			c.Unknown = c.Unknown || u.Calls > 0
			continue
		}
		m, ok := p.price(u.Model)
		if !ok {
			c.Unknown = true
			continue
		}
		plain := u.InputTokens - u.CachedTokens - u.CacheWriteTokens
		c.USD += (float64(max(plain, 0))*m.Input + float64(u.OutputTokens)*m.Output +
			float64(u.CachedTokens)*or(m.Cached, m.Input) + float64(u.CacheWriteTokens)*or(m.CacheWrite, m.Input)) / 1e6
	}
	return c
}

// unpriced are the models in usage that have no price.
func (p *Prices) unpriced(usage []sdk.Usage) (models []string) {
	for i := range usage {
		if _, ok := p.price(usage[i].Model); !ok && !slices.Contains(models, usage[i].Model) {
			models = append(models, usage[i].Model)
		}
	}
	return models
}

func (p *Prices) date() string {
	if p == nil {
		return ""
	}
	return p.Date
}

func or(p *float64, otherwise float64) float64 {
	if p != nil {
		return *p
	}
	return otherwise
}

package host

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// callers are eight steps side by side, each of which calls a model once.
func callers(t *testing.T, budget *hcl.Budget) (*fake, *atomic.Int64) {
	var calls atomic.Int64
	k := &fake{tb: t, paid: true, budget: budget}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		k.steps = append(k.steps, fakeStep{name: name})
	}
	k.run = func(context.Context, *sdk.Request) (*sdk.Response, error) {
		calls.Add(1)
		return &sdk.Response{Output: []byte(`"x"`), Usage: []sdk.Usage{{Model: "m-2026-01-31", Calls: 1, Counted: 1, InputTokens: 1000, OutputTokens: 200}}}, nil
	}
	return k, &calls
}

// TestBudget: a fan-out does not overshoot, what it has paid for is kept, and a
// larger budget goes on from there.
func TestBudget(t *testing.T) {
	t.Parallel()
	prices := &Prices{Date: "2026-01-31", Models: map[string]Price{"m": {Input: 1, Output: 5}}} // 0.002 USD a call
	for name, c := range map[string]struct {
		budget hcl.Budget
		calls  int64
		says   string
	}{
		"calls":  {hcl.Budget{Calls: 3}, 3, "3 calls"},
		"tokens": {hcl.Budget{Tokens: 5000}, 4, "5000 tokens"}, // four took 4,800; the fifth could need 1,024 and its question
		"usd":    {hcl.Budget{USD: 0.0075}, 2, "0.0075 USD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, calls := callers(t, &c.budget)
			o := Options{Store: checkpoint.NewMemoryStore(), Prices: prices, Concurrency: 4}
			if name == "usd" { // what a call may cost is only guessed for a model that the input names
				k.config = `{"model":"m"}`
				o.Concurrency = 1
			}
			res := k.mustApply(o)
			if n := calls.Load(); n > c.calls || n == 0 {
				t.Fatalf("%d calls were made, the budget is %s", n, c.says)
			}
			if res.Run.Status != checkpoint.RunFailed || res.Run.Error == nil || res.Run.Error.Code != CodeBudget || !strings.Contains(res.Run.Error.Message, c.says) {
				t.Fatalf("run is %s: %v", res.Run.Status, res.Run.Error)
			}
			if len(res.Failures) > 0 || res.Counts.Failed > 0 {
				t.Fatalf("steps count as failed: %v", res.Failures)
			}
			before := calls.Load()
			if again := k.mustApply(o); again.Run.Error == nil || calls.Load() != before {
				t.Fatalf("what was spent was forgotten: %d calls more, %v", calls.Load()-before, again.Run.Error)
			}
			k.budget = &hcl.Budget{Calls: 8}
			if res := k.mustApply(o); res.Run.Status != checkpoint.RunSucceeded || calls.Load() != 8 {
				t.Fatalf("with a larger budget the run is %s after %d calls", res.Run.Status, calls.Load())
			}
		})
	}
}

// TestStepBudget: the budget of a step is that of all its instances together.
func TestStepBudget(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	k := &fake{tb: t, paid: true, steps: []fakeStep{{name: "fan", each: func(hcl.Upstream) hcl.Expansion {
		x := hcl.Expansion{List: true}
		for n := range 9 {
			x.Each = append(x.Each, hcl.Each{Key: json.RawMessage(strconv.Itoa(n)), Value: json.RawMessage(strconv.Itoa(n))})
		}
		return x
	}}}}
	k.run = func(context.Context, *sdk.Request) (*sdk.Response, error) {
		calls.Add(1)
		return &sdk.Response{Output: []byte(`"x"`), Usage: []sdk.Usage{{Model: "m", Calls: 1, Counted: 1, OutputTokens: 10}}}, nil
	}
	store := checkpoint.NewMemoryStore()
	with := func(b *hcl.Budget) *Result {
		t.Helper()
		f := k.flow()
		f.wf.Steps[0].Budget = b
		h, err := New(Options{Store: store, Concurrency: 4})
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.apply(context.Background(), f, k.inputs(), RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := with(&hcl.Budget{Calls: 3})
	if calls.Load() != 3 || res.Run.Error == nil || res.Run.Error.Code != CodeBudget || !strings.Contains(res.Run.Error.Message, "the budget of step.fan is 3 calls") {
		t.Fatalf("%d calls, %v", calls.Load(), res.Run.Error)
	}
	attempts, err := store.Attempts(context.Background(), DefaultTenant, res.Run.ID)
	if err != nil || len(attempts) != 0 { // what was not sent is no attempt
		t.Errorf("%d attempts failed, %v", len(attempts), err)
	}
	if res := with(&hcl.Budget{Calls: 9}); res.Run.Status != checkpoint.RunSucceeded || calls.Load() != 9 {
		t.Errorf("with a larger budget the run is %s after %d calls", res.Run.Status, calls.Load())
	}
}

// TestBudgetOfUnknownPrice: where a bound in USD cannot be kept, nothing is sent.
func TestBudgetOfUnknownPrice(t *testing.T) {
	t.Parallel()
	k, calls := callers(t, &hcl.Budget{USD: 1})
	k.config = `{"model":"nobody-knows"}`
	res := k.mustApply(Options{Store: checkpoint.NewMemoryStore(), Prices: &Prices{Date: "2026-01-31"}})
	if calls.Load() != 0 || len(res.Failures) != 8 || res.Failures[0].Error.Code != "no_price" || !strings.Contains(res.Failures[0].Error.Message, `no price is known for model "nobody-knows"; give it in the file of --prices`) {
		t.Errorf("%d calls, %+v", calls.Load(), res.Failures)
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	p, err := ParsePrices([]byte(`{"date":"2026-01-31","models":{"a":{"input":2,"output":10,"cached":0.5},"a-mini":{"input":1,"output":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		usage []sdk.Usage
		usd   float64
		known bool
	}{
		"nothing":                {nil, 0, true},
		"cached is cheaper":      {[]sdk.Usage{{Model: "a", Calls: 1, Counted: 1, InputTokens: 1e6, CachedTokens: 4e5, OutputTokens: 1e5}}, 1.2 + 0.2 + 1, true},
		"a date behind the name": {[]sdk.Usage{{Model: "a-mini-2026-01-31", Calls: 1, Counted: 1, InputTokens: 1e6}}, 1, true},
		"another model":          {[]sdk.Usage{{Model: "a-large", Calls: 1, Counted: 1, InputTokens: 1e6}}, 0, false},
		"tokens not reported":    {[]sdk.Usage{{Model: "a", Calls: 1}}, 0, false},
		"known and unknown":      {[]sdk.Usage{{Model: "b", Calls: 1, Counted: 1, InputTokens: 5}, {Model: "a-mini", Calls: 1, Counted: 1, OutputTokens: 1e6}}, 1, false},
	} {
		if got := p.Cost(c.usage); math.Abs(got.USD-c.usd) > 1e-9 || got.Unknown == c.known {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, bad := range []string{`{`, `{"models":{}}`, `{"date":"yesterday","models":{}}`, `{"date":"2026-01-31","models":{"a":{"input":-1,"output":1}}}`} {
		if _, err := ParsePrices([]byte(bad)); err == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
	if c := (*Prices)(nil).Cost([]sdk.Usage{{Model: "a", InputTokens: 1}}); c != (checkpoint.Cost{Unknown: true}) {
		t.Error("without prices a cost is known")
	}
}

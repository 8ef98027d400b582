package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// CodeBudget is the code of the error of a run that has used up its budget.
const CodeBudget = "budget"

// amount is what calls of models use.
type amount struct {
	calls, tokens int64
	usd           float64
	unpriced      string // a model whose price is not known
}

func (a amount) plus(b amount, sign int64) amount {
	return amount{calls: a.calls + sign*b.calls, tokens: a.tokens + sign*b.tokens, usd: a.usd + float64(sign)*b.usd}
}

// purse guards a budget of the workflow or of a step. A call reserves what it
// may use before it is sent and settles what it has used afterwards, so that
// calls side by side cannot overshoot together. Safe for concurrent use.
type purse struct {
	whose  string
	budget hcl.Budget

	mu          sync.Mutex
	spent, held amount
	settled     chan struct{} // closed and replaced whenever something was settled
}

func newPurse(whose string, b *hcl.Budget, spent amount) *purse {
	return &purse{whose: whose, budget: *b, spent: spent, settled: make(chan struct{})}
}

// over is the part of the budget that a exceeds; "" for none.
func (p *purse) over(a amount) string {
	b := &p.budget
	switch {
	case b.Calls > 0 && a.calls > b.Calls:
		return fmt.Sprintf("%d calls", b.Calls)
	case b.Tokens > 0 && a.tokens > b.Tokens:
		return fmt.Sprintf("%d tokens", b.Tokens)
	case b.USD > 0 && a.usd > b.USD:
		return fmt.Sprintf("%g USD", b.USD)
	}
	return ""
}

// reserve holds a. It waits while others may still give back what they hold.
func (p *purse) reserve(ctx context.Context, a amount) *sdk.Error {
	if p.budget.USD > 0 && a.unpriced != "" { // unknown is not nothing
		return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "no_price", Message: fmt.Sprintf(
			"the budget of %s is %g USD, and no price is known for model %q; give it in the file of --prices, or bound tokens or calls instead", p.whose, p.budget.USD, a.unpriced)}
	}
	for {
		p.mu.Lock()
		all := p.spent.plus(p.held, 1).plus(a, 1)
		what := p.over(all)
		if what == "" {
			p.held = p.held.plus(a, 1)
			p.mu.Unlock()
			return nil
		}
		spent, alone, settled := p.spent, p.held.calls == 0, p.settled
		p.mu.Unlock()
		if alone {
			return &sdk.Error{Class: sdk.ClassQuota, Code: CodeBudget, Message: fmt.Sprintf(
				"the budget of %s is %s; %d calls, %d tokens and %.4f USD are spent, and the next call may need up to %d tokens. What has finished is kept: raise the budget and run the same command to go on",
				p.whose, what, spent.calls, spent.tokens, spent.usd, a.tokens)}
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return sdk.Ended(ctx)
		}
	}
}

// settle gives back what was held and counts what was spent.
func (p *purse) settle(held, spent amount) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.spent = p.held.plus(held, -1), p.spent.plus(spent, 1)
	close(p.settled)
	p.settled = make(chan struct{})
}

// defaultMaxTokens is reserved for the answer of a call that sets no bound.
const defaultMaxTokens = 1024

// paid says that calls of a step type may cost something: it reaches the
// network.
func (f *Flow) paid(use hcl.Use) bool {
	st := f.types[stepTypeKey{use.Plugin, use.StepType}]
	return st != nil && slices.Contains(st.Ops, "http")
}

// estimate is the most that a request is likely to use: a quarter of a token
// for each byte, and the answer's bound.
func (r *run) estimate(config, input json.RawMessage) amount {
	var in struct {
		Model     string `json:"model"`
		MaxTokens int64  `json:"max_tokens"`
	}
	_ = json.Unmarshal(config, &in) // what is not there stays as it is
	_ = json.Unmarshal(input, &in)
	if in.MaxTokens <= 0 {
		in.MaxTokens = defaultMaxTokens
	}
	prompt := int64(len(input)/4 + 1)
	a := amount{calls: 1, tokens: prompt + in.MaxTokens}
	usage := []sdk.Usage{{Model: in.Model, InputTokens: prompt, OutputTokens: in.MaxTokens}}
	a.usd = r.h.o.Prices.Cost(usage).USD
	if in.Model != "" && len(r.h.o.Prices.unpriced(usage)) > 0 {
		a.unpriced = in.Model
	}
	return a
}

// spentOn is what usage took from a budget.
func (r *run) spentOn(usage []sdk.Usage) (a amount) {
	for _, u := range usage {
		a.calls += max(u.Calls, 1)
		a.tokens += u.InputTokens + u.OutputTokens
	}
	a.usd = r.h.o.Prices.Cost(usage).USD
	return a
}

// reserve takes q from the budgets that it belongs to. settle must be called
// when the answer is there.
func (r *run) reserve(ctx context.Context, q *request) (settle func(), err *sdk.Error) {
	var ps []*purse
	if r.s.f.paid(q.use) {
		if r.purse != nil {
			ps = append(ps, r.purse)
		}
		if p := r.purses[q.of]; p != nil && q.of >= 0 {
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return func() {}, nil
	}
	a := r.estimate(q.config, q.input)
	for k, p := range ps {
		if err := p.reserve(ctx, a); err != nil {
			for _, p := range ps[:k] {
				p.settle(a, amount{})
			}
			return nil, err
		}
	}
	return func() {
		spent := r.spentOn(q.usage)
		spent.calls = max(spent.calls, 1)
		for _, p := range ps {
			p.settle(a, spent)
		}
	}, nil
}

// openPurses makes the budgets of a run, with what earlier continuations of it
// have spent.
func (r *run) openPurses(ctx context.Context) error {
	s := r.s
	r.purses = map[int32]*purse{}
	budgets := s.f.wf.Budget != nil
	for i := range s.f.steps {
		budgets = budgets || s.f.steps[i].Budget != nil
	}
	if !budgets {
		return nil
	}
	all, by := amount{}, map[string]amount{}
	if s.continued {
		add := func(step string, usage []sdk.Usage) {
			if len(usage) > 0 {
				a := r.spentOn(usage)
				all, by[step] = all.plus(a, 1), by[step].plus(a, 1)
			}
		}
		attempts, err := r.h.o.Store.Attempts(ctx, r.h.o.Tenant, s.record.ID)
		if err != nil {
			return &storeError{err}
		}
		for _, a := range attempts {
			add(a.Step, a.Usage)
		}
		for hd := range s.index.Heads() {
			if hd.Run != s.record.ID || hd.Outcome != checkpoint.Succeeded {
				continue
			}
			rec, err := r.h.o.Store.Record(ctx, r.h.o.Tenant, hd.Seq)
			if err != nil {
				return &storeError{fmt.Errorf("record of %s: %w", hd.Step, err)}
			}
			if rec.Context.Producer.Run == s.record.ID {
				add(hd.Step, rec.Context.Usage)
			}
		}
	}
	if b := s.f.wf.Budget; b != nil {
		r.purse = newPurse("the run", b, all)
	}
	for i := range s.f.steps {
		if b := s.f.steps[i].Budget; b != nil {
			r.purses[int32(i)] = newPurse(s.f.steps[i].address, b, by[s.f.steps[i].address])
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// bill is what attempts have used, and what that cost.
type bill struct {
	Usage []sdk.Usage     `json:"usage,omitempty"` // by model
	Cost  checkpoint.Cost `json:"cost,omitzero"`
}

func (b *bill) add(usage []sdk.Usage, cost checkpoint.Cost) {
	for _, u := range usage {
		b.Usage = operation.Add(b.Usage, u)
	}
	b.Cost = b.Cost.Plus(cost)
}

// String begins with a comma; "" for nothing.
func (b *bill) String() string {
	if s := spent(b.Usage, b.Cost); s != "" {
		return ", " + s
	}
	return ""
}

// bill is that of a step.
func (st *shownStep) bill() (b bill) {
	for i := range st.Attempts {
		b.add(st.Attempts[i].Usage, st.Attempts[i].Cost)
	}
	return b
}

// billOf is that of steps together.
func billOf(steps []*shownStep) (b bill) {
	for _, st := range steps {
		one := st.bill()
		b.add(one.Usage, one.Cost)
	}
	return b
}

// spared is what the reuse of steps saved, "" if nothing was reused.
func spared(steps []*shownStep) string {
	var took time.Duration
	var tokens int64
	var cost checkpoint.Cost
	n := 0
	for _, st := range steps {
		if st.State == "reused" {
			n++
			took, tokens, cost = took+st.Saved, tokens+st.SavedTokens, cost.Plus(st.SavedCost)
		}
	}
	if n == 0 {
		return ""
	}
	return saved(took, tokens, cost)
}

// maxRaw is how much of an answer that was not good enough is shown.
const maxRaw = 2048

// write tells an attempt at length.
func (a *shownTry) write(w io.Writer) {
	const margin = "              "
	b := bill{a.Usage, a.Cost}
	switch {
	case a.Fallback && a.Error != nil:
		fmt.Fprintf(w, "%sattempt %d: started %s, took %s%s; a fallback answered, because of %s\n", margin, a.Attempt, a.Started.Local().Format(time.DateTime), short(a.Took), b.String(), oneLine(a.Error.Error()))
	case a.Error != nil:
		fmt.Fprintf(w, "%sattempt %d%s: %s\n", margin, a.Attempt, b.String(), oneLine(a.Error.Error()))
		if raw := rawAnswer(a.Error); raw != "" {
			fmt.Fprintf(w, "%s  answered: %s\n", margin, oneLine(head(raw, maxRaw)))
		}
		if a.Error.Stderr != "" {
			fmt.Fprintf(w, "%s  %s\n", margin, strings.ReplaceAll(escape(strings.TrimSpace(a.Error.Stderr)), "\n", "\n"+margin+"  "))
		}
	case a.Open:
		fmt.Fprintf(w, "%sattempt %d: started %s, no end was recorded\n", margin, a.Attempt, a.Started.Local().Format(time.DateTime))
	default:
		fmt.Fprintf(w, "%sattempt %d: started %s, took %s%s\n", margin, a.Attempt, a.Started.Local().Format(time.DateTime), short(a.Took), b.String())
	}
}

// rawAnswer is the answer that an attempt failed with: that of a model as it
// came, or an output that the flow did not take.
func rawAnswer(e *sdk.Error) string {
	var d struct {
		Answer string          `json:"answer"`
		Output json.RawMessage `json:"output"`
	}
	if json.Unmarshal(e.Details, &d) != nil {
		return ""
	}
	if d.Answer != "" {
		return d.Answer
	}
	return string(d.Output)
}

package host

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// result is what a run knows of an ended step.
type result struct {
	state    sdk.State
	degraded bool
	operator bool
	attempts int32
	seq      checkpoint.Seq // of the record that stands for it; 0 = none
	id       checkpoint.ID
	key      checkpoint.Fingerprint // its plan key; zero if it leaves no record
	data     checkpoint.DataRef
	output   sdk.Digest
	err      *sdk.Error
	undone   bool               // it was taken back, or an instance of it
	head     *checkpoint.Head   // when a record of the index was taken
	facets   *checkpoint.Facets // where they do not follow from the rest
	took     time.Duration
	tokens   int64
	cost     checkpoint.Cost
	expires  time.Time
}

func (r *result) facet(f sdk.Facet) sdk.Digest {
	if r.head != nil {
		return r.head.Facet(f)
	}
	if r.state == sdk.Succeeded {
		h := checkpoint.Head{Output: r.output, Degraded: r.degraded, Attempts: int(r.attempts), Facets: r.facets}
		return h.Facet(f)
	}
	if r.facets != nil && f != sdk.FacetOutput {
		return r.facets[f-sdk.FacetStatus]
	}
	return checkpoint.FacetDigest(f, r.state, r.err, int(r.attempts))
}

// failed: it was skipped, because it failed itself.
func (r *result) failed() bool {
	return r.state == sdk.Skipped && (r.err != nil || r.head != nil && r.head.Outcome == checkpoint.SkippedFailure)
}

func taken(h *checkpoint.Head) result {
	return result{state: h.Outcome.State(), degraded: h.Degraded, operator: h.Operator, attempts: int32(h.Attempts), seq: h.Seq, id: h.ID, key: h.Plan, data: h.Data, output: h.Output, head: h,
		facets: h.Facets, took: h.Took, tokens: h.Tokens, cost: h.Cost, expires: h.Expires}
}

// outputs holds the outputs that steps still to run may read: those made in
// this run until the last step that needs them has ended, and those read back
// from the store, up to a budget. It is safe for concurrent use.
type outputs struct {
	ctx    context.Context
	store  checkpoint.Store
	tenant string
	budget int64

	mu   sync.Mutex
	held map[unit]json.RawMessage
	size int64
}

// put keeps an output until drop. One that the store has too is kept only
// within the budget.
func (o *outputs) put(u unit, data json.RawMessage, stored bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stored && o.size+int64(len(data)) > o.budget {
		return
	}
	o.held[u] = data
	o.size += int64(len(data))
}

// get returns a step's output, from the store if it is not held.
func (o *outputs) get(u unit, ref checkpoint.DataRef) (json.RawMessage, error) {
	o.mu.Lock()
	data, ok := o.held[u]
	o.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := o.store.Data(o.ctx, o.tenant, ref)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.held[u]; !ok && o.size+int64(len(data)) <= o.budget {
		o.held[u] = data
		o.size += int64(len(data))
	}
	return data, nil
}

// drop forgets a step's output.
func (o *outputs) drop(u unit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= int64(len(o.held[u]))
	delete(o.held, u)
}

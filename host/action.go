package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// actionSlot is an action in a run. One caller at a time runs it; those who
// wait for it take what it gave: its secrets.
type actionSlot struct {
	busy  chan struct{} // holds a token while the action runs
	ended time.Time     // of the last success
}

// act runs action k on behalf of who, unless it has succeeded after since.
func (r *run) act(ctx context.Context, k int, who string, since time.Time) *sdk.Error {
	if r.s.replay != nil {
		return nil
	}
	slot := &r.actions[k]
	select {
	case slot.busy <- struct{}{}:
		defer func() { <-slot.busy }()
	case <-ctx.Done():
		return sdk.Ended(ctx)
	}
	if !slot.ended.IsZero() && slot.ended.After(since) {
		return nil
	}
	a := &r.s.f.wf.Actions[k]
	h := checkpoint.NewHasher("engine/idempotency/1")
	h.String(string(r.s.record.ID))
	h.Int(int(time.Now().UnixNano())) // each time it runs it is meant to happen
	address := "action." + a.Name
	out, err := r.perform(ctx, &outside{
		address: address, use: a.Use, grant: r.s.f.actions[k], timeout: a.Timeout, retry: retries(a.Retry),
		input: func() (json.RawMessage, hcl.Diagnostics) { return r.s.eval.ActionInput(k) },
		key:   h.Sum().String(), secrets: a.Secrets, open: true,
	})
	if err == nil {
		err = r.s.secrets.given(k, out)
	}
	if err != nil {
		e := *err
		e.Message = fmt.Sprintf("%s, which %s waits for, failed: %s", address, who, err.Message)
		return &e
	}
	slot.ended = time.Now()
	return nil
}

package subprocess

import (
	"context"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// attempts are those that run on a plugin, so that closing it ends them.
type attempts struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	cancels map[int]context.CancelCauseFunc
	next    int
}

var errClosed = &sdk.Error{Class: sdk.ClassCancelled, Message: "the plugin was closed"}

// begin registers an attempt. end must be called after it.
func (a *attempts) begin(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, end func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, nil, errClosed
	}
	ctx, cancel = context.WithCancelCause(ctx)
	if a.cancels == nil {
		a.cancels = map[int]context.CancelCauseFunc{}
	}
	id := a.next
	a.next++
	a.cancels[id] = cancel
	a.running.Add(1)
	return ctx, cancel, func() {
		a.mu.Lock()
		delete(a.cancels, id)
		a.mu.Unlock()
		cancel(nil)
		a.running.Done()
	}, nil
}

// close ends all attempts and waits for them. It reports whether this call was
// the first.
func (a *attempts) close() (first bool) {
	a.mu.Lock()
	first = !a.closed
	a.closed = true
	for _, cancel := range a.cancels {
		cancel(errClosed)
	}
	a.mu.Unlock()
	a.running.Wait()
	return first
}

package wasm

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// asked is a context that counts who asks it, before and after it has ended.
type asked struct {
	context.Context
	before, after atomic.Int64
	twice         chan struct{} // closed when it was asked for the second time: the guest computes
}

func (a *asked) Err() error {
	err := a.Context.Err()
	switch {
	case err != nil:
		a.after.Add(1)
	case a.before.Add(1) == 2:
		close(a.twice)
	}
	return err
}

// TestNeighboursLive: while a hostile module computes for ever, a neighbour forces
// the garbage collector, which waits for every goroutine of the process, and does
// not wait for ever itself. When the attempt is to end, the next tick ends it.
func TestNeighboursLive(t *testing.T) {
	t.Parallel()
	for name, b := range hostileModules(t) {
		if hostile[name].class != sdk.ClassTimeout {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := parse(b)
			if err != nil {
				t.Fatal(err)
			}
			p, err := compile(t.Context(), m.meter(), m.facts(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.close)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			watched := &asked{Context: ctx, twice: make(chan struct{})}
			var neighbour sync.WaitGroup
			neighbour.Go(func() {
				<-watched.twice
				for range 2 {
					runtime.GC()
				}
				cancel()
			})
			a := &attempt{host: okHost, ctx: watched, limits: loader.Limits{}.WithDefaults()}
			a.stderr.a = a
			_, err = p.run(a, []byte(`{"v":1,"input":{}}`), false, "")
			neighbour.Wait()
			if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassCancelled {
				t.Fatal(err)
			}
			if n := watched.after.Load(); n == 0 || n > 2 { // by the tick, and by context.Cause
				t.Errorf("it was told %d times that it has ended", n)
			}
		})
	}
}

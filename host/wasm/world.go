package wasm

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	mathrand "math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero/sys"
)

// clockResolution is what a guest may know of time: finer clocks serve side
// channels.
const clockResolution = sys.ClockResolution(time.Millisecond)

// pureEpoch is when the clock of a step without effects starts.
var pureEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// clock is a guest's time. A pure step's clock stands on its own: each reading
// and each sleep moves it on, and no sleep waits, so that two attempts see the
// same times.
type clock struct {
	a     *attempt
	pure  bool
	now   int64 // ns since pureEpoch
	start time.Time
}

func newTime(a *attempt, pure bool) *clock { return &clock{a: a, pure: pure, start: time.Now()} }

func (c *clock) step() int64 {
	c.now += int64(time.Millisecond)
	return c.now
}

func (c *clock) wall() (sec int64, nsec int32) {
	ns := time.Now().Truncate(time.Millisecond).UnixNano()
	if c.pure {
		ns = pureEpoch + c.step()
	}
	return ns / 1e9, int32(ns % 1e9)
}

func (c *clock) nano() int64 {
	if c.pure {
		return c.step()
	}
	return int64(time.Since(c.start).Truncate(time.Millisecond)) + 1
}

// sleep ends with the attempt.
func (c *clock) sleep(ns int64) {
	c.a.check()
	if c.pure {
		if next := c.now + max(ns, 0); next > c.now { // no wrap around
			c.now = next
		}
		return
	}
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.a.ctx.Done():
	}
	c.a.check()
}

// random is a guest's randomness; it looks at the deadline on the way, since a
// guest may ask for all of its memory at once.
type random struct {
	a   *attempt
	src io.Reader
}

func newRandom(a *attempt, pure bool, seed string) io.Reader {
	if !pure {
		return &random{a, rand.Reader}
	}
	return &random{a, mathrand.NewChaCha8(sha256.Sum256([]byte("engine/random/1\x00" + seed)))}
}

func (r *random) Read(b []byte) (n int, err error) {
	for n < len(b) {
		r.a.check()
		k, err := r.src.Read(b[n:min(n+piece, len(b))])
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

package host

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// RetryPolicy says which failures are tried again, how often and when. A step
// has a list of them; the first whose On holds the class decides, and each
// counts its own tries.
type RetryPolicy struct {
	On          []sdk.Class
	MaxAttempts int // with the first; 1 = never again
	Delay       time.Duration
	Exponential bool          // the delay doubles with every try
	MaxDelay    time.Duration // 0 = none
	Jitter      float64       // the delay varies by this share of itself, 0..1
	MaxDuration time.Duration // from the first attempt to the start of the next; 0 = none
	Before      int           // the action to run before the next attempt, from 1; 0 = none
}

// jitter is the seed of the delay after an attempt of what has this address.
func jitter(address string, attempt int) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/jitter/1")
	h.String(address)
	h.Int(attempt)
	return h.Sum()
}

// backoff decides whether a failed step is tried again, after which delay and by
// which policy; -1 says that it is not.
// tries counts the failures each policy has had before this one, and is
// updated. elapsed is the time since the first attempt began. seed makes the
// jitter: equal seeds give equal delays.
func backoff(ps []RetryPolicy, tries []int, err *sdk.Error, elapsed time.Duration, seed checkpoint.Fingerprint) (time.Duration, int) {
	if err.Class.Deterministic() {
		return 0, -1
	}
	k := slices.IndexFunc(ps, func(p RetryPolicy) bool { return slices.Contains(p.On, err.Class) })
	if k < 0 {
		return 0, -1
	}
	p := &ps[k]
	tries[k]++
	if tries[k] >= p.MaxAttempts {
		return 0, -1
	}
	d := float64(p.Delay)
	if p.Exponential {
		d *= math.Pow(2, float64(tries[k]-1))
	}
	if p.MaxDelay > 0 {
		d = min(d, float64(p.MaxDelay))
	}
	if p.Jitter > 0 {
		share := float64(binary.LittleEndian.Uint64(seed[:])) / math.MaxUint64 // 0..1
		d *= 1 + p.Jitter*(2*share-1)
	}
	delay := time.Duration(min(d, float64(math.MaxInt64/2)))
	delay = max(delay, err.RetryAfter())
	if p.MaxDuration > 0 && elapsed+delay > p.MaxDuration {
		return 0, -1
	}
	return delay, k
}

package host

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// CodeCircuitOpen is the code of the error with which a step goes to its
// fallback because its plugin has not answered lately. No attempt was made.
const CodeCircuitOpen = "circuit_open"

// Defaults of a breaker.
const (
	DefaultFailures = 5
	DefaultCooldown = 30 * time.Second
)

// breaker counts the calls of one plugin that were not answered. Safe for
// concurrent use.
type breaker struct {
	mu       sync.Mutex
	limits   hcl.Breaker
	failures int       // in a row
	probe    time.Time // when a call may be made again; zero while it is closed
}

func (b *breaker) set(x hcl.Breaker) {
	if x.Failures == 0 {
		x.Failures = DefaultFailures
	}
	if x.Cooldown == 0 {
		x.Cooldown = DefaultCooldown
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits = x
}

// ask says why a call of plugin should not be made; nil if it may. While the breaker is
// open one call in each cooldown is let through, to see whether it is answered.
func (b *breaker) ask(plugin string) *sdk.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.probe.IsZero():
		return nil
	case !b.probe.After(now):
		b.probe = now.Add(b.limits.Cooldown)
		return nil
	}
	return &sdk.Error{Class: sdk.ClassUnavailable, Code: CodeCircuitOpen, Message: fmt.Sprintf(
		"plugin %s was not asked: its last %d calls were not answered, and it is tried again in %s", plugin, b.failures, b.probe.Sub(now).Round(time.Second))}
}

// ended counts how a call ended; nil is an answer. So is a failure that the
// server has told.
func (b *breaker) ended(err *sdk.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil && err.Class == sdk.ClassCancelled:
	case err == nil || err.Class != sdk.ClassTimeout && err.Class != sdk.ClassUnavailable:
		b.failures, b.probe = 0, time.Time{}
	default:
		if b.failures++; b.failures >= b.limits.Failures {
			b.probe = time.Now().Add(b.limits.Cooldown)
		}
	}
}

// covered: if what w asks next is unavailable, a fallback answers.
func (r *run) covered(w *work) bool {
	fs := r.step(w).Fallbacks
	return slices.ContainsFunc(fs[w.fallback:], func(fb hcl.Fallback) bool { return slices.Contains(fb.On, sdk.ClassUnavailable) })
}

package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// shared are the limiters and breakers of a Host, by what plugins with equal
// artifact and config have in common.
type shared struct {
	mu       sync.Mutex
	limiters map[checkpoint.Fingerprint]*limiter
	breakers map[checkpoint.Fingerprint]*breaker
}

// endpoint is what plugin p shares with its like, in this run and others. A
// config that is not known yet is known by the plugin's name.
func (s *session) endpoint(p int) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/endpoint/1")
	h.Digest(s.f.artifacts[p].Digest)
	if c := s.configs[p]; c != nil {
		h.Bytes(c)
	} else {
		h.String(s.f.wf.Plugins[p].Name)
	}
	return h.Sum()
}

// openLimiters finds the limiters and breakers of the plugins of a run.
func (r *run) openLimiters() {
	s, all := r.s, &r.h.shared
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.breakers == nil {
		all.limiters, all.breakers = map[checkpoint.Fingerprint]*limiter{}, map[checkpoint.Fingerprint]*breaker{}
	}
	r.limiters, r.breakers = make([]*limiter, len(s.f.wf.Plugins)), make([]*breaker, len(s.f.wf.Plugins))
	fresh := map[*limiter]bool{}
	for p := range s.f.wf.Plugins {
		x := &s.f.wf.Plugins[p]
		key := s.endpoint(p)
		b := all.breakers[key]
		if b == nil {
			b = &breaker{}
			all.breakers[key] = b
		}
		b.set(x.Breaker)
		r.breakers[p] = b
		alone := oneAtATime(s.f.artifacts[p])
		if x.Limiter == nil || r.h.o.NoWait {
			if alone {
				r.limiters[p] = &limiter{limits: hcl.Limiter{Concurrency: 1}}
			}
			continue
		}
		l := all.limiters[key]
		if l == nil {
			l = &limiter{}
			all.limiters[key] = l
		}
		if !fresh[l] { // as this run says, not one before
			fresh[l] = true
			l.mu.Lock()
			l.limits = hcl.Limiter{}
			l.mu.Unlock()
		}
		l.bound(x.Limiter)
		if alone {
			l.bound(&hcl.Limiter{Concurrency: 1})
		}
		r.limiters[p] = l
	}
}

// oneAtATime: the plugin's process takes one attempt at a time. What has to wait for
// it waits as for a limiter, before it begins: no clock runs, no intent is written.
func oneAtATime(a *loader.Artifact) bool {
	return a.Kind == loader.Native && (a.Manifest == nil || !a.Manifest.Concurrent)
}

// admit asks the breaker and the limiter of the plugin that w is about to call.
// false: w goes to its next fallback, or waits, holding nothing.
func (r *run) admit(w *work) bool {
	p := r.asks(w)
	if r.s.replays(w.step) {
		p = -1
	}
	if w.ticket != nil && (p < 0 || w.ticket.l != r.limiters[p]) {
		w.ticket.done(0, false)
		w.ticket = nil
	}
	if p < 0 {
		return true
	}
	if w.ticket == nil && r.covered(w) {
		if err := r.breakers[p].ask(r.s.f.wf.Plugins[p].Name); err != nil {
			w.failed(err)
			return false
		}
	}
	if r.limiters[p] == nil {
		return true
	}
	if w.ticket == nil {
		node := w.node
		w.ticket = r.limiters[p].ask(r.estimate(w.config, w.input).tokens, func() { r.turns.add(node) })
	}
	if w.ticket.goes() {
		return true
	}
	w.kind, w.end = sigEnded, endWaits
	return false
}

// asks is the plugin that the next attempt of w calls, -1 for none.
func (r *run) asks(w *work) int {
	st := r.step(w)
	switch {
	case w.fallback == 0:
		return st.Plugin
	case st.Fallbacks[w.fallback-1].Kind == hcl.FallbackStep:
		return st.Fallbacks[w.fallback-1].Use.Plugin
	}
	return -1
}

// line waits in place for the limiter's leave to send q: a check, an action or
// an undo is part of something that goes on. nil without a limiter.
func (r *run) line(ctx context.Context, q *request) (*ticket, *sdk.Error) {
	l := r.limiters[q.use.Plugin]
	if l == nil {
		return nil, nil
	}
	woken := make(chan struct{}, 1)
	t := l.ask(r.estimate(q.config, q.input).tokens, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	return t, t.wait(ctx, woken)
}

// called tells the plugin's limiter and breaker how a call ended.
func (r *run) called(q *request, err *sdk.Error) {
	limited := err != nil && err.Class == sdk.ClassRateLimited
	if l := r.limiters[q.use.Plugin]; l != nil && limited {
		l.hold(err.RetryAfter())
	}
	if q.sent {
		r.breakers[q.use.Plugin].ended(err)
	}
	if q.ticket == nil {
		return
	}
	tokens := q.ticket.tokens
	switch {
	case limited:
		tokens = 0
	case slices.ContainsFunc(q.usage, func(u sdk.Usage) bool { return u.Counted > 0 }):
		tokens = r.spentOn(q.usage).tokens
	}
	q.ticket.done(tokens, q.sent)
}

// waiting notes that w waits for its turn. The ticket comes back with the work
// when it may go.
func (r *run) waiting(w *work) {
	why, wait := w.ticket.waits()
	r.tickets[w.node] = w.ticket
	if p := &r.s.f.wf.Plugins[r.asks(w)]; p.Limiter != nil { // else its process is busy
		r.add(Event{Type: EventWaiting, Step: r.address(w.unit), Delay: wait, Reason: fmt.Sprintf("limiter of plugin %s: %s", p.Name, why)})
	}
	delete(r.working, w.node)
}

// forget gives back what node has asked of a limiter.
func (r *run) forget(node int32, w *work) {
	if t := r.tickets[node]; t != nil {
		t.done(0, false)
		delete(r.tickets, node)
	}
	if w != nil && w.ticket != nil {
		w.ticket.done(0, false)
	}
}

// slowed tells that all calls of a plugin wait for as long as one that was told
// to come later.
func (r *run) slowed(w *work, err *sdk.Error, d time.Duration) {
	p := r.asks(w)
	if err.Class != sdk.ClassRateLimited || p < 0 || r.limiters[p] == nil {
		return
	}
	l := r.limiters[p]
	if l.hold(d); l.news() {
		r.add(Event{Type: EventLog, Step: r.address(w.unit), Level: "warn", Message: fmt.Sprintf("rate limited: all calls of plugin %s wait for %s", r.s.f.wf.Plugins[p].Name, d.Round(time.Millisecond))})
	}
}

// turns are nodes whose limiter lets them go, for the loop.
type turns struct {
	mu    sync.Mutex
	nodes []int32
	ready chan struct{} // holds a token while there are nodes
}

func (t *turns) add(node int32) {
	t.mu.Lock()
	t.nodes = append(t.nodes, node)
	t.mu.Unlock()
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

func (t *turns) take() []int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	nodes := t.nodes
	t.nodes = nil
	return nodes
}

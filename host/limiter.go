package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// limiter bounds the calls of one plugin. Who must wait gets a ticket and is
// woken, in the order of asking. The bounds hold for any minute: what a call
// takes from them comes back a minute after it was let go. Safe for concurrent
// use.
type limiter struct {
	mu     sync.Mutex
	limits hcl.Limiter
	asked  uint64
	queue  []*ticket // that wait, first come first
	tokens int64     // that those in queue may use
	under  int       // calls under way
	minute []*ticket // let go within the last minute, oldest first
	used   int64     // tokens of minute
	pause  time.Time // nothing goes before
	told   time.Time // the pause that was told of
	timer  *time.Timer
}

// ticket is one call that wants to be made.
type ticket struct {
	l      *limiter
	place  uint64 // in the order of asking
	tokens int64  // reserved, then used
	wake   func() // called once when it may go, without any lock held
	state  ticketState
	at     time.Time // when it was let go
	counts bool      // its tokens are part of the last minute's
}

// ticketState says where a ticket is.
type ticketState uint8

const (
	ticketWaits ticketState = iota
	ticketGoes              // it may be made, or is under way
	ticketDone
)

// ask lets a call go that may use so many tokens, or keeps it in the queue.
func (l *limiter) ask(tokens int64, wake func()) *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	t := &ticket{l: l, place: l.asked, tokens: tokens, wake: wake}
	if len(l.queue) == 0 && !l.earliest(t, time.Now()).After(time.Now()) && !l.full() {
		l.letGo(t)
		return t
	}
	l.push(t)
	l.arm()
	return t
}

// goes: the call may be made now. If its plugin was told to wait after t was let
// go, t is the first in the queue again.
func (t *ticket) goes() bool {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.state == ticketGoes && l.pause.After(time.Now()) {
		l.takeBack(t)
		l.push(t)
		l.arm()
	}
	return t.state == ticketGoes
}

// waits tells what t waits for, and how long if that can be foreseen.
func (t *ticket) waits() (why string, wait time.Duration) {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	at := now
	later := func(u time.Time, what string) {
		if u.After(at) {
			at, why = u, what
		}
	}
	k := l.find(t)
	if n := l.limits.Requests; n > 0 {
		// A call goes a minute after the n-th before it; before the first in the
		// queue are those of the last minute.
		place, from := int64(len(l.minute)+k), now
		if i := place % n; i < int64(len(l.minute)) {
			from = l.minute[i].at
		}
		later(from.Add(time.Duration(place/n)*time.Minute), fmt.Sprintf("requests_per_minute = %d", n))
	}
	if n := l.limits.Tokens; n > 0 {
		before := l.tokens
		for _, x := range l.queue[k:] {
			before -= x.tokens
		}
		if over := l.used + before + t.tokens - n; over > 0 {
			later(now.Add(time.Duration(float64(over)/float64(n)*float64(time.Minute))), fmt.Sprintf("tokens_per_minute = %d", n))
		}
	}
	later(l.pause, "its server said to wait")
	if why == "" {
		return fmt.Sprintf("concurrency = %d", l.limits.Concurrency), 0
	}
	return why, at.Sub(now)
}

// done ends the call: it has used so many tokens. A call that was never made
// gives everything back, and one that waits leaves the queue. Again it does
// nothing.
func (t *ticket) done(tokens int64, made bool) {
	l := t.l
	l.mu.Lock()
	switch {
	case t.state == ticketWaits:
		l.leave(t)
	case t.state == ticketGoes && made:
		l.under--
		if t.counts {
			l.used += tokens - t.tokens
		}
		t.tokens = tokens
	case t.state == ticketGoes:
		l.takeBack(t)
	}
	t.state = ticketDone
	woken := l.next()
	l.mu.Unlock()
	wake(woken)
}

// wait waits for t in place.
func (t *ticket) wait(ctx context.Context, woken <-chan struct{}) *sdk.Error {
	for !t.goes() {
		select {
		case <-woken:
		case <-ctx.Done():
			t.done(0, false)
			return sdk.Ended(ctx)
		}
	}
	return nil
}

// hold lets nothing go for so long.
func (l *limiter) hold(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.pause) {
		l.pause = until
		l.arm()
	}
}

// news: the pause of l is longer than was told before.
func (l *limiter) news() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause.Sub(l.told) < time.Second {
		return false
	}
	l.told = l.pause
	return true
}

// bound takes the stricter of the limits so far and x.
func (l *limiter) bound(x *hcl.Limiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stricter := func(a *int64, b int64) {
		if *a == 0 || b > 0 && b < *a {
			*a = b
		}
	}
	stricter(&l.limits.Requests, x.Requests)
	stricter(&l.limits.Tokens, x.Tokens)
	c := int64(l.limits.Concurrency)
	stricter(&c, int64(x.Concurrency))
	l.limits.Concurrency = int(c)
}

// find is the place of t in the queue, or where it belongs.
func (l *limiter) find(t *ticket) int {
	k, _ := slices.BinarySearchFunc(l.queue, t.place, func(x *ticket, place uint64) int { return cmp.Compare(x.place, place) })
	return k
}

func (l *limiter) push(t *ticket) {
	t.state = ticketWaits
	l.tokens += t.tokens
	l.queue = slices.Insert(l.queue, l.find(t), t)
}

func (l *limiter) leave(t *ticket) {
	k := l.find(t)
	l.tokens -= t.tokens
	l.queue = slices.Delete(l.queue, k, k+1)
}

func (l *limiter) letGo(t *ticket) {
	t.state, t.at, t.counts = ticketGoes, time.Now(), true
	l.under++
	l.used += t.tokens
	l.minute = append(l.minute, t)
}

// takeBack undoes letGo.
func (l *limiter) takeBack(t *ticket) {
	l.under--
	if t.counts {
		t.counts = false
		l.used -= t.tokens
		k := slices.Index(l.minute, t)
		l.minute = slices.Delete(l.minute, k, k+1)
	}
}

func (l *limiter) full() bool {
	return l.limits.Concurrency > 0 && l.under >= l.limits.Concurrency
}

// earliest is when t may go as far as minutes and pauses are concerned. What may
// use more tokens than a minute has goes alone.
func (l *limiter) earliest(t *ticket, now time.Time) time.Time {
	gone := 0
	for gone < len(l.minute) && now.Sub(l.minute[gone].at) >= time.Minute {
		l.minute[gone].counts = false
		l.used -= l.minute[gone].tokens
		gone++
	}
	l.minute = slices.Delete(l.minute, 0, gone)
	at := l.pause
	later := func(k int) {
		if u := l.minute[k].at.Add(time.Minute); u.After(at) {
			at = u
		}
	}
	if n := l.limits.Requests; n > 0 && int64(len(l.minute)) >= n {
		later(len(l.minute) - int(n))
	}
	if n := l.limits.Tokens; n > 0 {
		over := l.used + t.tokens - n
		for k := 0; over > 0 && k < len(l.minute); k++ {
			over -= l.minute[k].tokens
			later(k)
		}
	}
	return at
}

// next lets go what may go, and returns it.
func (l *limiter) next() (woken []*ticket) {
	for len(l.queue) > 0 && !l.full() {
		now := time.Now()
		t := l.queue[0]
		if l.earliest(t, now).After(now) {
			break
		}
		l.leave(t)
		l.letGo(t)
		woken = append(woken, t)
	}
	l.arm()
	return woken
}

// arm sets the timer to when the first in the queue may go.
func (l *limiter) arm() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if len(l.queue) == 0 || l.full() {
		return // whoever ends a call sees to it
	}
	l.timer = time.AfterFunc(max(time.Until(l.earliest(l.queue[0], time.Now())), 0), func() {
		l.mu.Lock()
		woken := l.next()
		l.mu.Unlock()
		wake(woken)
	})
}

func wake(ts []*ticket) {
	for _, t := range ts {
		t.wake()
	}
}

package host

import (
	"container/heap"
	"time"
)

// timer is when a retry is due.
type timer struct {
	at   time.Time
	node int32
}

// timerHeap has the earliest first.
type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// arm sets the timer to the next retry.
func (r *run) arm() {
	if len(r.timers) > 0 {
		r.timer.Reset(time.Until(r.timers[0].at))
	}
}

// fire tells the machine of the retries that are due.
func (r *run) fire() {
	for len(r.timers) > 0 && !r.timers[0].at.After(time.Now()) {
		r.push(signal{kind: sigTimer, node: heap.Pop(&r.timers).(timer).node})
	}
	r.arm()
}

package host

import "container/heap"

// pool is a sub-workflow with for_each whose concurrency bounds how many of its
// instances are under way. An instance is a place in the collections of all its
// steps. It is under way from the first of its steps that joins the ready ones
// until none of them has anything to do: they have ended, or wait for steps outside,
// which may themselves wait for instances that have not begun.
type pool struct {
	limit int32
	under int32
	steps []int32
	held  []bool    // by place: it is under way
	begun []bool    // by place: it has been
	wait  [][]int32 // by place: its nodes that wait until it may be
	line  placeHeap // the places with such nodes
	dirty []int32   // held places of which something has ended or stopped
}

// placeHeap gives places that have begun before others, then the first.
type placeHeap struct {
	p      *pool
	places []int32
}

func (h placeHeap) Len() int      { return len(h.places) }
func (h placeHeap) Swap(i, j int) { h.places[i], h.places[j] = h.places[j], h.places[i] }
func (h placeHeap) Less(i, j int) bool {
	a, b := h.places[i], h.places[j]
	if h.p.begun[a] != h.p.begun[b] {
		return h.p.begun[a]
	}
	return a < b
}
func (h *placeHeap) Push(x any) { h.places = append(h.places, x.(int32)) }
func (h *placeHeap) Pop() any {
	n := len(h.places) - 1
	x := h.places[n]
	h.places = h.places[:n]
	return x
}

// pooled makes the pools of the steps.
func (m *machine) pooled() {
	for i := range m.steps {
		p := &m.steps[i]
		if p.Pool == 0 {
			continue
		}
		for len(m.pools) < int(p.Pool) {
			q := &pool{}
			q.line.p = q
			m.pools = append(m.pools, q)
		}
		q := m.pools[p.Pool-1]
		q.limit, q.steps = p.PoolLimit, append(q.steps, int32(i))
	}
}

// pool is that of an instance; nil for a step and without one.
func (m *machine) pool(i int32) *pool {
	if p := m.policy(i).Pool; p > 0 && !m.isStep(i) {
		return m.pools[p-1]
	}
	return nil
}

// admit lets an instance of a step go on if its place is under way or may be; else
// it waits for that.
func (m *machine) admit(i int32) bool {
	p := m.pool(i)
	if p == nil {
		return true
	}
	k := m.place(i)
	for int(k) >= len(p.held) {
		p.held, p.begun, p.wait = append(p.held, false), append(p.begun, false), append(p.wait, nil)
	}
	if p.held[k] {
		return true
	}
	if p.under < p.limit && p.line.Len() == 0 {
		p.hold(k)
		return true
	}
	if p.wait[k] = append(p.wait[k], i); len(p.wait[k]) == 1 {
		heap.Push(&p.line, k)
	}
	m.stage[i] = stageQueued
	return false
}

func (p *pool) hold(k int32) {
	p.under++
	p.held[k], p.begun[k] = true, true
}

// stopped notes that an instance of a step has nothing to do any more, for now.
func (m *machine) stopped(i int32) {
	if p := m.pool(i); p != nil {
		if k := m.place(i); int(k) < len(p.held) && p.held[k] {
			p.dirty = append(p.dirty, k)
		}
	}
}

// regulate gives the places of those that have stopped to those that wait.
func (m *machine) regulate() {
	for _, p := range m.pools {
		kept := p.dirty[:0]
		for _, k := range p.dirty {
			switch idle, expanding := m.idle(p, k); {
			case !p.held[k]:
			case expanding:
				kept = append(kept, k)
			case idle:
				p.held[k] = false
				p.under--
			}
		}
		p.dirty = kept
		for p.under < p.limit && p.line.Len() > 0 {
			k := heap.Pop(&p.line).(int32)
			nodes := p.wait[k]
			p.wait[k] = nil
			for _, i := range nodes {
				if m.stage[i] != stageQueued {
					continue // it was cancelled
				}
				if !p.held[k] {
					p.hold(k)
				}
				if m.enter(i) {
					m.stage[i] = stageReady
					m.ready.push(i)
				}
			}
		}
	}
}

// idle: nothing of place k can go on by itself. expanding: that shows when a step
// whose instances are being made has them.
func (m *machine) idle(p *pool, k int32) (idle, expanding bool) {
	for _, s := range p.steps {
		f := m.fan(s)
		switch {
		case f == nil:
			if m.stage[s] == stageReady || m.stage[s] == stageWorking {
				expanding = true
			}
		case k < f.n:
			if st := m.stage[f.base+k]; st != stageWaiting && st != stageEnded {
				return false, false
			}
		}
	}
	return !expanding, expanding
}

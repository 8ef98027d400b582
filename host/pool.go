package host

import (
	"container/heap"
	"encoding/binary"
)

// pool is a sub-workflow with for_each whose concurrency bounds how many of its
// instances are under way; of one in a loop there is a pool for each instance of
// that. An instance is a place in the collections of all its steps. It is under way
// from the first of its steps that joins the ready ones until none of them has
// anything to do: they have ended, or wait for steps outside, which may themselves
// wait for instances that have not begun.
type pool struct {
	limit int32
	under int32
	steps []int32
	loop  int32     // of the steps, whose instances are counted
	of    int32     // a node in the instance of the loops around that it belongs to
	held  []bool    // by place: it is under way
	begun []bool    // by place: it has been
	wait  [][]int32 // by place: its nodes that wait until it may be
	line  placeHeap // the places with such nodes
	dirty []int32   // held places of which something has ended or stopped
}

// poolPolicy is what bounds the instances of a loop.
type poolPolicy struct{ Sub, Limit int32 } // the sub-workflow, from 1; 0 = nothing

// poolKey tells pools apart.
type poolKey struct {
	sub    int32
	around string // the keys of the loops around
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

// pool is the one that bounds the instances of loop l that node i is in; nil without
// one.
func (m *machine) pool(i, l int32) *pool {
	p := m.policy(i)
	if l >= int32(len(p.Pools)) || p.Pools[l].Sub == 0 || l >= m.depth(i) {
		return nil
	}
	key := poolKey{sub: p.Pools[l].Sub}
	if l > 0 {
		around := make([]byte, 0, 4*l)
		for o := range l {
			around = binary.BigEndian.AppendUint32(around, uint32(m.key(i, o)))
		}
		key.around = string(around)
	}
	q := m.poolOf[key]
	if q == nil {
		q = &pool{limit: p.Pools[l].Limit, loop: l, of: i}
		q.line.p = q
		for s := range m.steps {
			if o := m.steps[s].Pools; int(l) < len(o) && o[l].Sub == key.sub {
				q.steps = append(q.steps, int32(s))
			}
		}
		if m.poolOf == nil {
			m.poolOf = map[poolKey]*pool{}
		}
		m.poolOf[key], m.pools = q, append(m.pools, q)
	}
	return q
}

// hasPlace lets an instance of a step go on if its places are under way or may be, from
// the outermost on; else it waits for that.
func (m *machine) hasPlace(i int32) bool {
	for l := range int32(len(m.policy(i).Pools)) {
		if p := m.pool(i, l); p != nil && !m.takesPlace(p, i) {
			return false
		}
	}
	return true
}

func (m *machine) takesPlace(p *pool, i int32) bool {
	k := m.key(i, p.loop)
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

// stopped notes that a node has nothing to do any more, for now.
func (m *machine) stopped(i int32) {
	for l := range int32(len(m.policy(i).Pools)) {
		if p := m.pool(i, l); p != nil {
			if k := m.key(i, l); int(k) < len(p.held) && p.held[k] {
				p.dirty = append(p.dirty, k)
			}
		}
	}
}

// regulate gives the places of those that have stopped to those that wait.
func (m *machine) regulate() {
	for n := 0; n < len(m.pools); n++ { // one that gives a place may make another
		p := m.pools[n]
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
				m.stage[i] = stageWaiting
				m.makeReady(i) // it may have to wait for a place further inside
			}
		}
	}
}

// idle: nothing of place k can go on by itself. expanding: that shows when a node
// whose instances are being made has them.
func (m *machine) idle(p *pool, k int32) (idle, expanding bool) {
	idle = true
	for _, s := range p.steps {
		at := s
		for l := int32(0); l <= p.loop && m.fan(at) != nil; l++ {
			place := k
			if l < p.loop {
				place = m.key(p.of, l)
			}
			if f := m.fan(at); place < f.n {
				at = f.base + place
			} else {
				at = -1
				break
			}
		}
		if at < 0 {
			continue
		}
		active, making := m.active(at, m.depth(at) > p.loop)
		if active {
			return false, false
		}
		expanding = expanding || making
	}
	return !expanding, expanding
}

// active: something of node i, which with inside is one of the place, can go on.
// making: its instances are being made.
func (m *machine) active(i int32, inside bool) (active, making bool) {
	switch f, st := m.fan(i), m.stage[i]; {
	case !inside:
		return false, st == stageReady || st == stageWorking
	case m.collects(i) && f == nil:
		return st != stageWaiting && st != stageEnded, false
	case m.collects(i) && st == stageFanned && f.open > 0:
		for k := range f.n {
			if active, _ := m.active(f.base+k, true); active {
				return true, false
			}
		}
		return false, false
	default:
		return st != stageWaiting && st != stageEnded && st != stageFanned, false
	}
}

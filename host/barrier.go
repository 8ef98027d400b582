package host

import (
	"container/heap"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// mustHold: an attempt that changes the world, or that is based on such a
// change, begins only when what it stands on is durable.
func (m *machine) mustHold(i int32) bool {
	return m.policy(i).Effects.Changes() || m.base(i) > m.persisted
}

// base is the newest result with effects directly above i.
func (m *machine) base(i int32) (seq checkpoint.Seq) {
	refs := m.g.AllRefs(m.step(i))
	for k := range refs { // an instance is read before its step has ended
		seq = max(seq, m.effects[refs[k].Step], m.effects[m.named(&refs[k], i)])
	}
	return seq
}

func (m *machine) prepared(i int32) {
	switch {
	case m.halted():
		m.busy--
		m.end(i, sdk.Cancelled, m.stop)
	case m.policy(i).Effects.Changes():
		m.stage[i] = stageHeld
		m.emit(command{kind: cmdIntent, node: i, attempt: m.attempt[i]})
	default:
		m.hold(i, m.base(i))
	}
}

func (m *machine) hold(i int32, seq checkpoint.Seq) {
	if seq <= m.persisted {
		m.run(i)
		return
	}
	m.stage[i] = stageHeld
	heap.Push(&m.holds, queuedSeq{seq, i})
}

func (m *machine) run(i int32) {
	if m.halted() {
		m.busy--
		m.end(i, sdk.Cancelled, m.stop)
		return
	}
	m.stage[i] = stageRunning
	m.emit(command{kind: cmdRun, node: i, attempt: m.attempt[i]})
}

func (m *machine) sync(seq checkpoint.Seq) {
	if seq <= m.persisted {
		return
	}
	m.persisted = seq
	n := 0
	for n < len(m.queued) && m.queued[n].seq <= seq {
		m.emit(command{kind: cmdNotePersisted, node: m.queued[n].node})
		n++
	}
	m.queued = append(m.queued[:0], m.queued[n:]...)
	for len(m.holds) > 0 && m.holds[0].seq <= seq {
		m.run(heap.Pop(&m.holds).(queuedSeq).node)
	}
}

type queuedSeq struct {
	seq  checkpoint.Seq
	node int32
}

// holdHeap orders waiting attempts by the sync they need.
type holdHeap []queuedSeq

func (h holdHeap) Len() int { return len(h) }
func (h holdHeap) Less(i, j int) bool {
	return h[i].seq < h[j].seq || h[i].seq == h[j].seq && h[i].node < h[j].node
}
func (h holdHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *holdHeap) Push(x any)   { *h = append(*h, x.(queuedSeq)) }
func (h *holdHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

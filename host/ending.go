package host

import (
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// workEnded: a worker has done its turn with a node.
func (m *machine) workEnded(s signal) {
	i := s.node
	for _, f := range s.known {
		m.known(f.step, f)
	}
	switch s.end {
	case endResult, endSkipped:
		m.stage[i] = stagePutting
		if s.end == endSkipped {
			m.state[i] = sdk.Skipped
		} else {
			m.state[i] = sdk.Succeeded
		}
		m.emit(command{kind: cmdPut, node: i, attempt: m.attempt[i], state: m.state[i]})
	case endCondition:
		m.busy--
		m.leave(i)
		m.state[i], m.stage[i] = sdk.Pending, stageWaiting
		m.stopped(i)
		m.unmetWhen[i] = whenMet
		m.consider(i)
		m.settle()
	case endWaits:
		m.busy--
		m.leave(i)
		m.attempt[i]-- // it has not begun
		m.state[i], m.stage[i] = sdk.Pending, stageLimited
		if m.stop != nil && !(m.drain && m.begun(i)) {
			m.end(i, sdk.Cancelled, m.stop)
		}
	case endExpanded:
		m.busy--
		m.expand(i, s.fan)
		m.settle()
	default:
		m.attemptFailed(s)
	}
}

// attemptFailed tries node i again, falls back, or ends it.
func (m *machine) attemptFailed(s signal) {
	i := s.node
	m.busy--
	p := m.policy(i)
	if m.tries[i] == nil {
		m.tries[i] = make([]int, len(p.Retry))
	}
	var delay time.Duration
	block, next := -1, int32(0)
	if !m.collects(i) { // else its instances could not be made or put together, again and again
		switch {
		case s.end == endUnready, s.err.Code == CodeCircuitOpen:
			m.attempt[i]-- // none was made
		case m.fallback[i] == 0:
			delay, block = backoff(p.Retry, m.tries[i], s.err, m.now-m.first[i], m.jitter(i))
		}
		if block < 0 {
			next = m.nextFallback(i, s.err)
		}
	}
	switch {
	case s.err.Code == CodeBudget: // it was not sent
		m.end(i, sdk.Cancelled, s.err)
		return
	case s.end != endUnready && m.unknownOutcome(i, s.err):
		m.fail(i, outcomeUnknown(m.g.Address(m.step(i)), "its attempt ended without saying so: "+s.err.Message))
		return
	case m.halted() && (block >= 0 || next > 0 || s.err.Class == sdk.ClassCancelled):
		m.end(i, sdk.Cancelled, m.stop)
		return
	case next > 0:
		m.fallback[i] = next
		m.leave(i)
		m.state[i] = sdk.Pending
		m.emit(command{kind: cmdNote, node: i, attempt: m.attempt[i], state: sdk.Pending, err: s.err, which: next})
		m.makeReady(i)
		return
	case block < 0:
		m.fail(i, s.err)
		return
	}
	if b := p.Retry[block].Before; b > 0 {
		m.before[i] = int32(b)
	}
	m.leave(i)
	m.state[i], m.stage[i] = sdk.Pending, stageRetry
	m.timers++
	m.emit(command{kind: cmdNote, node: i, attempt: m.attempt[i], state: sdk.Pending, err: s.err, after: delay})
	m.emit(command{kind: cmdTimer, node: i, after: delay})
}

// nextFallback is the next fallback of i that catches err, from 1; 0 if there
// is none.
func (m *machine) nextFallback(i int32, err *sdk.Error) int32 {
	fs := m.policy(i).Fallbacks
	if err.Code == CodeOutcomeUnknown || err.Code == CodeNotRecorded {
		return 0
	}
	for k := int(m.fallback[i]); k < len(fs); k++ {
		if slices.Contains(fs[k], err.Class) {
			return int32(k + 1)
		}
	}
	return 0
}

// unknownOutcome: an attempt of a step that must happen once ended without
// saying whether it happened.
func (m *machine) unknownOutcome(i int32, err *sdk.Error) bool {
	return m.policy(i).Effects == sdk.EffectsOnce && ambiguous(err)
}

func (m *machine) jitter(i int32) checkpoint.Fingerprint {
	h := checkpoint.NewHasher("engine/jitter/1")
	h.String(m.seed)
	h.String(m.g.Address(m.step(i)))
	for l := range max(m.depth(i), 1) {
		h.Int(int(m.key(i, l))) // -1 of a step
	}
	h.Int(int(m.attempt[i]))
	return h.Sum()
}

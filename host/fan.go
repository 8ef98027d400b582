package host

import (
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// fan is a step with for_each while its instances run: nodes base, base+1, …,
// in the order of the collection.
type fan struct {
	base, n   int32
	open      int32 // instances that have not ended
	failed    int32
	cancelled int32
	first     int32 // the first instance in order that failed; -1
	left      int32 // instances that nobody asked for
	inside    int32 // instances that have left the queue and not ended; bounded by the step's concurrency
	queue     queue
}

// fan is that of a step; nil while its instances are not known.
func (m *machine) fan(step int32) *fan {
	if m.fans == nil {
		return nil
	}
	return m.fans[step]
}

// place is the position of an instance in its collection; -1 for a step.
func (m *machine) place(i int32) int32 {
	if m.isStep(i) {
		return -1
	}
	return i - m.fans[m.step(i)].base
}

// named is the node that a reference means for instance of: the instance of
// the same place if it is paired and that is known, else the step.
func (m *machine) named(r *recovery.Ref, of int32) int32 {
	if r.Paired && of >= 0 {
		if f := m.fan(r.Step); f != nil {
			return f.base + of
		}
	}
	return r.Step
}

func (m *machine) over(i int32) bool { return !m.needed[i] || m.stage[i] == stageEnded }

// early: the instances of step i are made before everything that it names has
// ended, and judge the rest one by one: because `when` is asked of each, or
// because each names instances of other steps.
func (m *machine) early(i int32) bool {
	if !m.steps[i].ForEach {
		return false
	}
	if m.steps[i].EachWhen || m.steps[i].Beside {
		return true
	}
	for _, r := range m.g.EachRefs(i) {
		if r.Paired && m.fan(r.Step) != nil {
			return true
		}
	}
	return false
}

// unpaired are the facets of `when` and for_each of step i that mean a whole step.
func (m *machine) unpaired(i int32) (out []recovery.Ref) {
	for _, r := range m.g.WhenRefs(i) {
		if !r.Paired {
			out = append(out, r)
		}
	}
	for _, r := range m.g.EachRefs(i) {
		if !r.Paired || m.fan(r.Step) == nil {
			out = append(out, r)
		}
	}
	return out
}

// expandable: what `when` and `for_each` of step i name has ended, or, if
// for_each follows another's instances, those are known.
func (m *machine) expandable(i int32) bool {
	for _, r := range m.g.WhenRefs(i) {
		if !m.over(r.Step) && !r.Paired {
			return false
		}
	}
	for _, r := range m.g.EachRefs(i) {
		if !m.over(r.Step) && !(r.Paired && m.fan(r.Step) != nil) {
			return false
		}
	}
	return true
}

// met: everything that instance of of a step names has ended.
func (m *machine) met(step, of int32) bool {
	if m.unmet[step] == 0 {
		return true
	}
	if of < 0 {
		return false
	}
	for k := range m.g.AllRefs(step) {
		r := &m.g.AllRefs(step)[k]
		if !m.over(r.Step) && !m.over(m.named(r, of)) {
			return false
		}
	}
	return true
}

// followsSkipped stands among the attempts of instances for one that is skipped
// because the stored one that it follows was.
const followsSkipped = -1

// notAsked stands there for one that is not to run, because others of its step were
// asked for by name.
const notAsked = -2

// expand makes the instances of step i. tried holds for each the attempts that
// earlier continuations of the run have made of it, or followsSkipped.
func (m *machine) expand(i int32, tried []int32) {
	f := &fan{base: int32(len(m.state)), n: int32(len(tried)), open: int32(len(tried)), first: -1}
	m.fans[i] = f
	m.stage[i] = stageFanned
	for _, a := range tried {
		m.enterNode(i)
		m.attempt[len(m.attempt)-1] = max(a, 0)
	}
	m.open += int(f.n)
	for k := range f.n {
		if tried[k] == notAsked {
			f.left++
			f.open--
			m.open--
			m.needed[f.base+k], m.state[f.base+k], m.stage[f.base+k] = false, sdk.Cancelled, stageEnded
		}
	}
	for k := range f.n {
		if tried[k] == followsSkipped {
			m.finish(f.base+k, sdk.Skipped, nil)
			m.hit = append(m.hit, f.base+k)
			continue
		}
		m.considerInstance(f.base + k) // one that was not asked for has ended
	}
	m.gather(i)
	// What follows these instances can be expanded now.
	for _, d := range m.g.Downstream(i) {
		if m.needed[d] && m.stage[d] == stageWaiting && m.steps[d].ForEach {
			m.consider(d)
		}
	}
}

// known enters the instances of a step that has ended by a record, which those
// of the steps beside it name.
func (m *machine) known(i int32, states []sdk.State) {
	f := &fan{base: int32(len(m.state)), n: int32(len(states)), first: -1}
	m.fans[i] = f
	for _, s := range states {
		m.enterNode(i)
		k := len(m.state) - 1
		m.state[k], m.needed[k], m.stage[k] = s, false, stageEnded
	}
}

// enterNode makes a node for an instance of step i.
func (m *machine) enterNode(i int32) {
	m.owner = append(m.owner, i)
	m.state = append(m.state, sdk.Pending)
	m.needed = append(m.needed, true)
	m.stage = append(m.stage, stageWaiting)
	m.unmetWhen = append(m.unmetWhen, 0)
	m.attempt = append(m.attempt, 0)
	m.tries = append(m.tries, nil)
	m.first = append(m.first, 0)
	m.effects = append(m.effects, 0)
}

// considerFan looks at the instances of step i after an upstream has ended.
func (m *machine) considerFan(i int32) {
	f := m.fans[i]
	if m.unmet[i] > 0 && !m.steps[i].EachWhen && !m.steps[i].Beside {
		return // those that are paired are looked at one by one
	}
	for k := range f.n {
		m.considerInstance(f.base + k)
	}
	m.gather(i)
}

// considerInstance is consider for an instance.
func (m *machine) considerInstance(i int32) {
	if m.stage[i] != stageWaiting {
		return
	}
	step, of := m.step(i), m.place(i)
	if m.asksWhen(i) {
		refs := m.g.Refs(step)[:len(m.g.WhenRefs(step))+len(m.g.EachRefs(step))]
		for k := range refs {
			if !m.over(refs[k].Step) && !m.over(m.named(&refs[k], of)) {
				return
			}
		}
		m.startOr(i, refs, of)
		return
	}
	if m.met(step, of) {
		m.startOr(i, m.g.AllRefs(step), of)
	}
}

// instanceEnded counts an instance out, tells those paired with it, and ends
// the step when it was the last.
func (m *machine) instanceEnded(i int32) {
	step, of := m.step(i), m.place(i)
	f := m.fans[step]
	f.open--
	switch m.state[i] {
	case sdk.Failed:
		if f.failed++; f.first < 0 || i < f.first {
			f.first = i
		}
	case sdk.Cancelled:
		f.cancelled++
	}
	for _, d := range m.g.Downstream(step) {
		if g := m.fan(d); g != nil && m.stage[d] == stageFanned && of < g.n && m.paired(d, step) {
			m.considerInstance(g.base + of)
		}
	}
	m.gather(step)
}

// paired: an instance of step d names the instance of step u with its place.
func (m *machine) paired(d, u int32) bool {
	for _, r := range m.g.AllRefs(d) {
		if r.Step == u && r.Paired {
			return true
		}
	}
	return false
}

// gather ends step i, or lets its output be put together, once all instances
// and everything it names have ended.
func (m *machine) gather(i int32) {
	f := m.fans[i]
	if m.stage[i] != stageFanned || f.open > 0 || m.unmet[i] > 0 {
		return
	}
	s, why := m.verdict(m.g.AllRefs(i), -1)
	switch {
	case f.failed > 0:
		s, why = sdk.Failed, m.errs[f.first]
	case f.left > 0, f.cancelled > 0, s == sdk.Succeeded && m.halted():
		s, why = sdk.Cancelled, m.stop
	}
	if s == sdk.Succeeded {
		m.makeReady(i)
		return
	}
	m.finish(i, s, why)
	m.hit = append(m.hit, i)
}

// enter lets an instance join the ready ones, unless as many of its step as may
// run at once are among them.
func (m *machine) enter(i int32) bool {
	step := m.step(i)
	f, limit := m.fans[step], m.steps[step].Concurrency
	if limit > 0 && f.inside >= limit {
		m.stage[i] = stageQueued
		f.queue.push(i)
		return false
	}
	f.inside++
	return true
}

// leave gives an instance's place to the next one.
func (m *machine) leave(i int32) {
	if m.isStep(i) {
		return
	}
	switch m.stage[i] {
	case stageWaiting, stageQueued, stageRetry, stageLimited, stageEnded:
		return
	}
	f := m.fans[m.step(i)]
	f.inside--
	for f.queue.len() > 0 {
		if next := f.queue.pop(); m.stage[next] == stageQueued {
			f.inside++
			m.stage[next] = stageReady
			m.ready.push(next)
			return
		}
	}
}

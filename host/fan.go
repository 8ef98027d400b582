package host

import (
	"github.com/retrace-dev/engine/recovery"
	"github.com/retrace-dev/engine/sdk"
)

// fan is the instances of a node while they run: nodes base, base+1, …, in the
// order of the collection. Those of a step in loops within loops have instances
// themselves, down to those that run; all but these are collections.
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

// instance is what a node behind the steps is.
type instance struct {
	step   int32
	parent int32 // the node of whose collection it is one
	place  int32 // in that
	depth  int32 // of how many loops it has the key
}

// fan is that of a node; nil while its instances are not known.
func (m *machine) fan(i int32) *fan {
	if m.fans == nil {
		return nil
	}
	return m.fans[i]
}

// depth is of how many loops a node has the key; 0 of a step.
func (m *machine) depth(i int32) int32 {
	if m.isStep(i) {
		return 0
	}
	return m.instances[i-int32(m.g.Len())].depth
}

// collects: node i has instances, it does not run itself.
func (m *machine) collects(i int32) bool { return m.depth(i) < m.policy(i).Loops }

// parent is the node that an instance is one of.
func (m *machine) parent(i int32) int32 { return m.instances[i-int32(m.g.Len())].parent }

// place is the position of an instance in its collection; -1 for a step.
func (m *machine) place(i int32) int32 {
	if m.isStep(i) {
		return -1
	}
	return m.instances[i-int32(m.g.Len())].place
}

// key is the place of node i in loop l, from 0; -1 where it has none.
func (m *machine) key(i, l int32) int32 {
	d := m.depth(i)
	if l >= d {
		return -1
	}
	for ; d > l+1; d-- {
		i = m.parent(i)
	}
	return m.place(i)
}

// levels is how many keys decide which node a reference means.
func levels(r *recovery.Ref) int32 { return max(r.Shared, r.Follows) }

// named is the node that a reference means for node i: the instance with the keys
// that they have in common, as far as i has them and that is known.
func (m *machine) named(r *recovery.Ref, i int32) int32 {
	u := r.Step
	if m.isStep(i) || !r.Paired() {
		return u
	}
	for l := range r.Shared + 1 {
		k := int32(-1)
		switch {
		case l < r.Shared:
			k = m.key(i, l)
		case r.Follows > 0:
			k = m.key(i, r.Follows-1)
		}
		f := m.fan(u)
		if f == nil || k < 0 || k >= f.n {
			break
		}
		u = f.base + k
	}
	return u
}

func (m *machine) over(i int32) bool { return !m.needed[i] || m.stage[i] == stageEnded }

// eachRefs are the facets of for_each of the loops before and of loop l of a step.
func (m *machine) eachRefs(step, l int32) (before, own []recovery.Ref) {
	refs := m.g.EachRefs(step)
	for k, n := range m.steps[step].Each {
		if int32(k) == l {
			return m.g.EachRefs(step)[:len(m.g.EachRefs(step))-len(refs)], refs[:n]
		}
		refs = refs[n:]
	}
	return m.g.EachRefs(step), nil
}

// early: the instances of collection i are made before everything that it names has
// ended, and judge the rest one by one: because `when` is asked of each, or
// because each names instances of other steps.
func (m *machine) early(i int32) bool {
	step, d := m.step(i), m.depth(i)
	if m.steps[step].WhenDepth > d {
		return true
	}
	refs := m.g.AllRefs(step)
	for k := range refs {
		if levels(&refs[k]) > d && refs[k].Follows != d+1 {
			return true
		}
	}
	_, own := m.eachRefs(step, d)
	for k := range own {
		if own[k].Follows == d+1 && m.fan(m.named(&own[k], i)) != nil {
			return true
		}
	}
	return false
}

// decisive are the facets that decide whether the instances of collection i are made
// early: of those of `when` and for_each, the ones that i has all the keys for.
func (m *machine) decisive(i int32) (out []recovery.Ref) {
	step, d := m.step(i), m.depth(i)
	for _, r := range m.g.WhenRefs(step) {
		if levels(&r) <= d {
			out = append(out, r)
		}
	}
	above, own := m.eachRefs(step, d)
	out = append(out, above...)
	for _, r := range own {
		if r.Follows != d+1 || m.fan(m.named(&r, i)) == nil {
			out = append(out, r)
		}
	}
	return out
}

// asked are the facets that must have ended before `when` is asked of node i: its
// own, and those that say what its each is.
func (m *machine) asked(i int32) []recovery.Ref {
	step := m.step(i)
	above, _ := m.eachRefs(step, m.depth(i))
	return m.g.Refs(step)[:len(m.g.WhenRefs(step))+len(above)]
}

// allOver: everything that refs mean for node i has ended.
func (m *machine) allOver(refs []recovery.Ref, i int32) bool {
	for k := range refs {
		if !m.over(refs[k].Step) && !m.over(m.named(&refs[k], i)) {
			return false
		}
	}
	return true
}

// met: everything that node i names has ended.
func (m *machine) met(i int32) bool {
	step := m.step(i)
	if m.unmet[step] == 0 {
		return true
	}
	return i != step && m.allOver(m.g.AllRefs(step), i)
}

// followsSkipped stands among the attempts of instances for one that is skipped
// because the stored one that it follows was.
const followsSkipped = -1

// notAsked stands there for one that is not to run, because others of its step were
// asked for by name.
const notAsked = -2

// expand makes the instances of node i. tried holds for each the attempts that
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
		m.consider(f.base + k) // one that was not asked for has ended
	}
	m.stopped(i)
	m.gather(i)
	// What follows these instances can be expanded now.
	step := m.step(i)
	for _, d := range m.g.Downstream(step) {
		if m.needed[d] && m.steps[d].Loops > 0 {
			m.below(d, step, i, true)
		}
	}
}

// known enters the instances of a node that has ended by a record, which those
// of the steps beside it name.
func (m *machine) known(i int32, k *knownFan) {
	f := &fan{base: int32(len(m.state)), n: int32(len(k.states)), first: -1}
	m.fans[i] = f
	for _, s := range k.states {
		m.enterNode(i)
		at := len(m.state) - 1
		m.state[at], m.needed[at], m.stage[at] = s, false, stageEnded
	}
	for n, in := range k.below {
		if in != nil {
			m.known(f.base+int32(n), in)
		}
	}
}

// enterNode makes a node for the next instance of node i.
func (m *machine) enterNode(i int32) {
	step := m.step(i)
	m.instances = append(m.instances, instance{step: step, parent: i, place: int32(len(m.state)) - m.fans[i].base, depth: m.depth(i) + 1})
	m.fans = append(m.fans, nil)
	m.state = append(m.state, sdk.Pending)
	m.needed = append(m.needed, true)
	m.stage = append(m.stage, stageWaiting)
	m.unmetWhen = append(m.unmetWhen, 0)
	m.attempt = append(m.attempt, 0)
	m.tries = append(m.tries, nil)
	m.first = append(m.first, 0)
	m.effects = append(m.effects, 0)
}

// considerFan looks at the instances of collection i after an upstream has ended.
func (m *machine) considerFan(i int32) {
	if f, p := m.fans[i], m.policy(i); m.unmet[m.step(i)] == 0 || p.WhenDepth > 0 || p.Deep {
		for k := range f.n {
			m.consider(f.base + k)
		}
	} // else those that are paired are looked at one by one
	m.gather(i)
}

// below looks at the nodes of step d for which a reference to step u means node i, or
// what i is in. With waiting, at those alone whose instances are not made yet.
func (m *machine) below(d, u, i int32, waiting bool) {
	refs := m.g.AllRefs(d)
	for k := range refs {
		if r := &refs[k]; r.Step == u {
			if waiting && r.Follows == 0 || !waiting && levels(r) == 0 {
				continue
			}
			m.visit(d, r, i, waiting)
			return // all references to one step mean the same
		}
	}
}

// visit is below from node d on.
func (m *machine) visit(d int32, r *recovery.Ref, i int32, waiting bool) {
	f := m.fan(d)
	if f == nil || m.stage[d] != stageFanned {
		m.consider(d)
		return
	}
	// The key that d's instances have in the loop is i's, or any.
	l, want := m.depth(d), int32(-1)
	switch {
	case l < r.Shared:
		want = m.key(i, l)
	case r.Follows == l+1:
		want = m.key(i, r.Shared)
	}
	switch {
	case l < levels(r) && want >= 0 && want < f.n:
		m.visit(f.base+want, r, i, waiting)
	case l < levels(r):
		for k := range f.n {
			m.visit(f.base+k, r, i, waiting)
		}
	case !waiting:
		m.considerFan(d)
	}
}

// instanceEnded counts an instance out, tells those paired with it, and ends
// its collection when it was the last.
func (m *machine) instanceEnded(i int32) {
	step, of := m.step(i), m.parent(i)
	f := m.fans[of]
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
		if m.needed[d] && m.steps[d].Loops > 0 {
			m.below(d, step, i, false)
		}
	}
	m.gather(of)
}

// gather ends collection i, or lets its output be put together, once all instances
// and everything it names have ended.
func (m *machine) gather(i int32) {
	f := m.fans[i]
	if m.stage[i] != stageFanned || f.open > 0 || !m.met(i) {
		return
	}
	s, why := m.verdict(m.g.AllRefs(m.step(i)), i)
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

// enter lets an instance join the ready ones, unless as many of its collection as
// may run at once are among them.
func (m *machine) enter(i int32) bool {
	f, limit := m.fans[m.parent(i)], m.policy(i).Concurrency
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
	if m.isStep(i) || m.collects(i) {
		return
	}
	switch m.stage[i] {
	case stageWaiting, stageQueued, stageRetry, stageLimited, stageEnded:
		return
	}
	f := m.fans[m.parent(i)]
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

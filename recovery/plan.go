package recovery

import (
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Reuse says when a stored result may be taken.
type Reuse uint8

// The reuse policies.
const (
	ReuseAlways Reuse = iota
	ReuseRun          // only results of the chain of runs this one follows
	ReuseNever
)

// Definition is what identifies a step's computation, apart from its upstreams.
type Definition struct {
	Local checkpoint.Fingerprint // local key, Numbered
	When  checkpoint.Fingerprint // key of `when` alone; zero without `when`
	Reuse Reuse
	// Instance is the local key of an instance of a step with for_each, which
	// holds nothing of the collection; zero without for_each.
	Instance checkpoint.Fingerprint
	// Judge is the digest of the postconditions; nil without any. A record that
	// others have judged is taken when its output holds before these.
	Judge *sdk.Digest
}

// Options say for which run, when and what is planned.
type Options struct {
	Run     checkpoint.RunID // the run that is opened or continued
	Chain   checkpoint.RunID // first run of the chain it follows; Run itself if it follows none
	Now     time.Time        // against which expiry is judged
	Targets []int32          // what must end; Targets() gives the default
	Rerun   []int32          // run even if current; they become targets
	Set     []int32          // a person gives their output; like Rerun, but for the reason
	// Lost names records (by Head.Data.Seq) whose data was found missing or
	// damaged: they count as husks.
	Lost map[checkpoint.Seq]bool
}

// Verdict is what the plan thinks of a step's record.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // an upstream is not current: decided when it has ended
	Missing                // no record under the plan key
	Due                    // found, but not usable now
	Current                // found and usable
)

// Action is what the plan does with a step.
type Action uint8

// The actions.
const (
	Untouched Action = iota // nothing needs it
	Take                    // its record is taken: the recovery set
	Skip                    // current, and the record says skipped
	Decide                  // decided when its upstreams have ended: reused or run
	Run                     // runs without a look-up
)

// Why says why a step has its verdict or action. Reason carries what belongs
// to it.
type Why uint8

// The reasons.
const (
	WhyCurrent   Why = iota // its own record is current
	WhyRenamed              // another step's record is current: Reason.Head
	WhyNeverRan             // no record of it exists
	WhyChanged              // its newest record (Reason.Head) has other keys
	WhyUpstream             // waits for Reason.Upstream
	WhyExpired              // Reason.Head has expired
	WhyNever                // reuse = never
	WhyOtherRun             // reuse = run, and the record is of a run this one does not follow
	WhyDegraded             // degraded in an earlier run
	WhyHusk                 // its output was not kept, and a step below needs it
	WhyLost                 // its output is missing or damaged, and a step below needs it
	WhyRerun                // asked for
	WhyFailed               // failed and was skipped in an earlier run
	WhyWithdrawn            // undone after a failed run
	WhyJudge                // the postconditions that judged Reason.Head have changed
	WhySet                  // a person gives its output
	WhyOperator             // a person gave Reason.Head in an earlier run
	WhySkipped              // skipped, as its record or its upstream says
)

// Reason is why a step is planned as it is.
type Reason struct {
	Why      Why
	Upstream int32            // for WhyUpstream, the first upstream that is not current; else -1
	Head     *checkpoint.Head // the record that was compared; nil if there is none
}

// StepPlan is the plan for one step.
type StepPlan struct {
	Verdict Verdict
	Action  Action
	Reason  Reason
	// Head is the record that stands for the step while its verdict is
	// Current; nil otherwise.
	Head *checkpoint.Head
}

// Plan says for every step of the graph what will be done. It is an upper
// bound: a step planned as Decide may turn out to be reused. It is not changed
// after NewPlan and safe for concurrent use.
type Plan struct {
	marks []mark
	own   []*checkpoint.Head // each step's newest record
	found []*checkpoint.Head // what was found in its place; nil if nothing was

	g     *Graph
	defs  []Definition
	index *checkpoint.Index
	o     Options
}

// mark is what a plan notes of one step: without a pointer and in eight bytes,
// since planning a large graph is bound by the memory it touches.
type mark struct {
	verdict  Verdict
	action   Action
	why      Why
	found    bool  // its record is found[i], not own[i]
	upstream int32 // of the reason; -1 = none
}

// Len is the number of steps.
func (p *Plan) Len() int { return len(p.marks) }

// Step is what is planned for step i.
func (p *Plan) Step(i int32) StepPlan {
	m := &p.marks[i]
	h := p.head(i)
	s := StepPlan{Verdict: m.verdict, Action: m.action, Reason: Reason{Why: m.why, Upstream: m.upstream, Head: h}}
	if m.verdict == Current {
		s.Head = h
	}
	if h == skippedUpstream {
		s.Reason.Head = nil
	}
	return s
}

// head is the record that step i was compared with, and while its verdict is
// Current the one that stands for it.
func (p *Plan) head(i int32) *checkpoint.Head {
	if p.marks[i].found {
		return p.found[i]
	}
	return p.own[i]
}

// take notes h, which is not its own newest one, as the record of step i.
func (p *Plan) take(i int32, h *checkpoint.Head) {
	if h == p.own[i] {
		return
	}
	if p.found == nil {
		p.found = make([]*checkpoint.Head, len(p.own))
	}
	p.found[i], p.marks[i].found = h, true
}

// skippedUpstream stands for every step that is skipped because a hard
// upstream was.
var skippedUpstream = &checkpoint.Head{Outcome: checkpoint.SkippedUpstream}

// Bind finds each node's newest head.
func Bind(g *Graph, index *checkpoint.Index) []*checkpoint.Head {
	heads := make([]*checkpoint.Head, g.Len())
	if index.Len() == 0 {
		return heads
	}
	for i := range heads {
		heads[i] = index.Head(g.addresses[i], "")
	}
	return heads
}

// Targets is the default of Options.Targets: every step without downstream,
// and those given (what outputs name, steps with effects).
func Targets(g *Graph, more []int32) []int32 {
	var ts []int32
	for i := range int32(g.Len()) {
		if len(g.Downstream(i)) == 0 {
			ts = append(ts, i)
		}
	}
	return append(ts, more...)
}

// NewPlan decides for every step. heads is Bind's result for the same graph
// and index, and the plan's from now on; index may hold records of steps that
// no longer exist.
func NewPlan(g *Graph, defs []Definition, heads []*checkpoint.Head, index *checkpoint.Index, o Options) *Plan {
	p := &Plan{marks: make([]mark, g.Len()), own: heads, g: g, defs: defs, index: index, o: o}
	forced := p.forced()
	for _, i := range g.order {
		p.judge(i, forced)
	}
	p.walk()
	return p
}

// forced says of each step why it is not looked up; nil if all are.
func (p *Plan) forced() []Why {
	if len(p.o.Rerun)+len(p.o.Set) == 0 {
		return nil
	}
	f := make([]Why, p.g.Len())
	for _, i := range p.o.Rerun {
		f[i] = WhyRerun
	}
	for _, i := range p.o.Set {
		f[i] = WhySet
	}
	return f
}

// judge gives i its verdict; all its upstreams have theirs.
func (p *Plan) judge(i int32, forced []Why) {
	m := &p.marks[i]
	m.upstream = -1
	if forced != nil && forced[i] != 0 {
		m.verdict, m.why = Due, forced[i]
		return
	}
	own, def, refs := p.own[i], &p.defs[i], p.g.Refs(i)
	if when := refs[:p.g.when[i]]; !def.When.IsZero() && p.firstOpen(when) < 0 {
		h := own
		if !p.skips(own, def, when) {
			h = p.lookUp(i, def.When, when)
		}
		if h != nil {
			p.take(i, h)
			m.verdict, m.why = Current, WhySkipped
			return
		}
	}
	h := own
	if !p.unchanged(own, def, refs) {
		switch open, skipped := p.obstacles(refs); {
		case skipped >= 0:
			p.take(i, skippedUpstream)
			m.verdict, m.why, m.upstream = Current, WhySkipped, skipped
			return
		case open >= 0:
			m.verdict, m.why, m.upstream = Unknown, WhyUpstream, open
			return
		}
		h = p.lookUp(i, def.Local, refs)
	}
	switch {
	case h == nil && own == nil:
		m.verdict, m.why = Missing, WhyNeverRan
	case h == nil:
		m.verdict, m.why = Missing, WhyChanged
	default:
		p.take(i, h)
		if why, due := p.due(def, h); due {
			m.verdict, m.why = Due, why
			return
		}
		if judges(def, h) {
			m.verdict, m.why = Unknown, WhyJudge
			return
		}
		m.verdict, m.why = Current, WhyCurrent
		if h != own && h.Step != p.g.addresses[i] {
			m.why = WhyRenamed
		}
	}
}

// unchanged reports whether own is the record of this very computation. Of most
// steps of most plans nothing more is looked at.
func (p *Plan) unchanged(own *checkpoint.Head, def *Definition, refs []Ref) bool {
	if own == nil || own.Outcome != checkpoint.Succeeded || len(own.Lineage) != len(refs) || !own.HasLocal(&def.Local) {
		return false
	}
	for k := range refs {
		r := &refs[k]
		if p.marks[r.Step].verdict != Current {
			return false
		}
		u := p.head(r.Step)
		if r.Kind == Hard && u.Outcome != checkpoint.Succeeded || !u.HasFacet(r.Facet, &own.Lineage[k]) {
			return false
		}
	}
	return true
}

// obstacles are what keeps a step from being looked up: open is the first
// upstream that is not current, skipped the first hard one that was skipped
// (-1: none).
func (p *Plan) obstacles(refs []Ref) (open, skipped int32) {
	open = -1
	for k := range refs {
		switch u := refs[k].Step; {
		case p.marks[u].verdict != Current:
			if open < 0 {
				open = u
			}
		case refs[k].Kind == Hard && p.head(u).Outcome != checkpoint.Succeeded:
			return -1, u
		}
	}
	return open, -1
}

// skips reports whether own says that `when` was false for these upstreams.
func (p *Plan) skips(own *checkpoint.Head, def *Definition, when []Ref) bool {
	if own == nil || own.Outcome != checkpoint.SkippedCondition || own.Local != def.When || len(own.Lineage) != len(when) {
		return false
	}
	for k := range when {
		if !p.head(when[k].Step).HasFacet(when[k].Facet, &own.Lineage[k]) {
			return false
		}
	}
	return true
}

// lookUp finds the record of step i under the plan key of local and the refs
// as they stand, hashing only if there is anything to find.
func (p *Plan) lookUp(i int32, local checkpoint.Fingerprint, refs []Ref) *checkpoint.Head {
	if p.index.Len() == 0 {
		return nil
	}
	ds := make([]sdk.Digest, len(refs))
	for k := range refs {
		ds[k] = p.head(refs[k].Step).Facet(refs[k].Facet)
	}
	return p.byPlan(i, checkpoint.PlanKey(local, sdk.Digest{}, ds))
}

func (p *Plan) byPlan(i int32, key checkpoint.Fingerprint) *checkpoint.Head {
	if h := p.index.ByPlan(key, p.g.addresses[i], "", p.o.Run); h != nil {
		return h
	}
	return p.renamed(p.index.PlanHeads(key))
}

// renamed is the newest record of a step that is no longer in the flow. What
// another step made in this very run is not taken otherwise, since it would
// depend on which ends first; a step that is gone ends no more, and its result,
// or its effect, is this one's under another name.
func (p *Plan) renamed(hs []*checkpoint.Head) (newest *checkpoint.Head) {
	for _, h := range hs {
		if (newest == nil || newest.Seq < h.Seq) && !p.g.Has(h.Step) {
			newest = h
		}
	}
	return newest
}

// firstOpen is the first step among refs that is not current, or -1.
func (p *Plan) firstOpen(refs []Ref) int32 {
	for k := range refs {
		if p.marks[refs[k].Step].verdict != Current {
			return refs[k].Step
		}
	}
	return -1
}

// due says whether h, found under the right key, must not be taken now.
func (p *Plan) due(def *Definition, h *checkpoint.Head) (Why, bool) {
	switch {
	case h.Outcome == checkpoint.Withdrawn:
		return WhyWithdrawn, true
	case h.Outcome == checkpoint.SkippedFailure && h.Run != p.o.Run:
		return WhyFailed, true
	case h.Outcome != checkpoint.Succeeded:
		return 0, false
	case !h.Expires.IsZero() && !p.o.Now.Before(h.Expires):
		return WhyExpired, true
	case def.Reuse == ReuseNever:
		return WhyNever, true
	case def.Reuse == ReuseRun && h.Chain != p.o.Chain:
		return WhyOtherRun, true
	case h.Degraded && h.Run != p.o.Run:
		return WhyDegraded, true
	case h.Operator && h.Run != p.o.Run && def.Reuse != ReuseRun:
		// Where reuse = run, the person has said what came of an effect, which
		// stays true for the runs that follow.
		return WhyOperator, true
	}
	return 0, false
}

// judges: the output of h must be judged before it is taken.
func judges(def *Definition, h *checkpoint.Head) bool {
	return def.Judge != nil && h.Outcome == checkpoint.Succeeded && h.Judged != *def.Judge
}

func (p *Plan) hasData(h *checkpoint.Head) bool {
	return h.HasData() && (len(p.o.Lost) == 0 || !p.o.Lost[h.Data.Seq])
}

// walk is the reverse breadth-first search from the targets. It ends each
// branch at a current step with data and gives every step it met its action.
func (p *Plan) walk() {
	queue := make([]int32, 0, p.g.Len()) // each step enters it once
	need := func(i int32) {
		if m := &p.marks[i]; m.action == Untouched {
			m.action = Decide // its final action is set when it leaves the queue
			queue = append(queue, i)
		}
	}
	for _, t := range p.o.Targets {
		need(t)
	}
	for _, t := range p.o.Rerun {
		need(t)
	}
	for _, t := range p.o.Set {
		need(t)
	}
	needUpstream := func(i int32) {
		for _, u := range p.g.Upstream(i) {
			need(u)
		}
	}
	for head := 0; head < len(queue); head++ {
		i := queue[head]
		m := &p.marks[i]
		switch m.verdict {
		case Current:
			switch h := p.head(i); {
			case h.Outcome != checkpoint.Succeeded:
				m.action = Skip
			case p.hasData(h):
				m.action = Take
			default: // a husk, and its data is needed
				m.action, m.verdict, m.why, m.upstream = Run, Due, WhyHusk, -1
				if h.HasData() {
					m.why = WhyLost
				}
				needUpstream(i)
				p.fall(i, needUpstream)
			}
		case Due:
			m.action = Run
			needUpstream(i)
		default:
			m.action = Decide
			needUpstream(i)
		}
	}
}

// fall makes what is below i unknown, because i will run. Those of them that
// were taken already need their upstreams now.
func (p *Plan) fall(i int32, needUpstream func(int32)) {
	stack := []int32{i}
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, d := range p.g.Downstream(u) {
			m := &p.marks[d]
			if m.verdict != Current || p.head(d).Outcome == checkpoint.SkippedCondition && !names(p.g.WhenRefs(d), u) {
				continue
			}
			m.verdict, m.why, m.upstream = Unknown, WhyUpstream, u
			if m.action == Take || m.action == Skip {
				m.action = Decide
				needUpstream(d)
			}
			stack = append(stack, d)
		}
	}
}

func names(refs []Ref, i int32) bool {
	for k := range refs {
		if refs[k].Step == i {
			return true
		}
	}
	return false
}

package checkpoint

import (
	"cmp"
	"slices"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// Policy says what may be removed from a store. The zero Policy removes only
// what has expired at the zero time, which is nothing.
type Policy struct {
	Now      time.Time // records that expired before go
	Keep     int       // of a step instance the newest N records stay, and of a workflow with the same variable values the newest N runs; 0 = all
	MaxBytes int64     // of all outputs with their blobs together; the oldest lose theirs first; 0 = no limit
	Before   time.Time // runs that nothing has happened in since go, whatever their variable values, with the records that no other uses; zero = none
	// KeepSteps is Keep for the instances of single steps, in place of it.
	KeepSteps map[StepOf]int
}

// StepOf names a step of a workflow.
type StepOf struct{ Workflow, Step string }

// KeepOf is how many records of an instance of the step stay; 0 = all.
func (p *Policy) KeepOf(workflow, step string) int {
	if n, own := p.KeepSteps[StepOf{workflow, step}]; own {
		return n
	}
	return p.Keep
}

// Stored is a checkpoint as retention sees it.
type Stored struct {
	Workflow string
	*Head
	Blobs []sdk.Blob // that its output refers to, with the sizes they take
}

// RemovalReason says why something may go.
type RemovalReason string

// The reasons, in the order in which they are looked for.
const (
	RemoveExpired    RemovalReason = "expired"    // its time to live is over
	RemoveSuperseded RemovalReason = "superseded" // Policy.Keep newer ones of the step instance stay
	RemoveForgotten  RemovalReason = "forgotten"  // its run is older than Policy.Before
	RemoveBudget     RemovalReason = "budget"     // Policy.MaxBytes
)

// Removal is one checkpoint that goes, or the output of one.
type Removal struct {
	Stored
	Reason RemovalReason
}

// RunRemoval is one run that goes.
type RunRemoval struct {
	*RunRecord
	Reason RemovalReason // RemoveSuperseded or RemoveForgotten
	Active time.Time     // when something happened in it last
}

// Decision is what Select found. The lists are in the order of Seq, the runs in
// the order they were given in.
type Decision struct {
	Records []Removal    // these go
	Outputs []Removal    // these become husks
	Runs    []RunRemoval // these go, with their attempts and intents
	Freed   int64        // bytes of outputs and their blobs that nothing needs any more
	Bytes   int64        // bytes of outputs and their blobs that stay
	Over    int64        // by which Bytes exceeds Policy.MaxBytes, since all of it is in use
}

// Select decides what goes from a tenant's store, given all of its checkpoints
// and the newest record of each of its runs, newest run first, as Store.Runs
// lists them. unsettled are the runs with attempts of which Unsettled says that
// nobody knows their end; these stay, as do those with something to undo.
//
// What is in use never goes: everything that a run which is not known to have
// ended, or the newest run of each workflow with the same variable values, has
// committed or reused, but for runs older than Policy.Before. Since records share
// outputs, an output goes only when no record that stays names it; a run stays
// while a record of it does.
func Select(records []Stored, runs []*RunRecord, unsettled map[RunID]bool, p Policy) Decision {
	s := selection{records: records, runs: runs, policy: p, unsettled: unsettled, inUse: make([]bool, len(records)), gone: make([]bool, len(records))}
	s.findForgotten()
	s.findUsed()
	s.selectRecords()
	s.selectOutputs()
	s.selectRuns()
	slices.SortFunc(s.d.Records, bySeq)
	slices.SortFunc(s.d.Outputs, bySeq)
	return s.d
}

func bySeq(a, b Removal) int { return cmp.Compare(a.Seq, b.Seq) }

// selection is one Select under way.
type selection struct {
	records []Stored
	runs    []*RunRecord
	policy  Policy

	unsettled map[RunID]bool
	active    map[RunID]time.Time // when something happened in a run last
	forgotten map[RunID]bool      // older than policy.Before
	inUse     []bool              // by record
	gone      []bool              // by record
	stack     []int               // in use, and their upstreams not looked at yet
	d         Decision
}

// stays: what may have happened in the run, or is to be undone, is not forgotten.
func (s *selection) stays(r *RunRecord) bool { return r.Undoing() || s.unsettled[r.ID] }

// findForgotten finds the runs older than policy.Before. One that was interrupted has
// no end: it is as old as its newest record.
func (s *selection) findForgotten() {
	s.active, s.forgotten = map[RunID]time.Time{}, map[RunID]bool{}
	later := func(id RunID, t time.Time) {
		if s.active[id].Before(t) {
			s.active[id] = t
		}
	}
	for _, r := range s.records {
		later(r.Run, r.Created)
	}
	for _, r := range s.runs {
		later(r.ID, r.Created)
		later(r.ID, r.Since)
		later(r.ID, r.Ended)
		s.forgotten[r.ID] = s.active[r.ID].Before(s.policy.Before) && !s.stays(r)
	}
}

// groupKey names the runs that take each other's place.
type groupKey struct {
	workflow  string
	variables sdk.Digest
}

// findUsed marks what is in use.
func (s *selection) findUsed() {
	byRun, bySeq := map[RunID][]int{}, map[Seq]int{}
	for i, r := range s.records {
		byRun[r.Run] = append(byRun[r.Run], i)
		bySeq[r.Seq] = i
	}
	runs := map[RunID]*RunRecord{}
	for _, r := range s.runs {
		runs[r.ID] = r
	}
	newest := map[groupKey]bool{}
	for _, r := range s.runs {
		k := groupKey{r.Workflow, r.Variables}
		if s.forgotten[r.ID] {
			continue
		}
		if newest[k] && r.Status != RunRunning && !r.Undoing() {
			continue
		}
		newest[k] = true
		// A run that made nothing of its own and does not say what it reused
		// stands on what the run before it did.
		for seen := map[RunID]bool{}; r != nil && !seen[r.ID]; r = runs[r.Follows] {
			seen[r.ID] = true
			for _, i := range byRun[r.ID] {
				s.use(i)
			}
			for _, seq := range r.Reused {
				if i, ok := bySeq[seq]; ok {
					s.use(i)
				}
			}
			if len(r.Reused) > 0 {
				break
			}
			if r.Counts["reused"] > 0 || r.Ended.IsZero() {
				s.useStanding(r)
			}
			if len(byRun[r.ID]) > 0 {
				break
			}
		}
	}
	s.useUpstream()
}

func (s *selection) use(i int) {
	if !s.inUse[i] {
		s.inUse[i] = true
		s.stack = append(s.stack, i)
	}
}

// instanceOf names a step instance of a workflow.
type instanceOf struct{ workflow, step, instance string }

func (r *Stored) of() instanceOf { return instanceOf{r.Workflow, r.Step, r.Instance} }

// useStanding uses, for a run that does not say what it reused, the record that
// stood for each step instance when it ended.
func (s *selection) useStanding(run *RunRecord) {
	best := map[instanceOf]int{}
	for i, r := range s.records {
		if r.Workflow != run.Workflow || !run.Ended.IsZero() && r.Created.After(run.Ended) {
			continue
		}
		if b, ok := best[r.of()]; !ok || s.records[b].Seq < r.Seq {
			best[r.of()] = i
		}
	}
	for _, i := range best {
		s.use(i)
	}
}

// useUpstream uses what the records in use were made from: of each answer that
// their lineage names the newest record.
func (s *selection) useUpstream() {
	type answer struct {
		workflow string
		output   sdk.Digest
	}
	newest := map[answer]int{}
	for i, r := range s.records {
		if r.Output.IsZero() {
			continue
		}
		k := answer{r.Workflow, r.Output}
		if b, ok := newest[k]; !ok || s.records[b].Seq < r.Seq {
			newest[k] = i
		}
	}
	for len(s.stack) > 0 {
		i := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		for _, d := range s.records[i].Lineage {
			if u, ok := newest[answer{s.records[i].Workflow, d}]; ok {
				s.use(u)
			}
		}
	}
}

// selectRecords takes what has expired, and what is beyond Keep.
func (s *selection) selectRecords() {
	instances := map[instanceOf][]int{}
	for i := range s.records {
		k := s.records[i].of()
		instances[k] = append(instances[k], i)
	}
	for of, is := range instances {
		keep := s.policy.KeepOf(of.workflow, of.step)
		slices.SortFunc(is, func(a, b int) int { return cmp.Compare(s.records[b].Seq, s.records[a].Seq) })
		for rank, i := range is {
			r := s.records[i]
			switch {
			case s.inUse[i]:
			case !r.Expires.IsZero() && r.Expires.Before(s.policy.Now):
				s.remove(i, RemoveExpired)
			case keep > 0 && rank >= keep:
				s.remove(i, RemoveSuperseded)
			case s.forgets(r.Run) && r.Created.Before(s.policy.Before):
				s.remove(i, RemoveForgotten)
			}
		}
	}
}

// forgets: the records of the run go unless they are in use. That of an imported
// record may never have been here.
func (s *selection) forgets(id RunID) bool {
	forgotten, known := s.forgotten[id]
	return forgotten || !known
}

func (s *selection) remove(i int, why RemovalReason) {
	s.gone[i] = true
	s.d.Records = append(s.d.Records, Removal{s.records[i], why})
}

// place is where an output lies: large ones by what they are, others with the
// record that brought them.
type place struct {
	sum sdk.Digest
	seq Seq
}

func (r DataRef) place() place {
	if r.Size > LargeData {
		return place{sum: r.SHA256}
	}
	return place{seq: r.Seq}
}

// output is one stored output and the records that stay and name it.
type output struct {
	size    int64
	newest  Seq // of the records
	inUse   bool
	records []int
}

// selectOutputs takes the outputs beyond MaxBytes, those first that were
// committed or reused the longest ago.
func (s *selection) selectOutputs() {
	outputs, lost := map[place]*output{}, map[place]int64{}
	for i, r := range s.records {
		if r.Data.Seq == 0 {
			continue
		}
		at := r.Data.place()
		if s.gone[i] {
			lost[at] = r.Data.Size
			continue
		}
		o := outputs[at]
		if o == nil {
			o = &output{size: r.Data.Size}
			outputs[at] = o
			s.d.Bytes += o.size
		}
		o.newest, o.inUse = max(o.newest, r.Seq), o.inUse || s.inUse[i]
		o.records = append(o.records, i)
	}
	s.countBlobs(outputs)
	for at, size := range lost {
		if outputs[at] == nil {
			s.d.Freed += size
		}
	}
	if s.policy.MaxBytes <= 0 {
		return
	}
	byAge := make([]*output, 0, len(outputs))
	for _, o := range outputs {
		if !o.inUse {
			byAge = append(byAge, o)
		}
	}
	slices.SortFunc(byAge, func(a, b *output) int { return cmp.Compare(a.newest, b.newest) })
	for _, o := range byAge {
		if s.d.Bytes <= s.policy.MaxBytes {
			return
		}
		s.d.Bytes -= o.size
		s.d.Freed += o.size
		for _, i := range o.records {
			s.d.Outputs = append(s.d.Outputs, Removal{s.records[i], RemoveBudget})
		}
	}
	s.d.Over = max(s.d.Bytes-s.policy.MaxBytes, 0)
}

// countBlobs adds the blobs that outputs refer to. One that several refer to goes
// with the last of them, so it is a part of that one's size.
func (s *selection) countBlobs(outputs map[place]*output) {
	owners, sizes, left := map[sdk.Digest]*output{}, map[sdk.Digest]int64{}, map[sdk.Digest]int64{}
	for _, r := range s.records {
		if r.Data.Seq == 0 {
			continue
		}
		o := outputs[r.Data.place()]
		for _, b := range r.Blobs {
			if o == nil {
				left[b.Digest] = b.Size
				continue
			}
			sizes[b.Digest] = b.Size
			if was := owners[b.Digest]; was == nil || !was.inUse && (o.inUse || o.newest > was.newest) {
				owners[b.Digest] = o
			}
		}
	}
	for d, o := range owners {
		o.size += sizes[d]
		s.d.Bytes += sizes[d]
		delete(left, d)
	}
	for _, size := range left {
		s.d.Freed += size
	}
}

// selectRuns takes the runs beyond Keep and those older than Before, if no record of
// them stays.
func (s *selection) selectRuns() {
	needed := map[RunID]bool{}
	for i, r := range s.records {
		if !s.gone[i] {
			needed[r.Run] = true
		}
	}
	rank := map[groupKey]int{}
	for _, r := range s.runs {
		k := groupKey{r.Workflow, r.Variables}
		rank[k]++
		switch {
		case needed[r.ID] || s.stays(r):
		case s.forgotten[r.ID]:
			s.d.Runs = append(s.d.Runs, RunRemoval{r, RemoveForgotten, s.active[r.ID]})
		case s.policy.Keep > 0 && rank[k] > s.policy.Keep && r.Status != RunRunning:
			s.d.Runs = append(s.d.Runs, RunRemoval{r, RemoveSuperseded, s.active[r.ID]})
		}
	}
}

package checkpoint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// stock is a store's content, built record by record.
type stock struct {
	seq     checkpoint.Seq
	records []checkpoint.Stored
	runs    []*checkpoint.RunRecord // newest first
}

func (s *stock) run(id, variables, follows string, status checkpoint.RunStatus) *checkpoint.RunRecord {
	s.seq++
	r := &checkpoint.RunRecord{ID: checkpoint.RunID(id), Workflow: "flow", Variables: sdk.Sum([]byte(variables)), Follows: checkpoint.RunID(follows), Status: status, Created: at(s.seq)}
	if status != checkpoint.RunRunning {
		r.Ended = at(s.seq + 100)
	}
	s.runs = slices.Insert(s.runs, 0, r)
	return r
}

func at(seq checkpoint.Seq) time.Time { return sampleTime.Add(time.Duration(seq) * time.Second) }

// put adds a record of a run with an answer of size bytes; its lineage names
// the answers up.
func (s *stock) put(run, step, answer string, size int64, up ...string) *checkpoint.Head {
	s.seq++
	h := &checkpoint.Head{Step: step, Seq: s.seq, Run: checkpoint.RunID(run), Output: sdk.Sum([]byte(answer)), Created: at(s.seq)}
	h.Data = checkpoint.DataRef{Seq: s.seq, Size: size, SHA256: sdk.Sum([]byte(answer))}
	for _, u := range up {
		h.Lineage = append(h.Lineage, sdk.Sum([]byte(u)))
	}
	s.records = append(s.records, checkpoint.Stored{Workflow: "flow", Head: h})
	return h
}

// reuse adds a record that names the output of another.
func (s *stock) reuse(run, step string, from *checkpoint.Head) *checkpoint.Head {
	h := s.put(run, step, "", 0)
	h.Output, h.Data = from.Output, from.Data
	return h
}

func describe(d checkpoint.Decision) string {
	var b strings.Builder
	for _, r := range d.Records {
		fmt.Fprintf(&b, "record %d %s, ", r.Seq, r.Reason)
	}
	for _, r := range d.Outputs {
		fmt.Fprintf(&b, "output %d %s, ", r.Seq, r.Reason)
	}
	for _, r := range d.Runs {
		fmt.Fprintf(&b, "run %s, ", r.ID)
	}
	fmt.Fprintf(&b, "freed %d, bytes %d, over %d", d.Freed, d.Bytes, d.Over)
	return b.String()
}

func TestSelect(t *testing.T) {
	t.Parallel()
	const ok = checkpoint.RunSucceeded
	for _, test := range []struct {
		name   string
		fill   func(s *stock)
		policy checkpoint.Policy
		want   string
	}{
		{"nothing asked", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.a", "y", 10)
		}, checkpoint.Policy{}, "freed 0, bytes 20, over 0"},
		{"expired and not in use", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10).Expires = at(0)
			s.run("r_2", "v", "", ok)
			s.put("r_2", "step.a", "y", 10).Expires = at(0)
			s.put("r_1", "step.b", "z", 10).Expires = at(1000)
		}, checkpoint.Policy{Now: at(10)}, "record 2 expired, freed 10, bytes 20, over 0"},
		{"superseded", func(s *stock) {
			for i := range 4 {
				id := fmt.Sprint("r_", i)
				s.run(id, "v", "", ok)
				s.put(id, "step.a", id, 10)
			}
		}, checkpoint.Policy{Keep: 2}, "record 2 superseded, record 4 superseded, run r_1, run r_0, freed 20, bytes 20, over 0"},
		{"superseded, of one step", func(s *stock) {
			for i := range 2 {
				id := fmt.Sprint("r_", i)
				s.run(id, "v", "", ok)
				s.put(id, "step.a", id, 10)
				s.put(id, "step.b", id, 10)
			}
		}, checkpoint.Policy{KeepSteps: map[checkpoint.StepOf]int{{Workflow: "flow", Step: "step.b"}: 1}}, "record 3 superseded, freed 10, bytes 30, over 0"},
		{"each variable value has a newest run", func(s *stock) {
			for i := range 4 {
				id := fmt.Sprint("r_", i)
				s.run(id, fmt.Sprint(i%2), "", ok)
				s.put(id, "step.a", id, 10)
			}
		}, checkpoint.Policy{Keep: 1}, "record 2 superseded, record 4 superseded, run r_1, run r_0, freed 20, bytes 20, over 0"},
		{"a live run", func(s *stock) {
			s.run("r_1", "v", "", checkpoint.RunRunning)
			s.put("r_1", "step.a", "x", 10)
			s.run("r_2", "v", "", ok)
			s.put("r_2", "step.a", "y", 10)
		}, checkpoint.Policy{Keep: 1, MaxBytes: 5}, "freed 0, bytes 20, over 15"},
		{"the output of a record that goes is named by one that stays", func(s *stock) {
			s.run("r_1", "v", "", ok)
			a := s.put("r_1", "step.a", "x", 10)
			s.run("r_2", "v", "", ok)
			s.reuse("r_2", "step.a", a)
		}, checkpoint.Policy{Keep: 1}, "record 2 superseded, run r_1, freed 0, bytes 10, over 0"},
		{"equal large outputs are one", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 1<<20)
			s.run("r_2", "v", "", ok)
			s.put("r_2", "step.a", "x", 1<<20)
		}, checkpoint.Policy{Keep: 1}, "record 2 superseded, run r_1, freed 0, bytes 1048576, over 0"},
		{"the budget takes the oldest", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10)
			s.put("r_1", "step.c", "z", 10)
			s.run("r_2", "v", "", ok)
			s.put("r_2", "step.a", "w", 10)
		}, checkpoint.Policy{MaxBytes: 25}, "output 2 budget, output 3 budget, freed 20, bytes 20, over 0"},
		{"a run says what it reused", func(s *stock) {
			s.run("r_1", "v", "", ok)
			a := s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10)
			s.run("r_2", "w", "", ok)
			s.put("r_2", "step.a", "x2", 10)
			s.run("r_3", "v", "r_1", ok).Reused = []checkpoint.Seq{a.Seq}
			s.put("r_3", "step.b", "y2", 10)
		}, checkpoint.Policy{Keep: 1}, "record 3 superseded, freed 10, bytes 30, over 0"},
		{"a run that does not say what it reused", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10)
			r := s.run("r_2", "v", "r_1", ok)
			s.put("r_2", "step.b", "y2", 10)
			r.Counts, r.Ended = map[string]int{"reused": 1}, at(s.seq)
			s.run("r_3", "w", "", ok)
			s.put("r_3", "step.a", "x2", 10)
			s.put("r_3", "step.b", "y3", 10)
		}, checkpoint.Policy{Keep: 1}, "record 3 superseded, freed 10, bytes 40, over 0"},
		{"what a run stands on", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10, "x")
			s.put("r_1", "step.b", "n", 10)
			s.run("r_2", "v", "r_1", ok)
			s.put("r_2", "step.c", "z", 10, "y")
			s.run("r_3", "w", "", ok)
			s.put("r_3", "step.a", "x2", 10)
			s.put("r_3", "step.b", "y2", 10)
		}, checkpoint.Policy{Keep: 1}, "record 4 superseded, freed 10, bytes 50, over 0"},
		{"values that nobody asks for any more", func(s *stock) {
			s.run("r_1", "v", "", ok).Ended = at(3)
			a := s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10)
			s.run("r_2", "w", "", ok).Ended = at(40)
			s.reuse("r_2", "step.a", a)
		}, checkpoint.Policy{Before: at(30)}, "record 2 forgotten, record 3 forgotten, run r_1, freed 10, bytes 10, over 0"},
		{"an old run that a newer one stands on", func(s *stock) {
			s.run("r_1", "v", "", ok).Ended = at(3)
			a := s.put("r_1", "step.a", "x", 10)
			s.put("r_1", "step.b", "y", 10)
			s.run("r_2", "v", "r_1", ok).Reused = []checkpoint.Seq{a.Seq}
		}, checkpoint.Policy{Before: at(30)}, "record 3 forgotten, freed 10, bytes 10, over 0"},
		{"an interrupted run that is old", func(s *stock) {
			s.run("r_1", "v", "", checkpoint.RunRunning)
			s.put("r_1", "step.a", "x", 10)
			s.run("r_2", "w", "", checkpoint.RunRunning).Since = at(50)
			s.put("r_2", "step.a", "y", 10)
		}, checkpoint.Policy{Before: at(30)}, "record 2 forgotten, run r_1, freed 10, bytes 10, over 0"},
		{"what is to be undone is not forgotten", func(s *stock) {
			s.run("r_1", "v", "", checkpoint.RunCompensating).Ended = at(3)
			s.put("r_1", "step.a", "x", 10)
		}, checkpoint.Policy{Before: at(30)}, "freed 0, bytes 10, over 0"},
		{"an imported record", func(s *stock) {
			s.put("r_elsewhere", "step.a", "x", 10)
		}, checkpoint.Policy{Before: at(30)}, "record 1 forgotten, freed 10, bytes 0, over 0"},
		{"a husk frees nothing", func(s *stock) {
			s.run("r_1", "v", "", ok)
			s.put("r_1", "step.a", "x", 10).Data = checkpoint.DataRef{}
			s.run("r_2", "v", "", ok)
			s.put("r_2", "step.a", "y", 10)
		}, checkpoint.Policy{Keep: 1}, "record 2 superseded, run r_1, freed 0, bytes 10, over 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var s stock
			test.fill(&s)
			if got := describe(checkpoint.Select(s.records, s.runs, nil, test.policy)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestSelectLaws compares random stocks with the rules, written down the slow
// way.
func TestSelectLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := randomStock(t)
		p := checkpoint.Policy{
			Now: at(checkpoint.Seq(rapid.IntRange(0, 60).Draw(t, "now"))), Keep: rapid.IntRange(0, 3).Draw(t, "keep"),
			MaxBytes: int64(rapid.SampledFrom([]int{0, 1, 40, 200, 200_000}).Draw(t, "max")),
		}
		if rapid.Bool().Draw(t, "keep of steps") {
			p.KeepSteps = map[checkpoint.StepOf]int{{Workflow: "flow", Step: "step.0"}: rapid.IntRange(0, 2).Draw(t, "keep of step 0"), {Workflow: "other", Step: "step.1"}: 1}
		}
		unsettled := map[checkpoint.RunID]bool{}
		for _, r := range s.runs {
			if rapid.IntRange(0, 4).Draw(t, "unsettled") == 0 {
				unsettled[r.ID] = true
			}
			if rapid.IntRange(0, 6).Draw(t, "to undo") == 0 {
				r.NotUndone = []string{"step.0"}
			}
		}
		if rapid.Bool().Draw(t, "older") {
			p.Before = at(checkpoint.Seq(rapid.IntRange(0, 60).Draw(t, "before")))
		}
		d := checkpoint.Select(s.records, s.runs, unsettled, p)
		forgotten := bruteForgotten(&s, unsettled, p)
		used := bruteUsed(&s, forgotten)
		gone := map[checkpoint.Seq]bool{}
		for _, r := range d.Records {
			gone[r.Seq] = true
		}
		husk := map[checkpoint.Seq]bool{}
		for _, r := range d.Outputs {
			husk[r.Seq] = true
		}
		for _, r := range s.records {
			newer := 0
			for _, o := range s.records {
				if o.Workflow == r.Workflow && o.Step == r.Step && o.Seq > r.Seq {
					newer++
				}
			}
			keep := p.Keep
			if own, named := p.KeepSteps[checkpoint.StepOf{Workflow: r.Workflow, Step: r.Step}]; named {
				keep = own
			}
			old := forgotten[r.Run] && r.Created.Before(p.Before)
			want := !used[r.Seq] && (!r.Expires.IsZero() && r.Expires.Before(p.Now) || keep > 0 && newer >= keep || old)
			if gone[r.Seq] != want {
				t.Fatalf("record %d goes: %v, want %v", r.Seq, gone[r.Seq], want)
			}
			if used[r.Seq] && husk[r.Seq] || gone[r.Seq] && husk[r.Seq] {
				t.Fatalf("the output of record %d goes; in use %v, record goes %v", r.Seq, used[r.Seq], gone[r.Seq])
			}
		}
		bruteOutputs(t, &s, p, d, used, gone, husk)
		for _, r := range d.Runs {
			for _, h := range s.records {
				if h.Run == r.ID && !gone[h.Seq] {
					t.Fatalf("run %s goes, its record %d stays", r.ID, h.Seq)
				}
			}
			if !forgotten[r.ID] && (p.Keep == 0 || r.Status == checkpoint.RunRunning) || unsettled[r.ID] || r.Undoing() {
				t.Fatalf("run %s (%s, unsettled %v, to undo %v) goes with Keep %d", r.ID, r.Status, unsettled[r.ID], r.NotUndone, p.Keep)
			}
		}
		for _, r := range s.runs {
			stays := slices.ContainsFunc(s.records, func(h checkpoint.Stored) bool { return h.Run == r.ID && !gone[h.Seq] })
			if forgotten[r.ID] && !stays && !slices.ContainsFunc(d.Runs, func(x checkpoint.RunRemoval) bool { return x.ID == r.ID }) {
				t.Fatalf("run %s is forgotten and stays", r.ID)
			}
		}
	})
}

// bruteForgotten are the runs that nothing has happened in since p.Before.
func bruteForgotten(s *stock, unsettled map[checkpoint.RunID]bool, p checkpoint.Policy) map[checkpoint.RunID]bool {
	forgotten := map[checkpoint.RunID]bool{}
	for _, r := range s.runs {
		young := unsettled[r.ID] || len(r.NotUndone) > 0 || !r.Created.Before(p.Before) || !r.Ended.IsZero() && !r.Ended.Before(p.Before)
		for _, h := range s.records {
			young = young || h.Run == r.ID && !h.Created.Before(p.Before)
		}
		forgotten[r.ID] = !young
	}
	return forgotten
}

func name(r checkpoint.DataRef) string {
	if r.Size > checkpoint.LargeData {
		return r.SHA256.String()
	}
	return fmt.Sprint(r.Seq)
}

// bruteOutputs checks sizes, that an output goes for all who name it, that the
// oldest go first, and that none goes without need.
func bruteOutputs(t *rapid.T, s *stock, p checkpoint.Policy, d checkpoint.Decision, used, gone, husk map[checkpoint.Seq]bool) {
	before, after, all := map[string]int64{}, map[string]int64{}, map[string]int64{}
	newest, inUse, went := map[string]checkpoint.Seq{}, map[string]bool{}, map[string]bool{}
	for _, r := range s.records {
		if r.Data.Seq == 0 {
			continue
		}
		k := name(r.Data)
		all[k] = r.Data.Size
		if gone[r.Seq] {
			continue
		}
		before[k] = r.Data.Size
		newest[k] = max(newest[k], r.Seq)
		inUse[k] = inUse[k] || used[r.Seq]
		if husk[r.Seq] {
			went[k] = true
		} else {
			after[k] = r.Data.Size
		}
	}
	sum := func(m map[string]int64) (n int64) {
		for _, size := range m {
			n += size
		}
		return n
	}
	if d.Bytes != sum(after) || d.Freed != sum(all)-sum(after) {
		t.Fatalf("bytes %d, freed %d; want %d, %d", d.Bytes, d.Freed, sum(after), sum(all)-sum(after))
	}
	last := checkpoint.Seq(0)
	for k := range went {
		if _, stays := after[k]; stays || inUse[k] {
			t.Fatalf("output %s goes and stays, or is in use", k)
		}
		last = max(last, newest[k])
	}
	for k := range before {
		if !went[k] && !inUse[k] && newest[k] < last {
			t.Fatalf("output %s stays, a newer one goes", k)
		}
	}
	if p.MaxBytes == 0 && len(went) > 0 {
		t.Fatal("outputs go without a budget")
	}
	if p.MaxBytes > 0 {
		for k := range went {
			if newest[k] == last && sum(after)+before[k] <= p.MaxBytes {
				t.Fatalf("output %s goes without need", k)
			}
		}
		if d.Over != max(0, sum(after)-p.MaxBytes) {
			t.Fatalf("over %d", d.Over)
		}
		for k := range after {
			if d.Over > 0 && !inUse[k] {
				t.Fatalf("output %s stays beyond the budget", k)
			}
		}
	}
}

// bruteUsed repeats the rules of use until nothing is added.
func bruteUsed(s *stock, forgotten map[checkpoint.RunID]bool) map[checkpoint.Seq]bool {
	used := map[checkpoint.Seq]bool{}
	byID := map[checkpoint.RunID]*checkpoint.RunRecord{}
	for _, r := range s.runs {
		byID[r.ID] = r
	}
	for i, r := range s.runs {
		first := true
		for _, o := range s.runs[:i] {
			first = first && (forgotten[o.ID] || o.Workflow != r.Workflow || o.Variables != r.Variables)
		}
		if forgotten[r.ID] || !first && r.Status != checkpoint.RunRunning && !r.Undoing() {
			continue
		}
		for r != nil {
			own := 0
			for _, h := range s.records {
				if h.Run == r.ID {
					own++
					used[h.Seq] = true
				}
				if slices.Contains(r.Reused, h.Seq) {
					used[h.Seq] = true
				}
				stood := h.Workflow == r.Workflow && (r.Ended.IsZero() || !h.Created.After(r.Ended))
				for _, o := range s.records {
					if o.Workflow == h.Workflow && o.Step == h.Step && o.Seq > h.Seq && (r.Ended.IsZero() || !o.Created.After(r.Ended)) {
						stood = false
					}
				}
				if stood && len(r.Reused) == 0 && (r.Counts["reused"] > 0 || r.Ended.IsZero()) {
					used[h.Seq] = true
				}
			}
			if own > 0 || len(r.Reused) > 0 {
				break
			}
			r = byID[r.Follows]
		}
	}
	for n := -1; n != len(used); {
		n = len(used)
		for _, h := range s.records {
			for _, d := range h.Lineage {
				var best *checkpoint.Head
				for _, o := range s.records {
					if o.Workflow == h.Workflow && o.Output == d && !o.Output.IsZero() && (best == nil || best.Seq < o.Seq) {
						best = o.Head
					}
				}
				if used[h.Seq] && best != nil {
					used[best.Seq] = true
				}
			}
		}
	}
	return used
}

func randomStock(t *rapid.T) (s stock) {
	n := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	var ids []string
	for i := range 1 + n("runs", 5) {
		id, follows := fmt.Sprint("r_", i), ""
		if len(ids) > 0 && n("follows", 1) == 1 {
			follows = ids[n("which", len(ids)-1)]
		}
		ids = append(ids, id)
		status := []checkpoint.RunStatus{checkpoint.RunSucceeded, checkpoint.RunSucceeded, checkpoint.RunFailed, checkpoint.RunRunning}[n("status", 3)]
		r := s.run(id, fmt.Sprint(n("variables", 1)), follows, status)
		r.Workflow = []string{"flow", "other"}[n("workflow", 1)]
		from := len(s.records)
		for range n("records", 4) {
			step := fmt.Sprint("step.", n("step", 2))
			if same := len(s.records); same > 0 && n("reuse", 2) == 0 {
				if old := s.records[n("from", same-1)]; old.Workflow == r.Workflow {
					s.reuse(id, step, old.Head)
					continue
				}
			}
			h := s.put(id, step, fmt.Sprint(n("answer", 6)), int64([]int{0, 10, 30, 100_000}[n("size", 3)]), fmt.Sprint(n("up", 9)))
			s.records[len(s.records)-1].Workflow = r.Workflow
			switch n("kind", 5) {
			case 0:
				h.Data = checkpoint.DataRef{} // a husk
			case 1:
				h.Output, h.Data, h.Outcome = sdk.Digest{}, checkpoint.DataRef{}, checkpoint.SkippedCondition
			case 2:
				h.Expires = at(checkpoint.Seq(n("expires", 60)))
			}
		}
		for i := from; i < len(s.records); i++ {
			s.records[i].Workflow = r.Workflow
		}
		if status != checkpoint.RunRunning {
			r.Ended = at(s.seq)
		}
		if n("reused", 1) == 1 {
			r.Counts = map[string]int{"reused": 1}
			for range n("how many", 2) {
				r.Reused = append(r.Reused, checkpoint.Seq(1+n("seq", 30)))
			}
		}
	}
	return s
}

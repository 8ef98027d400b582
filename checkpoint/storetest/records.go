package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// fullRecord has a value in every field.
func fullRecord() *checkpoint.Record {
	r := record("r_1", "step.a", "k", "p", "c")
	r.Lineage = []sdk.Digest{digest("x"), digest("y")}
	r.Degraded, r.Attempts, r.Tokens = true, 3, 1840
	r.Expires = created.Add(time.Hour)
	r.Context = checkpoint.Context{
		Plugin: "ai", Version: "1.2.0", Artifact: digest("artifact"), StepType: "chat", Engine: "1.0.0", Input: digest("input"),
		Inputs:   []checkpoint.AttributeDigest{{Name: "prompt", Value: "00", Expression: "11"}},
		Identity: []checkpoint.NamedDigest{{Name: "var.topic", Digest: "22"}},
		Upstream: []checkpoint.UpstreamDigest{{Step: "step.up", Facet: sdk.FacetStatus, Digest: digest("up")}},
		Producer: checkpoint.Producer{Run: "r_0", Step: "step.a", Attempt: 3, Started: created},
		Timeout:  time.Minute, Usage: []sdk.Usage{{Model: "m", InputTokens: 1, OutputTokens: 2, CachedTokens: 3}}, ReusedFrom: "step.old",
	}
	return r
}

func testRoundTrip(t *testing.T, s checkpoint.Store) {
	r := fullRecord()
	run := &checkpoint.RunRecord{
		ID: "r_1", Workflow: workflow, Version: "2", Follows: "r_0", Chain: "r_0", Variables: digest("v"),
		Values: map[string]json.RawMessage{"a": json.RawMessage(`{"x":1.0,"<&>":"é"}`)}, Files: []checkpoint.FileDigest{{Path: "flow.hcl", Digest: digest("f")}},
		Artifacts: []checkpoint.NamedDigest{{Name: "ai", Digest: "33"}}, Status: checkpoint.RunFailed,
		Error:   &sdk.Error{Class: sdk.ClassTimeout, Code: "c", Message: "m", Path: "/p", RetryAfterMS: 5, Details: json.RawMessage(`[1]`), Stderr: "e"},
		Created: created, Ended: created.Add(time.Minute), Live: time.Minute, Continued: 2, Engine: "1.0.0",
		Used:   sdk.Sum([]byte("used")),
		Reused: []checkpoint.Seq{3, 1},
		Counts: map[string]int{"ran": 1},
	}
	attempt := &checkpoint.AttemptRecord{Run: "r_1", Step: "step.a", Instance: "k", Attempt: 2,
		Error: &sdk.Error{Class: sdk.ClassAPIError, Message: "503"}, Started: created, Took: time.Second, Usage: []sdk.Usage{{Model: "m"}}}
	intent := &checkpoint.Intent{Run: "r_1", Step: "step.a", Instance: "k", Attempt: 2, IdempotencyKey: "key", Effects: sdk.EffectsOnce, Started: created}
	b := batch()
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := san.Sanitize(json.RawMessage(`{"answer":42}`), json.RawMessage(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	b.PutCheckpoint(r, out)
	b.PutRun(run)
	b.PutAttempt(attempt)
	b.PutIntent(intent)
	commit(t, s, b)

	got, err := s.Record(t.Context(), tenant, r.Seq)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	wantEqual(t, "record", got, r)
	if string(got.Context.Reported) != `{"model":"m"}` || got.Output != out.Digest() {
		t.Errorf("reported %s, output %s", got.Context.Reported, got.Output)
	}
	gotRun, err := s.Run(t.Context(), tenant, "r_1")
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	wantEqual(t, "run", gotRun, run)
	attempts, err := s.Attempts(t.Context(), tenant, "r_1")
	if err != nil {
		t.Fatalf("Attempts: %v", err)
	}
	wantEqual(t, "attempts", attempts, []*checkpoint.AttemptRecord{attempt})
	intents, err := s.Intents(t.Context(), tenant, "r_1")
	if err != nil {
		t.Fatalf("Intents: %v", err)
	}
	wantEqual(t, "intents", intents, []*checkpoint.Intent{intent})

	_, err = s.Record(t.Context(), tenant, r.Seq+1)
	wantError(t, "Record of a run's Seq", err, checkpoint.ErrNotFound)
	_, err = s.Record(t.Context(), tenant, 1<<40)
	wantError(t, "Record beyond the end", err, checkpoint.ErrNotFound)
}

func testText(t *testing.T, s checkpoint.Store) {
	for i, text := range []string{"流程 完成", "🏴‍☠️ \u0000 end", "שלום עולם", "a\u2028b <&> \u007f"} {
		quoted, err := sdk.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		r := record("r_1", "step."+text, text, fmt.Sprint("p", i), "c")
		put(t, s, r, string(quoted))
		d, err := s.Data(t.Context(), tenant, r.Data)
		if err != nil || string(d) != string(quoted) {
			t.Errorf("Data = %q, %v, want %q", d, err, quoted)
		}
		if snapshot(t, s, tenant, workflow).Head("step."+text, text) == nil {
			t.Errorf("no head of %q", text)
		}
		b := batch()
		run := checkpoint.RunID(fmt.Sprint("r_", i))
		b.PutAttempt(&checkpoint.AttemptRecord{Run: run, Error: &sdk.Error{Message: text}})
		commit(t, s, b)
		as, err := s.Attempts(t.Context(), tenant, run)
		if err != nil || len(as) != 1 || as[0].Error.Message != text {
			t.Errorf("attempts of %q: %v, %v", text, as, err)
		}
	}
}

// testCopies: what the caller does with its batch, or with what it was given,
// changes nothing stored.
func testCopies(t *testing.T, s checkpoint.Store) {
	text := []byte(`{"a":"` + strings.Repeat("x", 100) + `"}`)
	r := record("r_1", "step.a", "", "p", "c")
	r.Lineage = []sdk.Digest{digest("x")}
	b := batch()
	b.PutCheckpoint(r, output(t, string(text)))
	run := &checkpoint.RunRecord{ID: "r_1", Workflow: workflow, Counts: map[string]int{"ran": 1}}
	b.PutRun(run)
	commit(t, s, b)
	ref := r.Data
	for i := range b.Items[0].Data {
		b.Items[0].Data[i] = '!'
	}
	r.Lineage[0], r.Step, run.Counts["ran"] = digest("y"), "step.b", 2

	first, err := s.Data(t.Context(), tenant, ref)
	if err != nil || string(first) != string(text) {
		t.Fatalf("Data = %s, %v", first, err)
	}
	first[0] = '!'
	if again, err := s.Data(t.Context(), tenant, ref); err != nil || string(again) != string(text) {
		t.Errorf("Data after its last answer was changed = %s, %v", again, err)
	}
	h := snapshot(t, s, tenant, workflow).Head("step.a", "")
	if h == nil || h.Lineage[0] != digest("x") {
		t.Errorf("head = %+v", h)
	}
	if got, err := s.Run(t.Context(), tenant, "r_1"); err != nil || got.Counts["ran"] != 1 {
		t.Errorf("run = %+v, %v", got, err)
	}
}

func testSnapshot(t *testing.T, s checkpoint.Store) {
	if n := snapshot(t, s, tenant, workflow).Len(); n != 0 {
		t.Fatalf("an empty store has %d heads", n)
	}
	old := put(t, s, record("r_1", "step.a", "", "p1", "c1"), `1`).Seq
	a := put(t, s, record("r_2", "step.a", "", "p2", "c2"), `2`).Seq
	inst := put(t, s, record("r_2", "step.a", "k", "p3", "c3"), `3`).Seq
	x := snapshot(t, s, tenant, workflow)
	put(t, s, record("r_3", "step.a", "", "p4", "c4"), `4`)

	// A snapshot stays as it was taken.
	if x.Len() != 2 {
		t.Errorf("%d heads, want 2", x.Len())
	}
	wantSeq(t, "newest of the step", x.Head("step.a", ""), a)
	wantSeq(t, "its instance", x.Head("step.a", "k"), inst)
	wantSeq(t, "another step", x.Head("step.b", ""), 0)
	wantSeq(t, "a key of a record that is no longer the newest", x.ByPlan(fp("p1"), "step.a", "", "r_9"), old)
	wantSeq(t, "a key of later", x.ByPlan(fp("p4"), "step.a", "", "r_9"), 0)
}

func testLookups(t *testing.T, s checkpoint.Store) {
	put(t, s, record("r_1", "step.a", "", "p", "c"), `1`)
	a := put(t, s, record("r_2", "step.a", "", "p", "c"), `2`).Seq
	b1 := put(t, s, record("r_1", "step.b", "", "p", "c"), `3`).Seq
	c2 := put(t, s, record("r_2", "step.c", "", "p", "c"), `4`).Seq
	e3 := put(t, s, record("r_3", "step.e", "", "p5", "c"), `5`).Seq
	x := snapshot(t, s, tenant, workflow)
	for _, look := range []struct {
		name string
		by   func(f checkpoint.Fingerprint, step, instance string, run checkpoint.RunID) *checkpoint.Head
		key  string
		last checkpoint.Seq // the newest under the key
	}{{"plan", x.ByPlan, "p", c2}, {"content", x.ByContent, "c", e3}} {
		key := fp(look.key)
		wantSeq(t, look.name+": own newest before newer ones of others", look.by(key, "step.a", "", "r_9"), a)
		wantSeq(t, look.name+": own newest even of this run", look.by(key, "step.a", "", "r_2"), a)
		wantSeq(t, look.name+": newest of another step", look.by(key, "step.x", "", "r_9"), look.last)
		wantSeq(t, look.name+": instances are others too", look.by(key, "step.a", "k", "r_9"), look.last)
		wantSeq(t, look.name+": unknown key", look.by(fp("nobody's"), "step.a", "", "r_9"), 0)
	}
	wantSeq(t, "plan: not what another step made in this run", x.ByPlan(fp("p"), "step.x", "", "r_2"), b1)
	wantSeq(t, "content: not what another step made in this run", x.ByContent(fp("c"), "step.x", "", "r_3"), c2)
	wantSeq(t, "content: the zero key is none", x.ByContent(checkpoint.Fingerprint{}, "step.a", "", "r_9"), 0)
}

func testHusks(t *testing.T, s checkpoint.Store) {
	full := put(t, s, record("r_1", "step.a", "", "p", "c"), `1`).Seq
	husk, skip := record("r_2", "step.a", "", "p", "c"), record("r_2", "step.s", "", "ps", "")
	skip.Content, skip.Outcome = checkpoint.Fingerprint{}, checkpoint.SkippedCondition
	b := batch()
	b.PutHusk(husk, output(t, `2`))
	b.PutSkip(skip)
	commit(t, s, b)
	x := snapshot(t, s, tenant, workflow)
	wantSeq(t, "head", x.Head("step.a", ""), husk.Seq)
	wantSeq(t, "by plan", x.ByPlan(fp("p"), "step.a", "", "r_9"), husk.Seq)
	wantSeq(t, "by content the newest with data", x.ByContent(fp("c"), "step.a", "", "r_9"), full)
	got := x.Head("step.a", "")
	if got.HasData() || got.Output != husk.Output || got.ID != husk.ID {
		t.Errorf("husk = %+v", got)
	}
	_, err := s.Data(t.Context(), tenant, got.Data)
	wantError(t, "data of a husk", err, checkpoint.ErrNotFound)
	got = x.Head("step.s", "")
	if got == nil || got.Outcome != checkpoint.SkippedCondition || !got.HasData() || got.ID == "" {
		t.Errorf("skipped step = %+v", got)
	}
	wantEqual(t, "skipped step", got, &skip.Head)
}

func testReuse(t *testing.T, s checkpoint.Store) {
	first := record("r_1", "step.old", "", "p1", "c")
	first.Tokens = 9
	put(t, s, first, `{"answer":42}`)
	from := snapshot(t, s, tenant, workflow).Head("step.old", "")
	again := &checkpoint.Record{Head: checkpoint.Head{Step: "step.new", Run: "r_2", Local: fp("l"), Plan: fp("p2"), Lineage: []sdk.Digest{digest("up")}}}
	b := batch()
	b.PutReuse(again, from)
	commit(t, s, b)
	h := snapshot(t, s, tenant, workflow).ByPlan(fp("p2"), "step.new", "", "r_9")
	wantSeq(t, "the new key", h, again.Seq)
	if h.Data.Seq != first.Seq || h.ID != from.ID || h.Content != from.Content || h.Tokens != 9 {
		t.Errorf("reused head = %+v, of %+v", h, from)
	}
	if d, err := s.Data(t.Context(), tenant, h.Data); err != nil || string(d) != `{"answer":42}` {
		t.Errorf("Data = %s, %v", d, err)
	}
}

func testData(t *testing.T, s checkpoint.Store) {
	big := `"` + strings.Repeat("€", 200_000) + `"`
	ref := put(t, s, record("r_1", "step.big", "", "p", "c"), big).Data
	if d, err := s.Data(t.Context(), tenant, ref); err != nil || string(d) != big {
		t.Fatalf("%d bytes, %v", len(d), err)
	}
	if ref.Size != int64(len(big)) || ref.SHA256 != sdk.Sum([]byte(big)) {
		t.Errorf("reference %+v", ref)
	}
	wrong := ref
	wrong.Size++
	_, err := s.Data(t.Context(), tenant, wrong)
	wantCorrupt(t, "wrong size", err, ref.Seq)
	wrong = ref
	wrong.SHA256[5]++
	_, err = s.Data(t.Context(), tenant, wrong)
	wantCorrupt(t, "wrong digest", err, ref.Seq)
	_, err = s.Data(t.Context(), tenant, checkpoint.DataRef{Seq: ref.Seq + 1})
	wantError(t, "no such record", err, checkpoint.ErrNotFound)
	testSizes(t, s)
}

// testSizes: around the size from which a store may keep outputs elsewhere, an
// output is the same before and after it is durable, when others equal it, and
// when a later record names it.
func testSizes(t *testing.T, s checkpoint.Store) {
	type stored struct {
		tenant, text string
		ref          checkpoint.DataRef
	}
	var all []stored
	for i, size := range []int{2, checkpoint.LargeData - 1, checkpoint.LargeData, checkpoint.LargeData + 1, checkpoint.LargeData + 1, 3 * checkpoint.LargeData} {
		text := `"` + strings.Repeat("x", size-2) + `"`
		for _, tenant := range []string{tenant, "other"} {
			b := checkpoint.NewBatch(tenant, workflow)
			r := record("r_1", fmt.Sprint("step.size", i), "", fmt.Sprint("size", i), fmt.Sprint("size", i))
			b.PutCheckpoint(r, output(t, text))
			commit(t, s, b)
			again := checkpoint.NewBatch(tenant, workflow)
			reused := record("r_2", fmt.Sprint("step.again", i), "", fmt.Sprint("again", i), "")
			again.PutReuse(reused, &r.Head)
			commit(t, s, again)
			all = append(all, stored{tenant, text, reused.Data})
		}
	}
	for _, when := range []string{"before", "after"} {
		for _, st := range all {
			if d, err := s.Data(t.Context(), st.tenant, st.ref); err != nil || string(d) != st.text {
				t.Errorf("%s the barrier: %d bytes of tenant %q, %v; want %d", when, len(d), st.tenant, err, len(st.text))
			}
		}
		if err := s.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func wantCorrupt(t *testing.T, what string, err error, seq checkpoint.Seq) {
	t.Helper()
	wantError(t, what, err, checkpoint.ErrCorrupt)
	if name := fmt.Sprintf("record %d", seq); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%s: %q does not name %s", what, err, name)
	}
}

func testRuns(t *testing.T, s checkpoint.Store) {
	put := func(workflow string, r *checkpoint.RunRecord) {
		b := checkpoint.NewBatch(tenant, workflow)
		r.Workflow = workflow
		b.PutRun(r)
		commit(t, s, b)
	}
	put(workflow, &checkpoint.RunRecord{ID: "r_z", Status: checkpoint.RunRunning})
	put("other", &checkpoint.RunRecord{ID: "r_m", Status: checkpoint.RunRunning})
	put(workflow, &checkpoint.RunRecord{ID: "r_a", Status: checkpoint.RunRunning})
	put(workflow, &checkpoint.RunRecord{ID: "r_b", Status: checkpoint.RunRunning})
	put(workflow, &checkpoint.RunRecord{ID: "r_z", Status: checkpoint.RunFailed}) // continuing makes a run no newer
	put(workflow, &checkpoint.RunRecord{ID: "r_z", Status: checkpoint.RunSucceeded})
	for name, want := range map[string]string{
		workflow: "r_b running, r_a running, r_z succeeded",
		"other":  "r_m running",
		"":       "r_b running, r_a running, r_m running, r_z succeeded",
		"none":   "",
	} {
		runs, err := s.Runs(t.Context(), tenant, name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			got = append(got, fmt.Sprintf("%s %s", r.ID, r.Status))
		}
		wantEqual(t, fmt.Sprintf("runs of %q", name), strings.Join(got, ", "), want)
	}
	r, err := s.Run(t.Context(), tenant, "r_z")
	if err != nil || r.Status != checkpoint.RunSucceeded {
		t.Errorf("Run = %+v, %v", r, err)
	}
	for _, id := range []checkpoint.RunID{"r_", "r_zz", ""} { // names before and after those there are
		_, err = s.Run(t.Context(), tenant, id)
		wantError(t, fmt.Sprintf("run %q", id), err, checkpoint.ErrNotFound)
	}
}

func testFiles(t *testing.T, s checkpoint.Store) {
	text := []byte("step \"摘要\" {}\r\n\x00")
	for range 2 { // equal texts are one
		b := batch()
		b.PutFile(text)
		b.PutFile(nil)
		b.PutRun(&checkpoint.RunRecord{ID: "r_1"})
		commit(t, s, b)
	}
	text[0] = 'S' // what was committed is a copy
	for _, want := range []string{"step \"摘要\" {}\r\n\x00", ""} {
		got, err := s.File(t.Context(), tenant, digest(want))
		if err != nil || string(got) != want {
			t.Errorf("File = %q, %v, want %q", got, err, want)
		}
	}
	for name, err := range map[string]error{"another": second(s.File(t.Context(), tenant, digest("x"))), "another tenant": second(s.File(t.Context(), "b", digest("")))} {
		wantError(t, name, err, checkpoint.ErrNotFound)
	}
}

func second[T any](_ T, err error) error { return err }

func testLists(t *testing.T, s checkpoint.Store) {
	for i := range 300 { // more than one byte of Seq
		b := batch()
		run := checkpoint.RunID([]string{"r_1", "r_12", "r_2"}[i%3])
		b.PutAttempt(&checkpoint.AttemptRecord{Run: run, Attempt: i})
		b.PutIntent(&checkpoint.Intent{Run: run, Attempt: i})
		commit(t, s, b)
	}
	for i, run := range []checkpoint.RunID{"r_1", "r_12", "r_2"} {
		as, err := s.Attempts(t.Context(), tenant, run)
		is, err2 := s.Intents(t.Context(), tenant, run)
		if err := errors.Join(err, err2); err != nil || len(as) != 100 || len(is) != 100 {
			t.Fatalf("run %s: %d attempts, %d intents, %v", run, len(as), len(is), err)
		}
		for j := range as {
			if want := 3*j + i; as[j].Attempt != want || is[j].Attempt != want {
				t.Fatalf("run %s, place %d: attempt %d, intent %d, want %d", run, j, as[j].Attempt, is[j].Attempt, want)
			}
		}
	}
	if as, err := s.Attempts(t.Context(), tenant, "r_0"); err != nil || len(as) != 0 {
		t.Errorf("attempts of an unknown run: %v, %v", as, err)
	}
}

// testConcurrency: writers and readers at once; every batch has its own Seqs
// and is seen whole or not at all.
func testConcurrency(t *testing.T, s checkpoint.Store) {
	const writers, commits = 4, 50
	ends := make([][]checkpoint.Seq, writers)
	var group sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		group.Go(func() {
			for i := range commits {
				b := batch()
				for _, half := range []string{"l", "r"} {
					b.PutHusk(record("r_1", fmt.Sprintf("step.%d_%d", w, i), half, fmt.Sprintf("p%d.%d", w, i), "c"), output(t, `1`))
				}
				seq, err := s.Commit(t.Context(), b)
				if err != nil {
					t.Errorf("Commit: %v", err)
					return
				}
				ends[w] = append(ends[w], seq)
				if i%10 == 0 {
					if err := s.Barrier(t.Context()); err != nil {
						t.Errorf("Barrier: %v", err)
					}
				}
			}
		})
	}
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			x, err := s.Snapshot(t.Context(), tenant, workflow)
			if err != nil {
				t.Errorf("Snapshot: %v", err)
				return
			}
			for w := range writers {
				for i := range commits {
					step := fmt.Sprintf("step.%d_%d", w, i)
					if l, r := x.Head(step, "l"), x.Head(step, "r"); (l == nil) != (r == nil) {
						t.Errorf("%s: half of a batch is seen", step)
					}
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	group.Wait()
	close(done)
	readers.Wait()
	seen := map[checkpoint.Seq]bool{}
	for w := range ends {
		for i, seq := range ends[w] {
			if seen[seq] || seq%2 != 0 || i > 0 && seq <= ends[w][i-1] {
				t.Errorf("writer %d, commit %d: Seq %d is taken, odd or smaller than its last", w, i, seq)
			}
			seen[seq] = true
		}
	}
	if n := snapshot(t, s, tenant, workflow).Len(); n != 2*writers*commits {
		t.Errorf("%d heads, want %d", n, 2*writers*commits)
	}
}

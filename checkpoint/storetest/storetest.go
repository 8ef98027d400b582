package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Run runs the suite. open makes an empty store for one test, which closes it;
// open registers what else has to be cleaned up with t.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s checkpoint.Store)
	}{
		{"order", testOrder},
		{"visibility", testVisibility},
		{"records keep every field", testRoundTrip},
		{"text byte for byte", testText},
		{"batch is copied", testCopies},
		{"refused batches", testRefused},
		{"tenants", testTenants},
		{"snapshot", testSnapshot},
		{"look-ups", testLookups},
		{"husks and skips", testHusks},
		{"reuse", testReuse},
		{"data", testData},
		{"blobs", testBlobs},
		{"runs", testRuns},
		{"files", testFiles},
		{"attempts and intents", testLists},
		{"durability", testDurability},
		{"promised batches", testSoon},
		{"close", testClose},
		{"contexts", testContexts},
		{"concurrency", testConcurrency},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			test.run(t, s)
		})
	}
}

const (
	tenant   = "default"
	workflow = "flow"
)

var created = time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)

// fp is a fingerprint that is told apart by its name.
func fp(name string) checkpoint.Fingerprint { return checkpoint.NewHasher(name).Sum() }

func output(t *testing.T, text string) checkpoint.Sanitized {
	t.Helper()
	s, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Sanitize(json.RawMessage(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// record is a checkpoint of a step under a plan and a content key.
func record(run, step, instance, plan, content string) *checkpoint.Record {
	return &checkpoint.Record{Head: checkpoint.Head{
		Step: step, Instance: instance, Run: checkpoint.RunID(run), Chain: "r_chain",
		Local: fp("local " + step), Plan: fp(plan), Content: fp(content), Created: created, Took: time.Second,
	}}
}

func batch() *checkpoint.Batch { return checkpoint.NewBatch(tenant, workflow) }

func commit(t *testing.T, s checkpoint.Store, b *checkpoint.Batch) checkpoint.Seq {
	t.Helper()
	seq, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return seq
}

// put commits one checkpoint and returns its head as the store has placed it.
func put(t *testing.T, s checkpoint.Store, r *checkpoint.Record, text string) *checkpoint.Head {
	t.Helper()
	b := batch()
	b.PutCheckpoint(r, output(t, text))
	if seq := commit(t, s, b); seq != r.Seq {
		t.Fatalf("Commit = %d, the record has Seq %d", seq, r.Seq)
	}
	return &r.Head
}

func snapshot(t *testing.T, s checkpoint.Store, tenant, workflow string) *checkpoint.Index {
	t.Helper()
	x, err := s.Snapshot(t.Context(), tenant, workflow)
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return x
}

// wantSeq checks which record a look-up found; 0 is none.
func wantSeq(t *testing.T, what string, h *checkpoint.Head, want checkpoint.Seq) {
	t.Helper()
	var got checkpoint.Seq
	if h != nil {
		got = h.Seq
	}
	if got != want {
		t.Errorf("%s: record %d, want %d", what, got, want)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func wantEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func testOrder(t *testing.T, s checkpoint.Store) {
	if seq := commit(t, s, batch()); seq != 0 {
		t.Errorf("an empty batch on an empty store: Seq %d, want 0", seq)
	}
	var last checkpoint.Seq
	for i := range 3 {
		b := batch()
		r1, r2 := record("r_1", fmt.Sprint("step.a", i), "", "p", "c"), record("r_1", fmt.Sprint("step.b", i), "", "p", "c")
		b.PutCheckpoint(r1, output(t, `1`))
		b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1"})
		b.PutHusk(r2, output(t, `2`))
		seq := commit(t, s, b)
		if r1.Seq != last+1 || r2.Seq != last+3 || seq != last+3 {
			t.Errorf("after %d: records %d and %d, commit %d; every item takes one Seq, in order", last, r1.Seq, r2.Seq, seq)
		}
		if r1.Data.Seq != r1.Seq || r2.Data.Seq != 0 {
			t.Errorf("data of record %d lies at %d, of husk %d at %d", r1.Seq, r1.Data.Seq, r2.Seq, r2.Data.Seq)
		}
		last = seq
	}
	if seq := commit(t, s, batch()); seq != last {
		t.Errorf("an empty batch: Seq %d, want the last, %d", seq, last)
	}
}

// testVisibility: whatever a batch holds can be read as soon as Commit returns.
func testVisibility(t *testing.T, s checkpoint.Store) {
	for i := range 50 {
		r := record("r_1", "step.a", fmt.Sprint(i), fmt.Sprint("p", i), "c")
		b := batch()
		b.PutCheckpoint(r, output(t, fmt.Sprintf(`{"n":%d}`, i)))
		b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Attempt: i})
		b.PutIntent(&checkpoint.Intent{Run: "r_1", Attempt: i})
		b.PutRun(&checkpoint.RunRecord{ID: "r_1", Workflow: workflow, Continued: i})
		commit(t, s, b)
		x := snapshot(t, s, tenant, workflow)
		if x.Len() != i+1 {
			t.Fatalf("%d heads after %d commits", x.Len(), i+1)
		}
		wantEqual(t, "head", x.Head("step.a", fmt.Sprint(i)), &r.Head)
		if d, err := s.Data(t.Context(), tenant, r.Data); err != nil || string(d) != fmt.Sprintf(`{"n":%d}`, i) {
			t.Fatalf("Data = %s, %v", d, err)
		}
		as, err := s.Attempts(t.Context(), tenant, "r_1")
		if err != nil || len(as) != i+1 {
			t.Fatalf("%d attempts, %v", len(as), err)
		}
		is, err := s.Intents(t.Context(), tenant, "r_1")
		if err != nil || len(is) != i+1 {
			t.Fatalf("%d intents, %v", len(is), err)
		}
		if run, err := s.Run(t.Context(), tenant, "r_1"); err != nil || run.Continued != i {
			t.Fatalf("run = %+v, %v", run, err)
		}
	}
}

func testRefused(t *testing.T, s checkpoint.Store) {
	for _, b := range []*checkpoint.Batch{checkpoint.NewBatch("", workflow), checkpoint.NewBatch(tenant, "")} {
		if _, err := s.Commit(t.Context(), b); err == nil {
			t.Errorf("a batch of tenant %q and workflow %q was taken", b.Tenant, b.Workflow)
		}
	}
	// One item that cannot be encoded: nothing of the batch is stored.
	b := batch()
	b.PutCheckpoint(record("r_1", "step.a", "", "p", "c"), output(t, `1`))
	b.PutRun(&checkpoint.RunRecord{ID: "r_1", Values: map[string]json.RawMessage{"v": json.RawMessage(`{`)}})
	if _, err := s.Commit(t.Context(), b); err == nil {
		t.Error("a batch with a value that is not JSON was taken")
	}
	if n := snapshot(t, s, tenant, workflow).Len(); n != 0 {
		t.Errorf("%d heads of a refused batch", n)
	}
	if seq := commit(t, s, batch()); seq != 0 {
		t.Errorf("a refused batch took Seqs up to %d", seq)
	}
}

func testTenants(t *testing.T, s checkpoint.Store) {
	// Names that would run into each other without their lengths.
	places := [][2]string{{"a", "b"}, {"a", "c"}, {"ab", "b"}, {"a\x00", "b"}, {"a\x01b", "h"}, {"租户", "流程"}, {"\xff\xff", "b"}, {"a", "b\xff"}}
	refs := make([]checkpoint.DataRef, len(places))
	for i, p := range places {
		b := checkpoint.NewBatch(p[0], p[1])
		r := record("r_1", "step.a", "", "p", "c")
		b.PutCheckpoint(r, output(t, fmt.Sprint(i)))
		b.PutRun(&checkpoint.RunRecord{ID: "r_1", Workflow: p[1], Continued: i})
		b.PutAttempt(&checkpoint.AttemptRecord{Run: "r_1", Attempt: i})
		commit(t, s, b)
		refs[i] = r.Data
	}
	for i, p := range places {
		x := snapshot(t, s, p[0], p[1])
		if x.Len() != 1 {
			t.Fatalf("tenant %q, workflow %q: %d heads", p[0], p[1], x.Len())
		}
		wantSeq(t, fmt.Sprintf("tenant %q, workflow %q", p[0], p[1]), x.Head("step.a", ""), refs[i].Seq)
		for j, ref := range refs {
			d, err := s.Data(t.Context(), p[0], ref)
			if places[j][0] == p[0] {
				if err != nil || string(d) != fmt.Sprint(j) {
					t.Errorf("tenant %q, own data %d: %s, %v", p[0], j, d, err)
				}
				continue
			}
			wantError(t, fmt.Sprintf("tenant %q, data of %q", p[0], places[j][0]), err, checkpoint.ErrNotFound)
			_, err = s.Record(t.Context(), p[0], ref.Seq)
			wantError(t, fmt.Sprintf("tenant %q, record of %q", p[0], places[j][0]), err, checkpoint.ErrNotFound)
		}
		runs, err := s.Runs(t.Context(), p[0], p[1])
		if err != nil || len(runs) != 1 || runs[0].Continued != i {
			t.Errorf("tenant %q, workflow %q: runs %v, %v", p[0], p[1], runs, err)
		}
	}
	if n := snapshot(t, s, "nobody", "b").Len(); n != 0 {
		t.Errorf("a tenant without records has %d heads", n)
	}
	if as, err := s.Attempts(t.Context(), "ab", "r_1"); err != nil || len(as) != 1 || as[0].Attempt != 2 {
		t.Errorf("attempts of tenant ab: %v, %v", as, err)
	}
}

func testDurability(t *testing.T, s checkpoint.Store) {
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatalf("Barrier of an empty store: %v", err)
	}
	var last checkpoint.Seq
	for i := range 20 {
		b := batch()
		b.PutIntent(&checkpoint.Intent{Run: "r_1", Attempt: i})
		last = commit(t, s, b)
	}
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatalf("Barrier: %v", err)
	}
	// The newest always arrives, in order, and nothing beyond it.
	for got := checkpoint.Seq(0); got != last; {
		next, open := <-s.Persisted()
		if !open || next <= got || next > last {
			t.Fatalf("Persisted delivered %d (open %v) after %d; the last commit is %d", next, open, got, last)
		}
		got = next
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no patience")
	cancel(cause)
	// Either is right where nothing is left to wait for.
	if err := s.Barrier(ctx); err != nil && !errors.Is(err, cause) {
		t.Errorf("Barrier with an ended context: %v", err)
	}
}

// testSoon: a batch that promises another is persisted with that one, with an
// empty one, or at Barrier.
func testSoon(t *testing.T, s checkpoint.Store) {
	intents := func(soon bool, n int) checkpoint.Seq {
		b := batch()
		b.Soon = soon
		for i := range n {
			b.PutIntent(&checkpoint.Intent{Run: "r_1", Attempt: i})
		}
		return commit(t, s, b)
	}
	persisted := func(last checkpoint.Seq) {
		t.Helper()
		for got := checkpoint.Seq(0); got < last; {
			var open bool
			if got, open = <-s.Persisted(); !open {
				t.Fatalf("Persisted ended before %d", last)
			}
		}
	}
	intents(true, 1)
	persisted(intents(false, 1))
	first := intents(true, 2)
	if empty := intents(false, 0); empty != first {
		t.Errorf("an empty batch: Seq %d, want the last, %d", empty, first)
	}
	persisted(first)
	last := intents(true, 1)
	if err := s.Barrier(t.Context()); err != nil {
		t.Fatalf("Barrier: %v", err)
	}
	persisted(last)
	intents(true, 1) // for Close
}

func testClose(t *testing.T, s checkpoint.Store) {
	h := put(t, s, record("r_1", "step.a", "", "p", "c"), `1`)
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	// What Close has synced is delivered before the channel ends.
	var got checkpoint.Seq
	for seq := range s.Persisted() {
		got = seq
	}
	if got != h.Seq {
		t.Errorf("Persisted ended at %d, Close had synced %d", got, h.Seq)
	}
	ctx := t.Context()
	_, err := s.Commit(ctx, batch())
	wantError(t, "Commit", err, checkpoint.ErrClosed)
	wantError(t, "Barrier", s.Barrier(ctx), checkpoint.ErrClosed)
	_, err = s.Snapshot(ctx, tenant, workflow)
	wantError(t, "Snapshot", err, checkpoint.ErrClosed)
	_, err = s.Data(ctx, tenant, h.Data)
	wantError(t, "Data", err, checkpoint.ErrClosed)
	_, err = s.Record(ctx, tenant, h.Seq)
	wantError(t, "Record", err, checkpoint.ErrClosed)
	_, err = s.Run(ctx, tenant, "r_1")
	wantError(t, "Run", err, checkpoint.ErrClosed)
	_, err = s.Runs(ctx, tenant, "")
	wantError(t, "Runs", err, checkpoint.ErrClosed)
	_, err = s.Attempts(ctx, tenant, "r_1")
	wantError(t, "Attempts", err, checkpoint.ErrClosed)
	_, err = s.Intents(ctx, tenant, "r_1")
	wantError(t, "Intents", err, checkpoint.ErrClosed)
}

func testContexts(t *testing.T, s checkpoint.Store) {
	h := put(t, s, record("r_1", "step.a", "", "p", "c"), `1`)
	cause := errors.New("the reader left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	b := batch()
	b.PutIntent(&checkpoint.Intent{Run: "r_1"})
	_, err := s.Commit(ctx, b)
	wantError(t, "Commit", err, cause)
	_, err = s.Snapshot(ctx, tenant, workflow)
	wantError(t, "Snapshot", err, cause)
	_, err = s.Data(ctx, tenant, h.Data)
	wantError(t, "Data", err, cause)
	_, err = s.Runs(ctx, tenant, "")
	wantError(t, "Runs", err, cause)
	if is, err := s.Intents(t.Context(), tenant, "r_1"); err != nil || len(is) != 0 {
		t.Errorf("a commit with an ended context stored %v, %v", is, err)
	}
}

// digests for tests that need some.
func digest(s string) sdk.Digest { return sdk.Sum([]byte(s)) }

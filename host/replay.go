package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// CodeNotRecorded is the code of the error of a step for which a replayed run has
// no answer. No fallback answers for it.
const CodeNotRecorded = "not_recorded"

// Recording is what the steps of a run were answered, attempt by attempt. With
// RunOptions.Replay it answers in place of everything that reaches beyond the
// sandbox; its store must stay open until then.
type Recording struct {
	store   checkpoint.Store
	tenant  string
	run     *checkpoint.RunRecord
	answers map[checkpoint.Fingerprint][]pastTry // by content key, in the order of the attempts
}

// pastTry is what became of one attempt.
type pastTry struct {
	attempt int
	err     *sdk.Error         // it failed
	record  *checkpoint.Record // it succeeded
}

// ReadRecording reads what a run was answered. seqs are the records that its
// steps ended with; what they leave out, as the instances of a collection that
// was reused as a whole, is taken from what was stored when the last of them was.
func ReadRecording(ctx context.Context, store checkpoint.Store, tenant string, id checkpoint.RunID, seqs []checkpoint.Seq) (*Recording, error) {
	run, err := store.Run(ctx, tenant, id)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, &UsageError{fmt.Sprintf("run %s is not in the store any more, and what it was answered cannot be told", id)}
	}
	if err != nil {
		return nil, &storeError{err}
	}
	rec := &Recording{store: store, tenant: tenant, run: run, answers: map[checkpoint.Fingerprint][]pastTry{}}
	attempts, err := store.Attempts(ctx, tenant, id)
	if err != nil {
		return nil, &storeError{err}
	}
	for _, a := range attempts {
		if a.Error != nil && a.Error.Class != sdk.ClassCancelled && !a.Content.IsZero() {
			rec.answers[a.Content] = append(rec.answers[a.Content], pastTry{attempt: a.Attempt, err: a.Error})
		}
	}
	answered := map[checkpoint.Fingerprint]bool{}
	take := func(seq checkpoint.Seq) error {
		r, err := store.Record(ctx, tenant, seq)
		if lost(err) {
			return nil // the step says so when it asks
		}
		if err != nil {
			return &storeError{err}
		}
		if r.Outcome != checkpoint.Succeeded || r.Context.Instances != nil || answered[r.Content] {
			return nil
		}
		answered[r.Content] = true
		rec.answers[r.Content] = append(rec.answers[r.Content], pastTry{attempt: r.Context.Producer.Attempt, record: r})
		return nil
	}
	slices.Sort(seqs)
	for _, seq := range slices.Backward(slices.Compact(seqs)) { // the newest counts
		if err := take(seq); err != nil {
			return nil, err
		}
	}
	index, err := store.Snapshot(ctx, tenant, run.Workflow)
	if err != nil {
		return nil, &storeError{err}
	}
	for hd := range index.Heads() {
		if len(seqs) > 0 && hd.Seq < seqs[len(seqs)-1] && hd.Outcome == checkpoint.Succeeded && !answered[hd.Content] {
			if err := take(hd.Seq); err != nil {
				return nil, err
			}
		}
	}
	for _, as := range rec.answers {
		slices.SortStableFunc(as, func(a, b pastTry) int {
			return cmp.Or(cmp.Compare(boolInt(a.record != nil), boolInt(b.record != nil)), cmp.Compare(a.attempt, b.attempt))
		})
	}
	return rec, nil
}

// replays: step i is answered from the recording, if there is one, because it or
// what judges and replaces its answers reaches beyond the sandbox.
func (s *session) replays(i int32) bool {
	if s.replay == nil {
		return false
	}
	st := &s.f.steps[i]
	return st.effects != sdk.EffectsNone || slices.ContainsFunc(append(others(st.Step), st.use()), func(u hcl.Use) bool {
		return s.f.paid(u) || s.f.artifacts[u.Plugin].Kind == loader.Native
	})
}

// replayed gives the answer that the attempt was given when it was recorded.
func (r *run) replayed(w *work) (json.RawMessage, *sdk.Error) {
	rec := r.s.replay
	as, k := rec.answers[w.content], int(w.attempt)-1
	if k >= len(as) {
		what := "was never asked this"
		if len(as) > 0 {
			what = fmt.Sprintf("was asked this %d times, not %d", len(as), w.attempt)
		}
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: CodeNotRecorded, Message: fmt.Sprintf(
			"in run %s, which is replayed, %s %s: its input, its plugin or the flow has changed since, or the answer was not kept. Apply the flow without --replay to ask", rec.run.ID, r.address(w.unit), what)}
	}
	w.started = time.Now()
	r.note(Event{Type: EventStarted, Step: r.address(w.unit), Attempt: int(w.attempt), Reason: w.reason})
	a := &as[k]
	if a.err != nil {
		var d struct {
			Output json.RawMessage `json:"output"`
		}
		if a.err.Code == codePostcondition && json.Unmarshal(a.err.Details, &d) == nil && d.Output != nil {
			return d.Output, nil // the postconditions of today judge it
		}
		return nil, a.err
	}
	out, err := rec.store.Data(w.ctx, rec.tenant, a.record.Data)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Code: CodeNotRecorded, Message: fmt.Sprintf(
			"the answer that %s was given in run %s, which is replayed, is not there any more: %v", r.address(w.unit), rec.run.ID, err)}
	}
	w.replayed = a.record
	return out, nil
}

// replayedSecret stands for the secrets that a replayed run does without.
const replayedSecret = "a secret that is not needed to replay a run"

// pretend gives a value to every secret that has none.
func (s *secrets) pretend() error {
	if s == nil {
		return nil
	}
	for _, i := range s.f.namedSecrets() {
		if !s.known(i) {
			if err := s.learn(i, replayedSecret, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// undo is something that compensation takes back.
type undo struct {
	step    int32
	address string
	head    *checkpoint.Head // its record; nil when its outcome is unknown
	input   json.RawMessage  // nil: it was not stored
}

// prepareUndo evaluates the input of w's undo while what it depends on is
// known: before there is an output, and again with it. One that cannot be
// evaluated yet stays as it was.
func (r *run) prepareUndo(w *work, out json.RawMessage) {
	st := r.step(w)
	if st.Compensate == nil {
		return
	}
	scope := w.scope
	scope.Input, scope.Output = r.s.eval.Stored(int(w.step), w.input), out
	if scope.Output == nil {
		scope.Output = json.RawMessage("null")
	}
	input, diags := r.s.eval.CompensateInput(int(w.step), scope)
	if !diags.HasErrors() {
		w.undo = r.s.secrets.redactor().JSON(input)
	} else if out != nil {
		w.warnings = append(w.warnings, sdk.Warning{Message: "the input of its undo cannot be evaluated: " + diags.Error()})
	}
}

// asksPerson: a step failed because nobody knows whether its effect has happened, and
// has no undo that would settle that. Until a person has said so nothing is undone, for
// the question would be gone with the run.
func (r *run) asksPerson() bool {
	return slices.ContainsFunc(r.failures, func(f Failure) bool {
		step, _, err := hcl.SplitAddress(f.Step)
		return f.Error.Code == CodeOutcomeUnknown && err == nil &&
			slices.ContainsFunc(r.s.f.steps, func(st flowStep) bool { return st.address == step && st.Compensate == nil })
	})
}

// compensate undoes, newest first, what this run and those that it follows have
// done, as far as steps say how. The run is sealed first: whatever happens then,
// the next apply goes on undoing and does nothing else. The undo of a step and
// the withdrawal of its record are one batch, so none is undone twice by an
// undo that ended.
func (r *run) compensate(ctx context.Context) error {
	rec := r.s.record
	rec.Status = checkpoint.RunCompensating
	undos, err := r.undos(ctx)
	if err != nil {
		return err
	}
	rec.NotUndone = nil
	for _, u := range undos {
		rec.NotUndone = append(rec.NotUndone, u.address)
	}
	if err := r.record(ctx, nil); err != nil {
		return err
	}
	var left []string
	for _, u := range undos {
		if ctx.Err() != nil {
			left = append(left, u.address)
			continue
		}
		began := time.Now()
		r.add(Event{Type: EventUndoing, Step: u.address})
		r.flush()
		ended := make(chan *sdk.Error, 1)
		go func() { ended <- r.undoOne(ctx, &u) }()
		failed := r.await(ended)
		if failed != nil {
			left = append(left, u.address)
			r.add(Event{Type: EventUndoFailed, Step: u.address, Error: failed, Took: time.Since(began)})
			r.flush()
			continue
		}
		if u.step >= 0 {
			r.results[u.step].undone = true
		}
		rec.NotUndone = slices.DeleteFunc(rec.NotUndone, func(a string) bool { return a == u.address })
		if err := r.record(ctx, &u); err != nil {
			return err
		}
		r.add(Event{Type: EventUndone, Step: u.address, Took: time.Since(began)})
		r.flush()
	}
	switch rec.NotUndone = left; {
	case len(left) == 0:
		rec.Status = checkpoint.RunCompensated
	case ctx.Err() == nil:
		rec.Status = checkpoint.RunFailed
	}
	r.finished.status = rec.Status
	return nil
}

// undoing: the run that is continued has effects that are still to be undone.
func (s *session) undoing() bool {
	return s.continued && s.previous.Undoing()
}

// undoOnly carries on the compensation of a run and runs nothing else.
func (r *run) undoOnly(ctx context.Context) (*Result, error) {
	rec := r.s.record
	r.add(Event{Type: EventRunStarted, Workflow: rec.Workflow, Continued: rec.Continued, Counts: &Counts{Total: r.counts.Total}})
	r.finished = &command{kind: cmdFinish, status: checkpoint.RunFailed, err: r.s.previous.Error}
	err := r.compensate(ctx)
	r.close()
	if err != nil {
		return nil, err
	}
	return r.finish()
}

// record stores where the compensation stands, and with it that u is undone.
func (r *run) record(ctx context.Context, u *undo) error {
	ctx = context.WithoutCancel(ctx)
	_, err := r.h.o.Store.Commit(ctx, r.batchOf(func(b *checkpoint.Batch) {
		if u != nil && u.head != nil {
			b.PutWithdrawal(&checkpoint.Record{Head: checkpoint.Head{Run: r.s.record.ID, Created: time.Now().UTC()}}, u.head)
		}
		if u != nil && u.head == nil { // its outcome is no longer unknown
			in := r.s.past.open[u.address]
			b.PutAttempt(&checkpoint.AttemptRecord{Run: in.Run, Step: in.Step, Instance: in.Instance, Attempt: in.Attempt, Started: in.Started,
				Error: &sdk.Error{Class: sdk.ClassInternal, Code: "undone", Message: "it was undone, whatever its outcome was"}})
		}
		b.PutRun(r.s.record)
	}))
	if err == nil {
		err = r.h.o.Store.Barrier(ctx)
	}
	if err != nil {
		return &storeError{err}
	}
	return nil
}

func (r *run) undoOne(ctx context.Context, u *undo) *sdk.Error {
	if u.step < 0 {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "undo", Message: "the flow no longer has this step, or no longer says how it is undone; give it back its name and its compensate block until that is done"}
	}
	c := r.s.f.steps[u.step].Compensate
	if u.input == nil {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "undo", Message: "the input of its undo was not stored: it was made before the step said how it is undone"}
	}
	h := checkpoint.NewHasher("engine/undo/1")
	h.String(string(r.s.record.Chain))
	h.String(u.address)
	h.Bytes(u.input)
	if u.head != nil { // what was done twice with another input is undone twice
		h.Fingerprint(u.head.Content)
	}
	address := "undo of " + u.address
	_, err := r.perform(ctx, &outside{
		address: address, use: c.Use, grant: r.s.f.ceilings[c.Plugin], retry: retries(c.Retry), key: h.Sum().String(), secrets: r.s.f.steps[u.step].Secrets,
		input: func() (json.RawMessage, hcl.Diagnostics) { return u.input, nil },
		failed: func(attempt int, started time.Time, err *sdk.Error) {
			r.commit(r.batchOf(func(b *checkpoint.Batch) {
				b.PutAttempt(&checkpoint.AttemptRecord{Run: r.s.record.ID, Step: address, Attempt: attempt, Error: err, Started: started.UTC(), Took: time.Since(started)})
			}))
		},
	})
	return err
}

// undos lists what is to be undone, newest first: what has an unknown outcome,
// then what has succeeded, in reverse order of commit.
func (r *run) undos(ctx context.Context) ([]undo, error) {
	s, h := r.s, r.h
	var err error
	if s.index, err = h.o.Store.Snapshot(ctx, h.o.Tenant, s.f.wf.Name); err != nil {
		return nil, &storeError{err}
	}
	if !slices.Contains(s.chain, s.record.ID) { // it was opened by this process
		s.chain = append(s.chain, s.record.ID)
	}
	if err := s.readPast(ctx); err != nil {
		return nil, err
	}
	steps := map[string]int32{}
	for i := range s.f.steps {
		if s.f.steps[i].Compensate != nil {
			steps[s.f.steps[i].address] = int32(i)
		}
	}
	var open, done []undo
	for address, in := range s.past.open {
		if i, ok := steps[in.Step]; ok {
			open = append(open, undo{step: i, address: address, input: in.Undo})
		} else if in.Undo != nil {
			open = append(open, undo{step: -1, address: address, input: in.Undo})
		}
	}
	slices.SortFunc(open, func(a, b undo) int { return s.past.open[b.address].Started.Compare(s.past.open[a.address].Started) })
	for hd := range s.index.Heads() {
		if hd.Data.Seq != 0 && hd.Data.Seq != hd.Seq {
			continue // another record's result, which is undone there
		}
		if hd.Outcome != checkpoint.Succeeded || hd.Chain != s.record.Chain || !slices.Contains(s.chain, hd.Run) {
			continue
		}
		rec, err := h.o.Store.Record(ctx, h.o.Tenant, hd.Seq)
		if err != nil {
			return nil, &storeError{fmt.Errorf("record of %s: %w", hd.Step, err)}
		}
		i, known := steps[hd.Step]
		switch {
		case rec.Context.Instances != nil: // its instances are undone
		case known:
			done = append(done, undo{step: i, address: hcl.InstanceAddress(hd.Step, hd.Instance), head: hd, input: rec.Context.Undo})
		case rec.Context.Undo != nil:
			done = append(done, undo{step: -1, address: hcl.InstanceAddress(hd.Step, hd.Instance), head: hd, input: rec.Context.Undo})
		}
	}
	slices.SortFunc(done, func(a, b undo) int { return int(b.head.Seq) - int(a.head.Seq) })
	return append(open, done...), nil
}

// await takes in what an undo reports until it has ended; the loop is over.
func (r *run) await(ended <-chan *sdk.Error) *sdk.Error {
	for {
		select {
		case e := <-r.notes:
			r.add(e)
			r.flush()
		case err := <-ended:
			for {
				select {
				case e := <-r.notes:
					r.add(e)
				default:
					return err
				}
			}
		}
	}
}

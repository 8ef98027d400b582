package control

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Records are the reading half of a checkpoint.Store.
type Records interface {
	Snapshot(ctx context.Context, tenant, workflow string) (*checkpoint.Index, error)
	Data(ctx context.Context, tenant string, ref checkpoint.DataRef) (json.RawMessage, error)
	Record(ctx context.Context, tenant string, seq checkpoint.Seq) (*checkpoint.Record, error)
	Run(ctx context.Context, tenant string, id checkpoint.RunID) (*checkpoint.RunRecord, error)
	Runs(ctx context.Context, tenant, workflow string) ([]*checkpoint.RunRecord, error)
	Attempts(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.AttemptRecord, error)
	Intents(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.Intent, error)
	File(ctx context.Context, tenant string, digest sdk.Digest) ([]byte, error)
	HasBlob(ctx context.Context, tenant string, digest sdk.Digest) (bool, error)
	// Heads calls f with the head of every checkpoint; an error of f ends it. f must
	// not use the store.
	Heads(ctx context.Context, tenant string, f func(checkpoint.Stored) error) error
}

// ErrReadOnly is what a Remote answers to whoever wants to change something.
var ErrReadOnly = errors.New("the records of a live run can only be read")

// query asks for records. It and answer are sent as gob, many on one connection.
type query struct {
	What, Tenant, Name string // Name: of a workflow or run
	Seq                checkpoint.Seq
	Ref                checkpoint.DataRef
	Digest             sdk.Digest
}

// answer has what was asked for, or Err; Kind says which error of a Store that is.
type answer struct {
	Kind, Err string
	Heads     []checkpoint.Head
	Stored    []checkpoint.Stored
	Bytes     []byte
	Record    *checkpoint.Record
	Runs      []checkpoint.RunRecord
	Attempts  []checkpoint.AttemptRecord
	Intents   []checkpoint.Intent
	Has       bool
}

// kinds are the errors that a caller of a Store tells apart.
var kinds = map[string]error{"not found": checkpoint.ErrNotFound, "corrupt": checkpoint.ErrCorrupt, "closed": checkpoint.ErrClosed}

// read answers one query.
func read(s Records, q *query) (a answer) {
	ctx := context.Background() // what is local and short is not interrupted
	var err error
	switch q.What {
	case "snapshot":
		var x *checkpoint.Index
		if x, err = s.Snapshot(ctx, q.Tenant, q.Name); err == nil {
			a.Heads = headsOf(x)
		}
	case "heads":
		err = s.Heads(ctx, q.Tenant, func(st checkpoint.Stored) error {
			a.Stored = append(a.Stored, st)
			return nil
		})
	case "data":
		a.Bytes, err = s.Data(ctx, q.Tenant, q.Ref)
	case "record":
		a.Record, err = s.Record(ctx, q.Tenant, q.Seq)
	case "run":
		var r *checkpoint.RunRecord
		if r, err = s.Run(ctx, q.Tenant, checkpoint.RunID(q.Name)); err == nil {
			a.Runs = []checkpoint.RunRecord{*r}
		}
	case "runs":
		var rs []*checkpoint.RunRecord
		rs, err = s.Runs(ctx, q.Tenant, q.Name)
		a.Runs = values(rs)
	case "attempts":
		var as []*checkpoint.AttemptRecord
		as, err = s.Attempts(ctx, q.Tenant, checkpoint.RunID(q.Name))
		a.Attempts = values(as)
	case "intents":
		var is []*checkpoint.Intent
		is, err = s.Intents(ctx, q.Tenant, checkpoint.RunID(q.Name))
		a.Intents = values(is)
	case "file":
		a.Bytes, err = s.File(ctx, q.Tenant, q.Digest)
	case "blob":
		a.Has, err = s.HasBlob(ctx, q.Tenant, q.Digest)
	default:
		err = fmt.Errorf("the run does not know the records %q", q.What)
	}
	if err != nil {
		a = answer{Err: err.Error()}
		for kind, of := range kinds {
			if errors.Is(err, of) {
				a.Kind = kind
			}
		}
	}
	return a
}

func values[T any](ps []*T) []T {
	vs := make([]T, len(ps))
	for i, p := range ps {
		vs[i] = *p
	}
	return vs
}

func pointers[T any](vs []T) []*T {
	ps := make([]*T, len(vs))
	for i := range vs {
		ps[i] = &vs[i]
	}
	return ps
}

// headsOf lists everything that an index was filled with and still holds, in the
// order of Seq, which is the order in which another one is filled.
func headsOf(x *checkpoint.Index) (hs []checkpoint.Head) {
	seen := map[checkpoint.Seq]bool{}
	add := func(h *checkpoint.Head) {
		if !seen[h.Seq] {
			seen[h.Seq] = true
			hs = append(hs, *h)
		}
	}
	for h := range x.Heads() {
		add(h)
		for _, other := range x.ContentHeads(h.Content) {
			add(other)
		}
	}
	slices.SortFunc(hs, func(a, b checkpoint.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return hs
}

// serveRecords answers queries until the other side or the run ends.
func (s *Server) serveRecords(c net.Conn, from io.Reader) {
	done := make(chan struct{})
	defer close(done)
	s.conns.Go(func() {
		select {
		case <-s.stopped:
			_ = c.Close()
		case <-done:
		}
	})
	in, out := gob.NewDecoder(from), gob.NewEncoder(c)
	for {
		var q query
		if in.Decode(&q) != nil {
			return
		}
		a, ok := s.answer(&q)
		if !ok {
			return
		}
		if out.Encode(&a) != nil {
			return
		}
	}
}

// answer reads records unless Stop was called, which waits for it: the store is
// closed then.
func (s *Server) answer(q *query) (answer, bool) {
	s.reading.Lock()
	select {
	case <-s.stopped:
		s.reading.Unlock()
		return answer{}, false
	default:
	}
	s.readers.Add(1)
	s.reading.Unlock()
	defer s.readers.Done()
	return read(s.records, q), true
}

// Remote is a checkpoint.Store over the records of a live run: it reads what the
// run has committed by now, and changes nothing (ErrReadOnly). It is safe for
// concurrent use. When the run ends its errors are ErrGone.
type Remote struct {
	mu   sync.Mutex // one question at a time
	conn net.Conn
	in   *gob.Decoder
	out  *gob.Encoder
}

var (
	_ checkpoint.Store = (*Remote)(nil)
	_ Records          = (*Remote)(nil)
)

// Open reads the records of the run of a state directory. ErrNoRun. The caller
// closes it.
func Open(ctx context.Context, state string) (*Remote, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dial(ctx, state)
	if err != nil {
		return nil, err
	}
	from := bufio.NewReader(c)
	if _, err := send(ctx, c, from, request{V: protocol, Verb: "records"}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Remote{conn: c, in: gob.NewDecoder(from), out: gob.NewEncoder(c)}, nil
}

func (r *Remote) ask(ctx context.Context, q query) (*answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var a answer
	err := r.out.Encode(&q)
	if err == nil {
		err = r.in.Decode(&a)
	}
	switch {
	case errors.Is(err, net.ErrClosed):
		return nil, checkpoint.ErrClosed
	case err != nil:
		return nil, fmt.Errorf("records of the run: %w (%w)", ErrGone, err)
	case a.Kind != "":
		return nil, &readError{a.Err, kinds[a.Kind]}
	case a.Err != "":
		return nil, errors.New(a.Err)
	}
	return &a, nil
}

// readError is an error of the run's store as it is told here.
type readError struct {
	text string
	kind error
}

func (e *readError) Error() string { return e.text }
func (e *readError) Unwrap() error { return e.kind }

// Snapshot implements checkpoint.Store.
func (r *Remote) Snapshot(ctx context.Context, tenant, workflow string) (*checkpoint.Index, error) {
	a, err := r.ask(ctx, query{What: "snapshot", Tenant: tenant, Name: workflow})
	if err != nil {
		return nil, err
	}
	x := checkpoint.NewIndex()
	for i := range a.Heads {
		x.Add(&a.Heads[i])
	}
	return x, nil
}

// Heads calls f with the head of every checkpoint, as they were when it was called.
func (r *Remote) Heads(ctx context.Context, tenant string, f func(checkpoint.Stored) error) error {
	a, err := r.ask(ctx, query{What: "heads", Tenant: tenant})
	if err != nil {
		return err
	}
	for _, st := range a.Stored {
		if err := f(st); err != nil {
			return err
		}
	}
	return nil
}

// Data implements checkpoint.Store. It is verified where it arrives, too.
func (r *Remote) Data(ctx context.Context, tenant string, ref checkpoint.DataRef) (json.RawMessage, error) {
	a, err := r.ask(ctx, query{What: "data", Tenant: tenant, Ref: ref})
	if err != nil {
		return nil, err
	}
	return a.Bytes, ref.Verify(a.Bytes)
}

// Record implements checkpoint.Store.
func (r *Remote) Record(ctx context.Context, tenant string, seq checkpoint.Seq) (*checkpoint.Record, error) {
	a, err := r.ask(ctx, query{What: "record", Tenant: tenant, Seq: seq})
	if err != nil {
		return nil, err
	}
	return a.Record, nil
}

// Run implements checkpoint.Store.
func (r *Remote) Run(ctx context.Context, tenant string, id checkpoint.RunID) (*checkpoint.RunRecord, error) {
	a, err := r.ask(ctx, query{What: "run", Tenant: tenant, Name: string(id)})
	if err != nil {
		return nil, err
	}
	return &a.Runs[0], nil
}

// Runs implements checkpoint.Store.
func (r *Remote) Runs(ctx context.Context, tenant, workflow string) ([]*checkpoint.RunRecord, error) {
	a, err := r.ask(ctx, query{What: "runs", Tenant: tenant, Name: workflow})
	if err != nil {
		return nil, err
	}
	return pointers(a.Runs), nil
}

// Attempts implements checkpoint.Store.
func (r *Remote) Attempts(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.AttemptRecord, error) {
	a, err := r.ask(ctx, query{What: "attempts", Tenant: tenant, Name: string(run)})
	if err != nil {
		return nil, err
	}
	return pointers(a.Attempts), nil
}

// Intents implements checkpoint.Store.
func (r *Remote) Intents(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.Intent, error) {
	a, err := r.ask(ctx, query{What: "intents", Tenant: tenant, Name: string(run)})
	if err != nil {
		return nil, err
	}
	return pointers(a.Intents), nil
}

// File implements checkpoint.Store.
func (r *Remote) File(ctx context.Context, tenant string, digest sdk.Digest) ([]byte, error) {
	a, err := r.ask(ctx, query{What: "file", Tenant: tenant, Digest: digest})
	if err != nil {
		return nil, err
	}
	return a.Bytes, nil
}

// HasBlob implements checkpoint.Store.
func (r *Remote) HasBlob(ctx context.Context, tenant string, digest sdk.Digest) (bool, error) {
	a, err := r.ask(ctx, query{What: "blob", Tenant: tenant, Digest: digest})
	if err != nil {
		return false, err
	}
	return a.Has, nil
}

// OpenBlob implements checkpoint.Store; blobs stay where they are.
func (r *Remote) OpenBlob(context.Context, string, sdk.Digest) (io.ReadSeekCloser, error) {
	return nil, fmt.Errorf("blob: %w", ErrReadOnly)
}

// CreateBlob implements checkpoint.Store.
func (r *Remote) CreateBlob(context.Context, string) (checkpoint.BlobWriter, error) {
	return nil, fmt.Errorf("blob: %w", ErrReadOnly)
}

// Commit implements checkpoint.Store.
func (r *Remote) Commit(context.Context, *checkpoint.Batch) (checkpoint.Seq, error) {
	return 0, fmt.Errorf("commit: %w", ErrReadOnly)
}

// Persisted implements checkpoint.Store; nothing is delivered.
func (r *Remote) Persisted() <-chan checkpoint.Seq { return nil }

// Barrier implements checkpoint.Store; nothing was committed through it.
func (r *Remote) Barrier(context.Context) error { return nil }

// Close implements checkpoint.Store.
func (r *Remote) Close() error {
	if err := r.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

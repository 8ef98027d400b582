package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retrace-dev/engine/sdk"
)

// Errors of a Store. They are wrapped with what was being done.
var (
	ErrNotFound = errors.New("not found")
	ErrCorrupt  = errors.New("stored data does not verify") // the cause names the record and file
	ErrClosed   = errors.New("the store is closed")
)

// Store keeps records in one order. It is safe for concurrent use. Tenants
// never see each other: every call names one.
//
// Order: Commit assigns increasing Seqs; a batch is atomic, visible to every
// later call when Commit returns, and durable once Persisted has delivered its
// Seq (or a larger one). After a crash the store holds a prefix of the commit
// order, at least up to the last delivered Seq.
type Store interface {
	// Commit queues the batch and returns the Seq of its last record. It does
	// not wait for the disk. Every item takes one Seq, in order; Commit sets
	// Seq, and Data.Seq where the record brings its own data, of the batch's
	// checkpoints, and keeps no reference to the batch. An empty batch gives
	// the Seq of the store's last record, and is the end of waiting for more
	// (Batch.Soon). On an error nothing is stored.
	Commit(ctx context.Context, b *Batch) (Seq, error)
	// Persisted delivers the newest durable Seq after each sync; deliveries
	// may be merged, the newest always arrives. One receiver. The channel is
	// closed by Close. A failed sync closes it early; Barrier then has the
	// cause.
	Persisted() <-chan Seq
	// Barrier returns when everything committed before the call is durable.
	Barrier(ctx context.Context) error
	// Snapshot loads the heads of one workflow: those of every step instance
	// and key that are newest, in no order the caller can rely on.
	Snapshot(ctx context.Context, tenant, workflow string) (*Index, error)
	// Data reads an output and verifies it, and that the blobs it refers to are
	// there. ErrNotFound and ErrCorrupt mean that the checkpoint is as good as
	// absent.
	Data(ctx context.Context, tenant string, ref DataRef) (json.RawMessage, error)
	// Record reads the whole record with this Seq.
	Record(ctx context.Context, tenant string, seq Seq) (*Record, error)
	// Run reads the newest record of a run. ErrNotFound.
	Run(ctx context.Context, tenant string, id RunID) (*RunRecord, error)
	// Runs lists the newest record of each run of a workflow ("" = of all),
	// newest run first.
	Runs(ctx context.Context, tenant, workflow string) ([]*RunRecord, error)
	// Attempts lists a run's attempts in commit order.
	Attempts(ctx context.Context, tenant string, run RunID) ([]*AttemptRecord, error)
	// Intents lists a run's intents in commit order.
	Intents(ctx context.Context, tenant string, run RunID) ([]*Intent, error)
	// File reads the text of a flow's file, given by its digest. ErrNotFound,
	// ErrCorrupt.
	File(ctx context.Context, tenant string, digest sdk.Digest) ([]byte, error)
	BlobStore
	// Close syncs, stops and frees everything. It is idempotent.
	Close() error
}

// Batch is what one Commit writes, atomically and in this order of additions.
// The zero value is not usable; NewBatch makes one. Not safe for concurrent
// use.
type Batch struct {
	Tenant, Workflow string
	Items            []Item // in order; read by stores only
	// Soon promises another Commit, an empty one or not, as soon as it is known
	// whether there is more to store: the store may let one sync serve both.
	// Persisted and Barrier are as without it.
	Soon bool
}

// Item is one record of a batch: exactly one field but Data and Blobs is set.
type Item struct {
	Checkpoint *Record
	Data       json.RawMessage // of Checkpoint; nil: a husk, a skipped step, or data that lies elsewhere
	Blobs      []sdk.Blob      // that Data refers to
	Run        *RunRecord
	Attempt    *AttemptRecord
	Intent     *Intent
	File       []byte // text of a file of the flow
}

// NewBatch makes an empty batch for one tenant and workflow.
func NewBatch(tenant, workflow string) *Batch { return &Batch{Tenant: tenant, Workflow: workflow} }

// Check reports what makes the batch unusable. For stores.
func (b *Batch) Check() error {
	if b.Tenant == "" || b.Workflow == "" {
		return fmt.Errorf("commit: the batch names no tenant or no workflow (tenant %q, workflow %q)", b.Tenant, b.Workflow)
	}
	return nil
}

// Kind says what an Item holds. The numbers are part of the stored format.
type Kind uint8

// The kinds of items.
const (
	KindCheckpoint Kind = iota + 1
	KindRun
	KindAttempt
	KindIntent
	KindFile
)

// Kind says which field of the item is set. For stores.
func (it *Item) Kind() Kind {
	switch {
	case it.Checkpoint != nil:
		return KindCheckpoint
	case it.Run != nil:
		return KindRun
	case it.Attempt != nil:
		return KindAttempt
	case it.Intent != nil:
		return KindIntent
	}
	return KindFile
}

// RunID is the run that the item's record is listed under, "" for a
// checkpoint. For stores.
func (it *Item) RunID() RunID {
	switch it.Kind() {
	case KindRun:
		return it.Run.ID
	case KindAttempt:
		return it.Attempt.Run
	case KindIntent:
		return it.Intent.Run
	}
	return ""
}

// AppendPart appends the item's record in its stored form; of a checkpoint
// that is its context, for head and data lie apart. For stores.
func (it *Item) AppendPart(dst []byte) ([]byte, error) {
	switch it.Kind() {
	case KindRun:
		return AppendPart(dst, it.Run)
	case KindAttempt:
		return AppendPart(dst, it.Attempt)
	case KindIntent:
		return AppendPart(dst, it.Intent)
	case KindFile:
		return append(append(dst, FormatVersion), it.File...), nil
	}
	return AppendPart(dst, &it.Checkpoint.Context)
}

// Place gives a checkpoint its Seq, which is also where data that it brings
// lies, and returns its head; nil for other items. For stores.
func (it *Item) Place(seq Seq) *Head {
	if it.Checkpoint == nil {
		return nil
	}
	h := &it.Checkpoint.Head
	h.Seq = seq
	if it.Data != nil {
		h.Data.Seq = seq
	}
	return h
}

// PutCheckpoint adds a succeeded step with its output. It sets the fields of r
// that follow from the output: Output, Data (but its Seq, which the store
// sets), ID. The batch owns r from now on.
func (b *Batch) PutCheckpoint(r *Record, out Sanitized) {
	b.seal(r, out)
	r.Data = DataRef{Size: int64(len(out.data)), SHA256: out.sum}
	b.Items = append(b.Items, Item{Checkpoint: r, Data: out.data, Blobs: out.blobs})
}

// PutHusk adds the record of a succeeded step whose output is not kept.
func (b *Batch) PutHusk(r *Record, out Sanitized) {
	b.seal(r, out)
	r.Data = DataRef{}
	b.Items = append(b.Items, Item{Checkpoint: r})
}

func (b *Batch) seal(r *Record, out Sanitized) {
	if out.data == nil {
		panic("checkpoint: Sanitized was not made by a Sanitizer")
	}
	r.Output = out.digest
	r.ID = NewID(r.Content, out.digest)
	r.Context.Reported = out.context
}

// PutReuse adds a record that points to the data of an earlier one: a content
// hit under a new plan key, or another step's result. from is a head of an
// Index; r has the new keys and lineage.
func (b *Batch) PutReuse(r *Record, from *Head) {
	r.Output, r.Data, r.ID = from.Output, from.Data, from.ID
	r.Outcome, r.Degraded, r.Operator, r.Attempts, r.Facets = from.Outcome, from.Degraded, from.Operator, from.Attempts, from.Facets
	r.IdempotencyKey = from.IdempotencyKey
	r.Content, r.Created, r.Expires, r.Took, r.Tokens, r.Cost, r.Chain = from.Content, from.Created, from.Expires, from.Took, from.Tokens, from.Cost, from.Chain
	b.Items = append(b.Items, Item{Checkpoint: r})
}

// PutSkip adds the record of a skipped step; r.Outcome says why.
func (b *Batch) PutSkip(r *Record) {
	r.ID = NewID(r.Plan, absentDigest)
	b.Items = append(b.Items, Item{Checkpoint: r})
}

// PutWithdrawal adds a record that takes h back: what h is the record of has been
// undone. It takes the place of h under all its keys.
func (b *Batch) PutWithdrawal(r *Record, h *Head) {
	r.Step, r.Instance, r.Chain, r.Local, r.Plan, r.Content, r.Lineage = h.Step, h.Instance, h.Chain, h.Local, h.Plan, h.Content, h.Lineage
	r.Outcome, r.ID, r.Attempts, r.IdempotencyKey = Withdrawn, h.ID, h.Attempts, h.IdempotencyKey
	b.Items = append(b.Items, Item{Checkpoint: r})
}

// PutRun adds a run record.
func (b *Batch) PutRun(r *RunRecord) { b.Items = append(b.Items, Item{Run: r}) }

// PutAttempt adds an attempt record. Its messages must be sanitised.
func (b *Batch) PutAttempt(r *AttemptRecord) { b.Items = append(b.Items, Item{Attempt: r}) }

// PutFile adds the text of a file of the flow, under its digest. A store keeps
// equal texts of a tenant once, for as long as a run names them in its Files.
func (b *Batch) PutFile(text []byte) {
	b.Items = append(b.Items, Item{File: append(make([]byte, 0, len(text)+1), text...)})
}

// PutIntent adds an intent.
func (b *Batch) PutIntent(r *Intent) { b.Items = append(b.Items, Item{Intent: r}) }

// Sanitized is an output in the form in which it is stored, keyed and seen
// downstream. Only Sanitizer.Sanitize makes one.
type Sanitized struct {
	data    json.RawMessage
	digest  sdk.Digest
	sum     sdk.Digest
	context json.RawMessage
	blobs   []sdk.Blob
}

// Blobs returns the blobs that the output refers to. They must not be changed.
func (s Sanitized) Blobs() []sdk.Blob { return s.blobs }

// Data returns the JSON bytes. They must not be changed.
func (s Sanitized) Data() json.RawMessage { return s.data }

// Digest returns the Merkle digest of the value.
func (s Sanitized) Digest() sdk.Digest { return s.digest }

// Verify reports whether b is what the reference says, with an error of
// ErrCorrupt that names the record. For stores.
func (r DataRef) Verify(b []byte) error {
	if int64(len(b)) != r.Size {
		return fmt.Errorf("data of record %d: %d bytes, written were %d: %w", r.Seq, len(b), r.Size, ErrCorrupt)
	}
	if got := sdk.Sum(b); got != r.SHA256 {
		return fmt.Errorf("data of record %d: digest %s, written was %s: %w", r.Seq, got.Short(), r.SHA256.Short(), ErrCorrupt)
	}
	return nil
}

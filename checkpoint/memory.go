package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// MemoryStore is a Store that ends with the process: for flows in volatile
// mode and for tests. Records pass through the codec, so that what is read is
// what a durable store would give, and nothing is shared with a batch.
//
// Everything is persisted at once, unless Hold is called: then a test decides
// when the disk answers (Sync), that it fails (Fail), or that the process dies
// (Crash).
type MemoryStore struct {
	mu        sync.Mutex
	items     []memoryItem // items[i] has Seq i+1
	batches   []Seq        // the last Seq of each batch
	durable   Seq
	hold      bool
	cause     error         // of a failed sync, or ErrClosed
	changed   chan struct{} // closed and replaced when durable or cause changes
	persisted chan Seq
	closed    bool
	blobs     map[memoryBlob][]byte
}

// memoryBlob names a blob.
type memoryBlob struct {
	tenant string
	digest sdk.Digest
}

// memoryItem is one stored record in its stored form.
type memoryItem struct {
	tenant, workflow string
	kind             Kind
	run              RunID  // of a run, attempt or intent
	head, data       []byte // of a checkpoint
	part             []byte
	file             sdk.Digest // of a file's text
	blobs            []sdk.Blob // that data refers to
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore makes an empty store. Close is not needed to free it.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{changed: make(chan struct{}), persisted: make(chan Seq, 1)}
}

// Hold stops persisting: what is committed from now on is visible, but neither
// delivered on Persisted nor passed by Barrier until Sync.
func (m *MemoryStore) Hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = true
}

// Sync persists what is committed so far, as the end of a disk's sync does.
func (m *MemoryStore) Sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sync()
}

func (m *MemoryStore) sync() {
	last := Seq(len(m.items))
	if m.cause != nil || m.durable == last {
		return
	}
	m.durable = last
	m.wake()
	select { // one sender: after the drain there is room
	case <-m.persisted:
	default:
	}
	m.persisted <- last
}

func (m *MemoryStore) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Fail lets the store's next sync fail: Persisted is closed, Barrier and later
// commits return the cause. What was committed can still be read.
func (m *MemoryStore) Fail(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(cause)
}

func (m *MemoryStore) end(cause error) {
	if m.cause != nil {
		return
	}
	m.cause = cause
	m.wake()
	close(m.persisted)
}

// Crash returns what a process that starts now would find if this one died
// with nothing but the persisted records on disk. The store itself goes on.
func (m *MemoryStore) Crash() *MemoryStore { return m.CrashAt(0) }

// CrashAt is Crash on a disk that had also written the batches that end at or
// before keep: any prefix of the commit order that holds what is persisted can
// be found after a crash.
func (m *MemoryStore) CrashAt(keep Seq) *MemoryStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	keep = max(keep, m.durable)
	n := NewMemoryStore()
	for _, last := range m.batches {
		if last <= keep {
			n.batches = append(n.batches, last)
			n.durable = last
		}
	}
	n.items = slices.Clone(m.items[:n.durable])
	n.blobs = maps.Clone(m.blobs) // each was durable when it was committed
	return n
}

// Commit implements Store.
func (m *MemoryStore) Commit(ctx context.Context, b *Batch) (Seq, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	items := make([]memoryItem, len(b.Items))
	for i := range b.Items {
		from := &b.Items[i]
		part, err := from.AppendPart(nil)
		if err != nil {
			return 0, fmt.Errorf("commit: %w", err)
		}
		items[i] = memoryItem{tenant: b.Tenant, workflow: b.Workflow, kind: from.Kind(), run: from.RunID(), data: slices.Clone(from.Data), blobs: from.Blobs, part: part}
		if from.Kind() == KindFile {
			items[i].file = sdk.Sum(from.File)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return 0, fmt.Errorf("commit: %w", m.cause)
	}
	for i := range items {
		if h := b.Items[i].Place(Seq(len(m.items) + 1)); h != nil {
			items[i].head = AppendHead(nil, h)
		}
		m.items = append(m.items, items[i])
	}
	last := Seq(len(m.items))
	if len(items) > 0 {
		m.batches = append(m.batches, last)
	}
	if !m.hold {
		m.sync()
	}
	return last, nil
}

// Persisted implements Store.
func (m *MemoryStore) Persisted() <-chan Seq { return m.persisted }

// Barrier implements Store. After Hold it waits for Sync.
func (m *MemoryStore) Barrier(ctx context.Context) error {
	m.mu.Lock()
	target := Seq(len(m.items))
	for m.durable < target && m.cause == nil {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	if m.cause != nil {
		return fmt.Errorf("barrier: %w", m.cause)
	}
	return nil
}

// Snapshot implements Store.
func (m *MemoryStore) Snapshot(ctx context.Context, tenant, workflow string) (*Index, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	x := NewIndex()
	for i := range items {
		it := &items[i]
		if it.kind != KindCheckpoint || it.tenant != tenant || it.workflow != workflow {
			continue
		}
		h, err := DecodeHead(it.head)
		if err != nil {
			return nil, err
		}
		h.Seq = Seq(i + 1)
		x.Add(h)
	}
	return x, nil
}

// Heads calls f with the head of every checkpoint of a tenant in the order of commit;
// an error of f ends it. Unlike Snapshot it passes nothing over.
func (m *MemoryStore) Heads(ctx context.Context, tenant string, f func(Stored) error) error {
	items, err := m.read(ctx)
	if err != nil {
		return err
	}
	for i := range items {
		it := &items[i]
		if it.kind != KindCheckpoint || it.tenant != tenant {
			continue
		}
		h, err := DecodeHead(it.head)
		if err != nil {
			return err
		}
		h.Seq = Seq(i + 1)
		if err := f(Stored{Workflow: it.workflow, Head: h}); err != nil {
			return err
		}
	}
	return nil
}

// read returns the items there are now; stored items never change.
func (m *MemoryStore) read(ctx context.Context) ([]memoryItem, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	return m.items, nil
}

func (m *MemoryStore) item(ctx context.Context, tenant string, seq Seq) (*memoryItem, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	if seq == 0 || seq > Seq(len(items)) || items[seq-1].tenant != tenant {
		return nil, fmt.Errorf("record %d: %w", seq, ErrNotFound)
	}
	return &items[seq-1], nil
}

// Data implements Store.
func (m *MemoryStore) Data(ctx context.Context, tenant string, ref DataRef) (json.RawMessage, error) {
	it, err := m.item(ctx, tenant, ref.Seq)
	if err != nil {
		return nil, err
	}
	if it.data == nil {
		return nil, fmt.Errorf("data of record %d: %w", ref.Seq, ErrNotFound)
	}
	if err := ref.Verify(it.data); err != nil {
		return nil, err
	}
	for _, b := range it.blobs {
		if there, err := m.HasBlob(ctx, tenant, b.Digest); err != nil || !there {
			return nil, errors.Join(err, fmt.Errorf("data of record %d: blob %s: %w", ref.Seq, b.Digest.Short(), ErrNotFound))
		}
	}
	return slices.Clone(it.data), nil
}

// CreateBlob implements BlobStore.
func (m *MemoryStore) CreateBlob(ctx context.Context, tenant string) (BlobWriter, error) {
	_, err := m.read(ctx)
	return &memoryBlobWriter{store: m, tenant: tenant}, err
}

type memoryBlobWriter struct {
	bytes.Buffer
	store  *MemoryStore
	tenant string
}

func (w *memoryBlobWriter) Commit() (sdk.Digest, error) {
	if _, err := w.store.read(context.Background()); err != nil {
		return sdk.Digest{}, err
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	d := sdk.Sum(w.Bytes())
	if w.store.blobs == nil {
		w.store.blobs = map[memoryBlob][]byte{}
	}
	w.store.blobs[memoryBlob{w.tenant, d}] = bytes.Clone(w.Bytes())
	return d, nil
}

func (w *memoryBlobWriter) Discard() { w.Reset() }

// OpenBlob implements BlobStore.
func (m *MemoryStore) OpenBlob(ctx context.Context, tenant string, digest sdk.Digest) (io.ReadSeekCloser, error) {
	if _, err := m.read(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[memoryBlob{tenant, digest}]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", digest.Short(), ErrNotFound)
	}
	return OpenBytes(b), nil
}

// HasBlob implements BlobStore.
func (m *MemoryStore) HasBlob(ctx context.Context, tenant string, digest sdk.Digest) (bool, error) {
	if _, err := m.read(ctx); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.blobs[memoryBlob{tenant, digest}]
	return ok, nil
}

// Record implements Store.
func (m *MemoryStore) Record(ctx context.Context, tenant string, seq Seq) (*Record, error) {
	it, err := m.item(ctx, tenant, seq)
	if err != nil {
		return nil, err
	}
	if it.kind != KindCheckpoint {
		return nil, fmt.Errorf("record %d is not a checkpoint: %w", seq, ErrNotFound)
	}
	h, err := DecodeHead(it.head)
	if err != nil {
		return nil, err
	}
	h.Seq = seq
	c, err := DecodePart[Context](it.part)
	if err != nil {
		return nil, err
	}
	return &Record{Head: *h, Context: *c}, nil
}

// Run implements Store.
func (m *MemoryStore) Run(ctx context.Context, tenant string, id RunID) (*RunRecord, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(items) {
		if it := &items[i]; it.kind == KindRun && it.tenant == tenant && it.run == id {
			return DecodePart[RunRecord](it.part)
		}
	}
	return nil, fmt.Errorf("run %s: %w", id, ErrNotFound)
}

// Runs implements Store.
func (m *MemoryStore) Runs(ctx context.Context, tenant, workflow string) ([]*RunRecord, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[RunID]int{}
	var order []RunID // by their first record
	for i := range items {
		if it := &items[i]; it.kind == KindRun && it.tenant == tenant && (workflow == "" || it.workflow == workflow) {
			if _, seen := newest[it.run]; !seen {
				order = append(order, it.run)
			}
			newest[it.run] = i
		}
	}
	var runs []*RunRecord
	for _, id := range slices.Backward(order) {
		r, err := DecodePart[RunRecord](items[newest[id]].part)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Attempts implements Store.
func (m *MemoryStore) Attempts(ctx context.Context, tenant string, run RunID) ([]*AttemptRecord, error) {
	return listMemory[AttemptRecord](ctx, m, tenant, run, KindAttempt)
}

// Intents implements Store.
func (m *MemoryStore) Intents(ctx context.Context, tenant string, run RunID) ([]*Intent, error) {
	return listMemory[Intent](ctx, m, tenant, run, KindIntent)
}

// File implements Store.
func (m *MemoryStore) File(ctx context.Context, tenant string, digest sdk.Digest) ([]byte, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if it := &items[i]; it.kind == KindFile && it.tenant == tenant && it.file == digest {
			return DecodeFile(it.part, digest)
		}
	}
	return nil, fmt.Errorf("file %s of a flow: %w", digest.Short(), ErrNotFound)
}

func listMemory[T Part](ctx context.Context, m *MemoryStore, tenant string, run RunID, kind Kind) ([]*T, error) {
	items, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	var list []*T
	for i := range items {
		it := &items[i]
		if it.kind != kind || it.tenant != tenant || it.run != run {
			continue
		}
		v, err := DecodePart[T](it.part)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Close implements Store.
func (m *MemoryStore) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.sync()
	m.closed = true
	var err error
	if m.cause != nil {
		err = fmt.Errorf("close: %w", m.cause)
	}
	m.end(ErrClosed)
	return err
}

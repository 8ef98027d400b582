package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Commit implements checkpoint.Store. It waits for the disk only while 64 MiB of
// large outputs have not reached it.
func (s *Store) Commit(ctx context.Context, b *checkpoint.Batch) (checkpoint.Seq, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return 0, fmt.Errorf("store %s: commit: %w", s.dir, checkpoint.ErrClosed)
	}
	if s.readOnly {
		return 0, fmt.Errorf("store %s: commit: %w", s.dir, ErrReadOnly)
	}
	parts, err := encodeParts(b)
	if err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	large := cloneLarge(b)
	sealer, err := s.vault.ready(b.Tenant)
	if err != nil {
		return 0, fmt.Errorf("store %s: commit: %w", s.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(ctx); err != nil {
		return 0, err
	}
	if err := s.failed(); err != nil {
		return 0, fmt.Errorf("store %s: commit: %w", s.dir, err)
	}
	if len(b.Items) > 0 {
		last, err := s.apply(b, sealer, parts, large)
		if err != nil {
			return 0, fmt.Errorf("store %s: commit: %w", s.dir, err)
		}
		s.last = last
	}
	if !b.Soon {
		s.wakeUp()
	}
	return s.last, nil
}

// wakeUp begins a sync of what it has not been begun for.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is waiting already and will take everything along
	}
}

// encodeParts encodes what needs no Seq, so that commits encode side by side.
// parts[i] of a context or a run begins with the workflow's name.
func encodeParts(b *checkpoint.Batch) (parts [][]byte, err error) {
	parts = make([][]byte, len(b.Items))
	var buf []byte
	for i := range b.Items {
		it := &b.Items[i]
		from := len(buf)
		if k := it.Kind(); k == checkpoint.KindCheckpoint || k == checkpoint.KindRun {
			buf = appendName(buf, b.Workflow)
		}
		if buf, err = it.AppendPart(buf); err != nil {
			return nil, err
		}
		parts[i] = buf[from:len(buf):len(buf)]
	}
	return parts, nil
}

// cloneLarge copies the large outputs, which must outlive the batch; nil for
// other items. Most batches have none.
func cloneLarge(b *checkpoint.Batch) (large [][]byte) {
	for i := range b.Items {
		if data := b.Items[i].Data; len(data) > checkpoint.LargeData {
			if large == nil {
				large = make([][]byte, len(b.Items))
			}
			large[i] = slices.Clone(data)
		}
	}
	return large
}

// room waits until there is room for large outputs; the caller holds mu.
func (s *Store) room(ctx context.Context) error {
	for s.pending.bytes >= s.pending.limit && s.failed() == nil {
		s.wakeUp() // the batch before may have promised this one (Batch.Soon)
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until durable or cause has changed; the caller holds mu.
func (s *Store) wait(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apply writes the batch into the log and the memory table, without a sync. The
// caller holds mu, so that the order of the log is that of the Seqs.
func (s *Store) apply(b *checkpoint.Batch, sealer *checkpoint.Sealer, parts, large [][]byte) (checkpoint.Seq, error) {
	batch := s.db.NewBatch()
	defer batch.Close()
	set := func(key, value []byte) {
		if sealer != nil && key[0] != 0 {
			s.sealed = sealer.Seal(s.sealed[:0], value, key)
			value = s.sealed
		}
		if err := batch.Set(key, value, nil); err != nil {
			s.failure.set(err) // a batch beyond 4 GiB
		}
	}
	seq := s.last
	for i := range b.Items {
		it := &b.Items[i]
		seq++
		key := s.buf[:0]
		switch it.Kind() {
		case checkpoint.KindCheckpoint:
			h := it.Place(seq)
			key = appendSeq(namePrefix(key, b.Tenant, kindHead, b.Workflow), seq)
			n := len(key)
			key = checkpoint.AppendHead(key, h)
			set(key[:n], key[n:])
			switch {
			case large != nil && large[i] != nil:
				e := blobEntry{first: s.last + 1, size: h.Data.Size, sum: h.Data.SHA256}
				key = appendSeq(tenantPrefix(key[:0], b.Tenant, kindBlob), seq)
				n := len(key)
				key = e.append(key)
				set(key[:n], key[n:])
				s.pending.add(blobKey{b.Tenant, e.sum}, large[i])
			case it.Data != nil:
				key = appendSeq(tenantPrefix(key[:0], b.Tenant, kindData), seq)
				set(key, it.Data)
			}
			if it.Data != nil && len(it.Blobs) > 0 {
				key = appendSeq(tenantPrefix(key[:0], b.Tenant, kindLinks), seq)
				n := len(key)
				key = appendLinks(key, it.Blobs)
				set(key[:n], key[n:])
			}
			key = appendSeq(tenantPrefix(key[:0], b.Tenant, kindContext), seq)
		case checkpoint.KindRun:
			key = appendSeq(namePrefix(key, b.Tenant, kindRun, string(it.RunID())), seq)
		case checkpoint.KindAttempt:
			key = appendSeq(namePrefix(key, b.Tenant, kindAttempt, string(it.RunID())), seq)
		case checkpoint.KindIntent:
			key = appendSeq(namePrefix(key, b.Tenant, kindIntent, string(it.RunID())), seq)
		case checkpoint.KindFile:
			name := sdk.Sum(it.File)
			if sealer != nil {
				name = sealer.Name(name)
			}
			key = filePrefix(key, b.Tenant, name)
			there, err := s.any(key)
			if err != nil {
				return 0, err
			}
			if there {
				s.buf = key
				continue
			}
			key = appendSeq(key, seq)
		}
		set(key, parts[i])
		s.buf = key
	}
	var last [8]byte
	binary.BigEndian.PutUint64(last[:], uint64(seq))
	set(keyLast, last[:])
	if err := s.failure.cause(); err != nil {
		return 0, err
	}
	if err := s.db.Apply(batch, pebble.NoSync); err != nil {
		return 0, err
	}
	return seq, s.failure.cause() // Apply reports a failed log as success
}

// failed is why nothing can be committed; the caller holds mu.
func (s *Store) failed() error {
	if s.cause != nil {
		return s.cause
	}
	return s.failure.cause()
}

// syncLoop syncs what was committed, one sync at a time, until the store is
// closed or fails. It alone sends on persisted.
func (s *Store) syncLoop() {
	defer close(s.done)
	defer close(s.persisted)
	for stopping := false; !stopping; {
		select {
		case <-s.wake:
		case <-s.failure.c:
		case <-s.stop:
			stopping = true
		}
		if err := s.sync(); err != nil {
			s.log.Debug("nothing more is stored", "store", s.dir, "error", err)
			s.end(err) // who commits or waits is told, and tells it once
			return
		}
	}
	s.end(checkpoint.ErrClosed)
}

// sync makes everything committed so far durable, files before the records that
// name them. The record of the log that it
// syncs is an empty one: an empty batch would sync nothing.
func (s *Store) sync() error {
	s.mu.Lock()
	target, durable, files := s.last, s.durable, s.pending.list
	s.mu.Unlock()
	if err := s.failure.cause(); err != nil || target == durable {
		return err
	}
	if err := s.blobs.write(files); err != nil {
		s.failure.set(fmt.Errorf("large output: %w", err))
	}
	if err := s.failure.cause(); err != nil {
		return err
	}
	s.head.syncing()
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	if err := s.failure.cause(); err != nil {
		return err // LogData reports a failed sync as success
	}
	s.mu.Lock()
	s.durable = target
	s.pending.done(len(files))
	s.broadcast()
	s.mu.Unlock()
	s.head.put(target)
	select { // the one sender: after the drain there is room
	case <-s.persisted:
	default:
	}
	s.persisted <- target
	return nil
}

// broadcast wakes those who wait at Barrier; the caller holds mu.
func (s *Store) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cause = cause
	s.broadcast()
}

// Persisted implements checkpoint.Store.
func (s *Store) Persisted() <-chan checkpoint.Seq { return s.persisted }

// Barrier implements checkpoint.Store.
func (s *Store) Barrier(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	target := s.last
	if s.durable < target {
		s.wakeUp() // the last batch may have promised another (Batch.Soon)
	}
	for s.durable < target && s.cause == nil {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	if s.durable < target || s.cause != nil {
		return fmt.Errorf("store %s: barrier: %w", s.dir, s.cause)
	}
	return nil
}

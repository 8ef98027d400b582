package pebblestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// sealerOf is that of the tenant whose keys begin so. The store's own keys have
// none.
func (s *Store) sealerOf(key []byte) (*checkpoint.Sealer, error) {
	if s.vault == nil || key[0] == 0 {
		return nil, nil
	}
	tenant, _, _ := splitName(key)
	return s.vault.sealer(tenant)
}

// get copies a value out of the database; its error is ErrNotFound where there
// is none.
func (s *Store) get(key []byte) ([]byte, error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, checkpoint.ErrNotFound
	}
	if err != nil {
		return nil, readError(err)
	}
	sealer, err := s.sealerOf(key)
	if sealer == nil && err == nil {
		v = slices.Clone(v)
	} else if err == nil {
		v, err = sealer.Open(nil, v, key)
	}
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, err
	}
	return v, nil
}

// readError turns Pebble's corruption into ours, with the file it was found in.
func readError(err error) error {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return fmt.Errorf("%w: file %s: %w", checkpoint.ErrCorrupt, info.Path, info.Details)
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return err
}

// any reports whether a key begins with prefix.
func (s *Store) any(prefix []byte) (bool, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return false, readError(err)
	}
	there := it.First()
	return there, readError(it.Close())
}

// scan calls f with each key and value that begin with prefix, in order. They
// are valid during the call.
func (s *Store) scan(ctx context.Context, prefix []byte, f func(key, value []byte) error) error {
	if s.vault == nil {
		return s.scanStored(ctx, prefix, f)
	}
	open := s.opener()
	return s.scanStored(ctx, prefix, func(key, value []byte) error {
		value, err := open(key, value)
		if err != nil {
			return undecodable(key, err)
		}
		return f(key, value)
	})
}

// opener opens the values of one tenant, each until the next.
func (s *Store) opener() func(key, value []byte) ([]byte, error) {
	var sealer *checkpoint.Sealer
	var buf []byte
	return func(key, value []byte) (_ []byte, err error) {
		if s.vault == nil {
			return value, nil
		}
		if sealer == nil {
			if sealer, err = s.sealerOf(key); err != nil {
				return nil, err
			}
		}
		buf, err = sealer.Open(buf[:0], value, key)
		return buf, err
	}
}

// scanStored is scan for who opens the values himself.
func (s *Store) scanStored(ctx context.Context, prefix []byte, f func(key, value []byte) error) error {
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return readError(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return errors.Join(context.Cause(ctx), it.Close())
		}
		v, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), v)
		}
		if err != nil {
			return errors.Join(readError(err), it.Close())
		}
	}
	return readError(it.Close())
}

// read runs f while the database is open, and names the store in its error.
func (s *Store) read(ctx context.Context, what string, f func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.life.RLock()
	defer s.life.RUnlock()
	err := error(checkpoint.ErrClosed)
	if !s.closed {
		err = f()
	}
	if err != nil {
		return fmt.Errorf("store %s: %s: %w", s.dir, what, err)
	}
	return nil
}

// undecodable names a record whose stored form cannot be read.
func undecodable(key []byte, err error) error {
	seq, _ := keySeq(key)
	return fmt.Errorf("%w: record %d: %w", checkpoint.ErrCorrupt, seq, err)
}

// Snapshot implements checkpoint.Store with one scan over the workflow's heads.
func (s *Store) Snapshot(ctx context.Context, tenant, workflow string) (*checkpoint.Index, error) {
	x := checkpoint.NewIndex()
	err := s.read(ctx, "snapshot", func() error {
		return s.scan(ctx, namePrefix(nil, tenant, kindHead, workflow), func(key, value []byte) error {
			h, err := checkpoint.DecodeHead(value)
			if err != nil {
				return undecodable(key, err)
			}
			h.Seq, _ = keySeq(key)
			x.Add(h)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Data implements checkpoint.Store. An error about a large output names its
// file.
func (s *Store) Data(ctx context.Context, tenant string, ref checkpoint.DataRef) (data json.RawMessage, err error) {
	err = s.read(ctx, fmt.Sprintf("data of record %d", ref.Seq), func() error {
		if data, err = s.data(tenant, ref); err != nil {
			return err
		}
		if !checkpoint.MayReferToBlobs(data) {
			return nil
		}
		return s.linked(tenant, ref)
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// data reads an output without what it refers to.
func (s *Store) data(tenant string, ref checkpoint.DataRef) (json.RawMessage, error) {
	if ref.Size > checkpoint.LargeData {
		if data, large, err := s.largeData(tenant, ref); large {
			return data, err
		}
	}
	data, err := s.get(appendSeq(tenantPrefix(nil, tenant, kindData), ref.Seq))
	if err != nil {
		return nil, err
	}
	return data, ref.Verify(data)
}

// Record implements checkpoint.Store.
func (s *Store) Record(ctx context.Context, tenant string, seq checkpoint.Seq) (r *checkpoint.Record, err error) {
	err = s.read(ctx, fmt.Sprintf("record %d", seq), func() error {
		key := appendSeq(tenantPrefix(nil, tenant, kindContext), seq)
		stored, err := s.get(key)
		if err != nil {
			return err
		}
		workflow, part, ok := splitName(stored)
		if !ok {
			return undecodable(key, checkpoint.ErrFormat)
		}
		c, err := checkpoint.DecodePart[checkpoint.Context](part)
		if err != nil {
			return undecodable(key, err)
		}
		head, err := s.get(appendSeq(namePrefix(nil, tenant, kindHead, workflow), seq))
		if err != nil {
			return err
		}
		h, err := checkpoint.DecodeHead(head)
		if err != nil {
			return undecodable(key, err)
		}
		h.Seq = seq
		r = &checkpoint.Record{Head: *h, Context: *c}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run implements checkpoint.Store.
func (s *Store) Run(ctx context.Context, tenant string, id checkpoint.RunID) (r *checkpoint.RunRecord, err error) {
	err = s.read(ctx, "run "+string(id), func() error {
		var newest, at []byte
		err := s.scan(ctx, namePrefix(nil, tenant, kindRun, string(id)), func(key, value []byte) error {
			at, newest = append(at[:0], key...), append(newest[:0], value...)
			return nil
		})
		if err != nil {
			return err
		}
		if newest == nil {
			return checkpoint.ErrNotFound
		}
		r, err = decodeRun(at, newest)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func decodeRun(key, value []byte) (*checkpoint.RunRecord, error) {
	_, part, ok := splitName(value)
	if !ok {
		return nil, undecodable(key, checkpoint.ErrFormat)
	}
	r, err := checkpoint.DecodePart[checkpoint.RunRecord](part)
	if err != nil {
		return nil, undecodable(key, err)
	}
	return r, nil
}

// Runs implements checkpoint.Store. A run's records lie together, the oldest
// first, whose Seq says when the run was opened.
func (s *Store) Runs(ctx context.Context, tenant, workflow string) (runs []*checkpoint.RunRecord, err error) {
	type run struct {
		id     string
		opened checkpoint.Seq
		key    []byte
		value  []byte // of the newest record
	}
	var found []run
	err = s.read(ctx, "runs", func() error {
		prefix := tenantPrefix(nil, tenant, kindRun)
		err := s.scan(ctx, prefix, func(key, value []byte) error {
			id, _, ok := splitName(key[len(prefix):])
			name, _, ok2 := splitName(value)
			seq, ok3 := keySeq(key)
			if !ok || !ok2 || !ok3 {
				return undecodable(key, checkpoint.ErrFormat)
			}
			if workflow != "" && name != workflow {
				return nil
			}
			if n := len(found); n == 0 || found[n-1].id != id {
				found = append(found, run{id: id, opened: seq})
			}
			r := &found[len(found)-1]
			r.key, r.value = append(r.key[:0], key...), append(r.value[:0], value...)
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b run) int {
			if a.opened > b.opened {
				return -1
			}
			return 1
		})
		for i := range found {
			r, err := decodeRun(found[i].key, found[i].value)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return runs, nil
}

// Attempts implements checkpoint.Store.
func (s *Store) Attempts(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.AttemptRecord, error) {
	return list[checkpoint.AttemptRecord](ctx, s, "attempts of run "+string(run), namePrefix(nil, tenant, kindAttempt, string(run)))
}

// Intents implements checkpoint.Store.
func (s *Store) Intents(ctx context.Context, tenant string, run checkpoint.RunID) ([]*checkpoint.Intent, error) {
	return list[checkpoint.Intent](ctx, s, "intents of run "+string(run), namePrefix(nil, tenant, kindIntent, string(run)))
}

// File implements checkpoint.Store.
func (s *Store) File(ctx context.Context, tenant string, digest sdk.Digest) (text []byte, err error) {
	err = s.read(ctx, "file "+digest.Short()+" of a flow", func() error {
		found := checkpoint.ErrNotFound
		name, err := s.vault.name(tenant, digest)
		if err != nil {
			return err
		}
		err = s.scan(ctx, filePrefix(nil, tenant, name), func(_, value []byte) error {
			text, found = checkpoint.DecodeFile(value, digest)
			return nil
		})
		if err != nil {
			return err
		}
		return found
	})
	if err != nil {
		return nil, err
	}
	return text, nil
}

func list[T checkpoint.Part](ctx context.Context, s *Store, what string, prefix []byte) (all []*T, err error) {
	err = s.read(ctx, what, func() error {
		return s.scan(ctx, prefix, func(key, value []byte) error {
			v, err := checkpoint.DecodePart[T](value)
			if err != nil {
				return undecodable(key, err)
			}
			all = append(all, v)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Heads calls f with the head of every checkpoint of a tenant, workflow by
// workflow in the order of commit; an error of f ends it. Unlike Snapshot it
// passes nothing over. f must not use the store.
func (s *Store) Heads(ctx context.Context, tenant string, f func(checkpoint.Stored) error) error {
	return s.read(ctx, "heads", func() error { return s.heads(ctx, tenant, f) })
}

func (s *Store) heads(ctx context.Context, tenant string, f func(checkpoint.Stored) error) error {
	prefix := tenantPrefix(nil, tenant, kindHead)
	return s.scan(ctx, prefix, func(key, value []byte) error {
		workflow, _, ok := splitName(key[len(prefix):])
		h, err := checkpoint.DecodeHead(value)
		if !ok && err == nil {
			err = checkpoint.ErrFormat
		}
		if err != nil {
			return undecodable(key, err)
		}
		h.Seq, _ = keySeq(key)
		return f(checkpoint.Stored{Workflow: workflow, Head: h})
	})
}

package pebblestore

import (
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
)

// cutIncomplete ends the store before the first batch whose large outputs did
// not reach the disk. The log may come to the disk without a sync, and so
// before the files that its records need. Nobody was told that such a batch is
// persisted, so HEAD, which lies before it, bounds the search.
func (s *Store) cutIncomplete(head checkpoint.Seq) error {
	first, err := s.firstIncomplete(head)
	if err != nil || first == 0 {
		return err
	}
	s.log.Info("the end of the store is cut off: a large output did not reach the disk", "store", s.dir, "from", first, "to", s.last)
	batch := s.db.NewBatch()
	defer batch.Close()
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.SeekGE([]byte{1}); ok; ok = it.Next() { // past the store's own keys
		if seq, ok := keySeq(it.Key()); ok && seq >= first {
			if err := batch.Delete(it.Key(), nil); err != nil {
				return err
			}
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	s.last = first - 1
	s.durable = s.last
	if err := batch.Set(keyLast, appendSeq(nil, s.last), nil); err != nil {
		return err
	}
	if err := s.db.Apply(batch, pebble.Sync); err != nil {
		return err
	}
	return s.failure.cause()
}

// firstIncomplete is the first Seq of the first batch after head that lacks a
// file, 0 if there is none.
func (s *Store) firstIncomplete(head checkpoint.Seq) (first checkpoint.Seq, err error) {
	tenants, err := s.tenants()
	if err != nil {
		return 0, err
	}
	for _, tenant := range tenants {
		prefix := tenantPrefix(nil, tenant, kindBlob)
		open := s.opener()
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: appendSeq(prefix[:len(prefix):len(prefix)], head+1), UpperBound: prefixEnd(prefix)})
		if err != nil {
			return 0, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			value, err := open(it.Key(), it.Value())
			e, ok := decodeBlobEntry(value)
			if err != nil || !ok {
				continue // damage is told by who reads it
			}
			_, file, err := s.blobs.path(blobKey{tenant, e.sum})
			if err != nil {
				return 0, errors.Join(err, it.Close())
			}
			_, err = s.fs.Stat(file)
			if errors.Is(err, fs.ErrNotExist) && (first == 0 || e.first < first) {
				first = e.first
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, errors.Join(err, it.Close())
			}
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			return 0, err
		}
	}
	return first, nil
}

// tenants are those that have a record, found by jumping from one to the next.
func (s *Store) tenants() (names []string, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, readError(err)
	}
	defer it.Close()
	for ok := it.SeekGE([]byte{1}); ok; {
		name, _, parsed := splitName(it.Key())
		if !parsed {
			return nil, checkpoint.ErrCorrupt
		}
		names = append(names, name)
		ok = it.SeekGE(prefixEnd(appendName(nil, name)))
	}
	return names, readError(it.Error())
}

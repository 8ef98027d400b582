package pebblestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Collection is what Collect did, or with dryRun what it would do.
type Collection struct {
	checkpoint.Decision
	Orphans      int   // outputs and files that nothing named, left by a crash or a damaged file system
	OrphanBytes  int64 // of them
	FilesRemoved int   // files of large outputs, orphans among them
}

// Collect removes from a tenant's records what the policy lets go, and what
// nothing names any more. With dryRun it only says what that is.
//
// First go the records, in one synced batch with the outputs in the database
// that no record is left to name; then the files. Wherever a crash or the end
// of ctx stops it, what is there is whole, and the next Collect does the rest.
// An ended ctx is no error once the records are gone.
//
// Commits wait while the records are chosen and removed. An Index loaded before
// may name what is gone, so no run of the tenant may be under way but one that
// has ended.
func (s *Store) Collect(ctx context.Context, tenant string, p checkpoint.Policy, dryRun bool) (c *Collection, err error) {
	if s.readOnly && !dryRun {
		return nil, fmt.Errorf("store %s: collect: %w", s.dir, ErrReadOnly)
	}
	if !dryRun {
		// What takes the place of a record that goes must be as durable.
		if err := s.Barrier(ctx); err != nil {
			return nil, err
		}
	}
	runs, err := s.Runs(ctx, tenant, "")
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, "collect", func() error {
		c, err = s.collect(ctx, tenant, runs, p, dryRun)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Store) collect(ctx context.Context, tenant string, runs []*checkpoint.RunRecord, p checkpoint.Policy, dryRun bool) (*Collection, error) {
	s.blobs.io.Lock() // no file is shared or made from here on
	defer s.blobs.io.Unlock()
	c := &Collection{}
	needed, err := s.collectRecords(ctx, tenant, runs, p, dryRun, c)
	if err != nil {
		return nil, err
	}
	return c, s.collectFiles(ctx, tenant, needed, dryRun, c)
}

// collectRecords decides and, but for a dry run, removes records. It returns
// the digests of the large outputs that are still needed.
func (s *Store) collectRecords(ctx context.Context, tenant string, runs []*checkpoint.RunRecord, p checkpoint.Policy, dryRun bool, c *Collection) (needed map[sdk.Digest]bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failed(); err != nil {
		return nil, err
	}
	var records []checkpoint.Stored
	if err := s.heads(ctx, tenant, func(st checkpoint.Stored) error {
		records = append(records, st)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := s.addBlobs(ctx, tenant, records); err != nil {
		return nil, err
	}
	begun := &begun{}
	if c.Decision = checkpoint.Select(records, runs, nil, p); len(c.Records)+len(c.Runs) > 0 {
		if begun, err = s.begun(ctx, tenant); err != nil {
			return nil, err
		}
		if unsettled := begun.unsettled(records, runs); len(unsettled) > 0 {
			c.Decision = checkpoint.Select(records, runs, unsettled, p)
		}
	}
	var sealer *checkpoint.Sealer
	if len(records) > 0 { // a tenant without any may have no key
		if sealer, err = s.vault.sealer(tenant); err != nil {
			return nil, err
		}
	}
	r := removal{batch: s.db.NewBatch(), tenant: tenant, sealer: sealer}
	defer r.batch.Close()
	for i := range c.Records {
		r.record(&c.Records[i].Stored)
	}
	for i := range c.Outputs {
		r.output(&c.Outputs[i].Stored)
	}
	for _, run := range c.Runs {
		r.run(run.ID)
	}
	for _, key := range begun.settledBy(c.Decision, records, runs) {
		r.delete(key)
	}
	if err := s.unnamedFiles(ctx, tenant, runs, &r, c); err != nil {
		return nil, err
	}
	needed, err = s.unnamed(ctx, tenant, records, &r, c)
	if err != nil || dryRun || r.batch.Empty() {
		return needed, errors.Join(err, r.err)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := s.db.Apply(r.batch, pebble.Sync); err != nil {
		return nil, err
	}
	return needed, s.failure.cause()
}

// addBlobs says of each record which blobs its output refers to, and what they take.
func (s *Store) addBlobs(ctx context.Context, tenant string, records []checkpoint.Stored) error {
	of := map[checkpoint.Seq][]sdk.Blob{}
	err := s.scan(ctx, tenantPrefix(nil, tenant, kindLinks), func(key, value []byte) error {
		links, ok := decodeLinks(value)
		if !ok {
			return undecodable(key, checkpoint.ErrFormat)
		}
		seq, _ := keySeq(key)
		for _, d := range links {
			_, path, err := s.blobs.path(blobKey{tenant, d})
			if err != nil {
				return err
			}
			b := sdk.Blob{Digest: d}
			if info, err := s.fs.Stat(path); err == nil { // one that is gone takes nothing
				b.Size = info.Size()
			}
			of[seq] = append(of[seq], b)
		}
		return nil
	})
	if len(of) > 0 {
		for i := range records {
			records[i].Blobs = of[records[i].Data.Seq]
		}
	}
	return err
}

// removal gathers what goes from the database.
type removal struct {
	batch  *pebble.Batch
	tenant string
	sealer *checkpoint.Sealer
	gone   map[checkpoint.Seq]bool // records that go or become husks
	err    error
}

func (r *removal) delete(key []byte) { r.err = errors.Join(r.err, r.batch.Delete(key, nil)) }

func (r *removal) drop(seq checkpoint.Seq) {
	if r.gone == nil {
		r.gone = map[checkpoint.Seq]bool{}
	}
	r.gone[seq] = true
}

func (r *removal) headKey(st *checkpoint.Stored) []byte {
	return appendSeq(namePrefix(nil, r.tenant, kindHead, st.Workflow), st.Seq)
}

func (r *removal) record(st *checkpoint.Stored) {
	r.drop(st.Seq)
	r.delete(r.headKey(st))
	r.delete(appendSeq(tenantPrefix(nil, r.tenant, kindContext), st.Seq))
}

// output makes a husk of the record.
func (r *removal) output(st *checkpoint.Stored) {
	r.drop(st.Seq)
	h := *st.Head
	h.Data = checkpoint.DataRef{}
	key, value := r.headKey(st), checkpoint.AppendHead(nil, &h)
	if r.sealer != nil {
		value = r.sealer.Seal(nil, value, key)
	}
	r.err = errors.Join(r.err, r.batch.Set(key, value, nil))
}

func (r *removal) run(id checkpoint.RunID) {
	for _, kind := range []byte{kindRun, kindAttempt, kindIntent} {
		prefix := namePrefix(nil, r.tenant, kind, string(id))
		r.err = errors.Join(r.err, r.batch.DeleteRange(prefix, prefixEnd(prefix), nil))
	}
}

// unnamed removes the outputs that no record is left to name, and returns which
// large outputs still are.
func (s *Store) unnamed(ctx context.Context, tenant string, records []checkpoint.Stored, r *removal, c *Collection) (needed map[sdk.Digest]bool, err error) {
	kept, known := map[checkpoint.Seq]bool{}, map[checkpoint.Seq]bool{}
	for _, st := range records {
		known[st.Data.Seq] = true
		if !r.gone[st.Seq] {
			kept[st.Data.Seq] = true
		}
	}
	orphan := func(seq checkpoint.Seq, size int64) {
		if !known[seq] {
			c.Orphans++
			c.OrphanBytes += size
		}
	}
	err = s.scan(ctx, tenantPrefix(nil, tenant, kindData), func(key, value []byte) error {
		if seq, ok := keySeq(key); ok && !kept[seq] {
			orphan(seq, int64(len(value)))
			r.delete(key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	needed = map[sdk.Digest]bool{}
	err = s.scan(ctx, tenantPrefix(nil, tenant, kindBlob), func(key, value []byte) error {
		e, ok := decodeBlobEntry(value)
		if !ok {
			return undecodable(key, checkpoint.ErrFormat)
		}
		if seq, ok := keySeq(key); ok && !kept[seq] {
			orphan(seq, 0) // its file is counted
			r.delete(key)
		} else {
			name, err := s.vault.name(tenant, e.sum)
			needed[name] = true
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.scan(ctx, tenantPrefix(nil, tenant, kindLinks), func(key, value []byte) error {
		links, ok := decodeLinks(value)
		if !ok {
			return undecodable(key, checkpoint.ErrFormat)
		}
		if seq, ok := keySeq(key); ok && !kept[seq] {
			r.delete(key)
			return nil
		}
		for _, d := range links {
			name, err := s.vault.name(tenant, d)
			if err != nil {
				return err
			}
			needed[name] = true
		}
		return nil
	})
	return needed, err
}

// unnamedFiles removes the texts of flows that no run is left to name.
func (s *Store) unnamedFiles(ctx context.Context, tenant string, runs []*checkpoint.RunRecord, r *removal, c *Collection) error {
	gone := map[checkpoint.RunID]bool{}
	for _, run := range c.Runs {
		gone[run.ID] = true
	}
	named := map[sdk.Digest]bool{}
	for _, run := range runs {
		for _, f := range run.Files {
			name, err := s.vault.name(tenant, f.Digest)
			if err != nil {
				return err
			}
			named[name] = named[name] || !gone[run.ID]
		}
	}
	prefix := tenantPrefix(nil, tenant, kindFile)
	return s.scan(ctx, prefix, func(key, value []byte) error {
		var digest sdk.Digest
		name, _, ok := splitName(key[len(prefix):])
		if !ok || len(name) != len(digest) {
			return undecodable(key, checkpoint.ErrFormat)
		}
		copy(digest[:], name)
		if kept, known := named[digest]; !kept {
			if !known {
				c.Orphans++
				c.OrphanBytes += int64(len(value))
			}
			r.delete(key)
		}
		return nil
	})
}

// collectFiles removes the files of large outputs that nothing needs. The
// caller holds blobs.io; a commit since the records were chosen writes its file
// again afterwards.
func (s *Store) collectFiles(ctx context.Context, tenant string, needed map[sdk.Digest]bool, dryRun bool, c *Collection) error {
	freed := map[sdk.Digest]bool{}
	for _, r := range append(c.Records[:len(c.Records):len(c.Records)], c.Outputs...) {
		sums := []sdk.Digest{r.Data.SHA256}
		for _, b := range r.Blobs {
			sums = append(sums, b.Digest)
		}
		for _, sum := range sums {
			name, err := s.vault.name(tenant, sum)
			if err != nil {
				return err
			}
			freed[name] = true
		}
	}
	return s.blobs.each(tenant, func(f blobFile) error {
		if f.named && needed[f.sum] || ctx.Err() != nil {
			return nil
		}
		if !f.named || !freed[f.sum] {
			c.Orphans++
			c.OrphanBytes += f.size
		}
		c.FilesRemoved++
		if dryRun {
			return nil
		}
		return s.blobs.fs.Remove(f.path)
	})
}

// blobFile is one file below a tenant's blobs.
type blobFile struct {
	path, name string
	size       int64
	sum        sdk.Digest // its name: in an encrypted store not that of its text
	named      bool       // name is sum; false for what a crash has left unfinished
}

// each calls f with every file of a tenant's blobs.
func (b *blobs) each(tenant string, f func(blobFile) error) error {
	top := b.tenantDir(tenant)
	dirs, err := b.fs.List(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range dirs {
		dir := b.fs.PathJoin(top, d)
		names, err := b.fs.List(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			file := blobFile{path: b.fs.PathJoin(dir, name), name: name}
			sum, err := hex.DecodeString(name)
			file.named = err == nil && copy(file.sum[:], sum) == len(file.sum) && len(sum) == len(file.sum)
			info, err := b.fs.Stat(file.path)
			if err != nil {
				return err
			}
			file.size = info.Size()
			if err := f(file); err != nil {
				return err
			}
		}
	}
	return nil
}

package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Outputs above checkpoint.LargeData are files, named by their digest, at
// blobs/TENANT/aa/HEX; the database holds which record needs which. A file that
// has its name is whole and on disk: it is written and synced under another.
const (
	blobsDir = "blobs"
	newBlob  = ".new" // ends the name of a file that is being written
)

// maxPending is how much of large outputs may wait in memory for the disk
// before Commit waits too.
const maxPending = 64 << 20

// blobKey names a large output: equal ones of a tenant are one file.
type blobKey struct {
	tenant string
	sum    sdk.Digest
}

// blobEntry is what the database keeps of a large output, under the record that
// brought it.
type blobEntry struct {
	first checkpoint.Seq // of the batch, which a crash takes whole
	size  int64
	sum   sdk.Digest
}

func (e *blobEntry) append(dst []byte) []byte {
	dst = appendSeq(dst, e.first)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.size))
	return append(dst, e.sum[:]...)
}

func decodeBlobEntry(b []byte) (e blobEntry, ok bool) {
	if len(b) != 16+len(e.sum) {
		return e, false
	}
	e.first = checkpoint.Seq(binary.BigEndian.Uint64(b))
	e.size = int64(binary.BigEndian.Uint64(b[8:]))
	copy(e.sum[:], b[16:])
	return e, true
}

// blobs are the files. io is held while files are made or removed, so that one
// which is about to be shared is not collected.
type blobs struct {
	fs    vfs.FS
	dir   string
	vault *vault // nil if the files are kept as they are

	io    sync.Mutex
	ready map[string]bool // directories known to be on disk
}

// tenantDir is the directory of a tenant's blobs; a tenant may have any name.
func (b *blobs) tenantDir(tenant string) string {
	if len(tenant) > 64 || strings.Trim(tenant, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		sum := sha256.Sum256([]byte(tenant))
		tenant = "=" + hex.EncodeToString(sum[:16])
	}
	return b.fs.PathJoin(b.dir, blobsDir, tenant)
}

func (b *blobs) path(k blobKey) (dir, file string, err error) {
	sum, err := b.vault.name(k.tenant, k.sum)
	if err != nil {
		return "", "", err
	}
	name := hex.EncodeToString(sum[:])
	dir = b.fs.PathJoin(b.tenantDir(k.tenant), name[:2])
	return dir, b.fs.PathJoin(dir, name), nil
}

// place is what a sealed file is bound to: its tenant and its digest.
func (k blobKey) place() []byte { return append(appendName(nil, k.tenant), k.sum[:]...) }

// write makes the files durable. The caller takes care of the order.
func (b *blobs) write(list []pendingBlob) error {
	if len(list) == 0 {
		return nil
	}
	b.io.Lock()
	defer b.io.Unlock()
	var dirs []string
	for _, p := range list {
		dir, file, err := b.path(p.key)
		if err != nil {
			return err
		}
		if err := b.makeReady(dir); err != nil {
			return err
		}
		// A file that is there may be damaged, and its name may not be on disk
		// yet if another process made it.
		if b.verify(p.key, file, p.data) != nil {
			if err := b.writeFile(p.key, file, p.data); err != nil {
				return err
			}
		}
		dirs = append(dirs, dir)
	}
	for i, dir := range dirs {
		if i == 0 || dir != dirs[i-1] {
			if err := syncDir(b.fs, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeReady makes dir and syncs those above it, once for each: a process that
// was killed may have made them without a sync.
func (b *blobs) makeReady(dir string) error {
	if b.ready[dir] {
		return nil
	}
	if err := b.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for d := dir; d != b.dir; {
		d = b.fs.PathDir(d)
		if err := syncDir(b.fs, d); err != nil {
			return err
		}
	}
	b.ready[dir] = true
	return nil
}

func (b *blobs) writeFile(k blobKey, file string, data []byte) error {
	sealer, err := b.vault.sealer(k.tenant)
	if err != nil {
		return err
	}
	f, err := b.fs.Create(file+newBlob, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if sealer == nil {
		_, err = f.Write(data)
	} else {
		err = sealer.WriteFile(f, data, k.place())
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return b.fs.Rename(file+newBlob, file)
}

// verify reports whether the file holds data.
func (b *blobs) verify(k blobKey, file string, data []byte) error {
	f, err := b.fs.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := b.clear(k, f)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > len(data) || !bytes.Equal(buf[:n], data[:n]) {
			return checkpoint.ErrCorrupt
		}
		data = data[n:]
		if errors.Is(err, io.EOF) && len(data) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// clear reads the text of a file.
func (b *blobs) clear(k blobKey, f io.Reader) (io.Reader, error) {
	sealer, err := b.vault.sealer(k.tenant)
	if sealer == nil || err != nil {
		return f, err
	}
	return sealer.FileReader(f, k.place()), nil
}

// open opens the file of k and names it. One that is not there is ErrNotFound.
func (b *blobs) open(k blobKey) (f vfs.File, file string, err error) {
	if _, file, err = b.path(k); err != nil {
		return nil, "", err
	}
	f, err = b.fs.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("file %s: %w", file, checkpoint.ErrNotFound)
	}
	return f, file, err
}

// read gives the file's bytes, which must be what ref says. A file that is not
// there is ErrNotFound.
func (b *blobs) read(k blobKey, ref checkpoint.DataRef) (json.RawMessage, error) {
	f, file, err := b.open(k)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := ref.Size
	if b.vault != nil {
		size = checkpoint.SealedSize(size)
	}
	if info.Size() != size {
		return nil, fmt.Errorf("file %s: %d bytes, written were %d: %w", file, info.Size(), size, checkpoint.ErrCorrupt)
	}
	r, err := b.clear(k, f)
	if err != nil {
		return nil, err
	}
	data := make([]byte, ref.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("file %s: %w", file, err)
	}
	if err := ref.Verify(data); err != nil {
		return nil, fmt.Errorf("file %s: %w", file, err)
	}
	return data, nil
}

// pendingBlob is a large output whose record is committed and not durable yet.
type pendingBlob struct {
	key  blobKey
	data []byte
}

// pending are the large outputs that only memory holds. The store's mu guards
// it.
type pending struct {
	list  []pendingBlob
	byKey map[blobKey][]byte
	bytes int64
	limit int64 // of bytes, above which Commit waits
}

func (p *pending) add(k blobKey, data []byte) {
	if _, there := p.byKey[k]; there {
		return
	}
	p.list = append(p.list, pendingBlob{k, data})
	p.byKey[k] = data
	p.bytes += int64(len(data))
}

// done forgets the first n, which are files now.
func (p *pending) done(n int) {
	for _, b := range p.list[:n] {
		delete(p.byKey, b.key)
		p.bytes -= int64(len(b.data))
	}
	p.list = append([]pendingBlob(nil), p.list[n:]...)
}

// largeData reads a large output, from memory while no file holds it. ok is
// false if the record's data is not a file.
func (s *Store) largeData(tenant string, ref checkpoint.DataRef) (data json.RawMessage, ok bool, err error) {
	stored, err := s.get(appendSeq(tenantPrefix(nil, tenant, kindBlob), ref.Seq))
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	e, ok := decodeBlobEntry(stored)
	if !ok {
		return nil, true, fmt.Errorf("%w: the reference to its file cannot be read", checkpoint.ErrCorrupt)
	}
	k := blobKey{tenant, e.sum}
	s.mu.Lock()
	waiting, there := s.pending.byKey[k]
	s.mu.Unlock()
	if there {
		data := bytes.Clone(waiting)
		return data, true, ref.Verify(data)
	}
	data, err = s.blobs.read(k, ref)
	return data, true, err
}

package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Blobs of steps lie among the files of large outputs, and equal ones are one
// file. A file is kept for as long as the links of a record name it.

// maxUnfinished bounds blobs that are being made, together: they are in memory
// until their digest is known, which names and seals their file.
const maxUnfinished = 512 << 20

var errUnfinished = &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "blobs", Message: fmt.Sprintf("more than %d MiB of blobs are being made at once; run fewer such steps at a time", maxUnfinished>>20)}

func appendLinks(dst []byte, blobs []sdk.Blob) []byte {
	for _, b := range blobs {
		dst = append(dst, b.Digest[:]...)
	}
	return dst
}

func decodeLinks(b []byte) (ds []sdk.Digest, ok bool) {
	for len(b) >= len(sdk.Digest{}) {
		ds, b = append(ds, sdk.Digest(b)), b[len(sdk.Digest{}):]
	}
	return ds, len(b) == 0
}

// linked verifies that the blobs are there that the data of a record refers to.
func (s *Store) linked(tenant string, ref checkpoint.DataRef) error {
	stored, err := s.get(appendSeq(tenantPrefix(nil, tenant, kindLinks), ref.Seq))
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	links, ok := decodeLinks(stored)
	if !ok {
		return fmt.Errorf("%w: the references to blobs cannot be read", checkpoint.ErrCorrupt)
	}
	for _, d := range links {
		if _, err := s.blobs.whole(blobKey{tenant, d}); err != nil {
			return fmt.Errorf("blob %s: %w", d.Short(), err)
		}
	}
	return nil
}

// whole reads a file of which only the digest is known, and verifies it.
func (b *blobs) whole(k blobKey) ([]byte, error) {
	f, file, err := b.open(k)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := b.clear(k, f)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", file, err)
	}
	if sdk.Sum(data) != k.sum {
		return nil, fmt.Errorf("file %s: %w", file, checkpoint.ErrCorrupt)
	}
	return data, nil
}

// CreateBlob implements checkpoint.BlobStore.
func (s *Store) CreateBlob(ctx context.Context, tenant string) (w checkpoint.BlobWriter, err error) {
	err = s.read(ctx, "blob", func() error {
		if s.readOnly {
			return ErrReadOnly
		}
		if _, err := s.vault.ready(tenant); err != nil {
			return err
		}
		w = &blobWriter{store: s, tenant: tenant}
		return nil
	})
	return w, err
}

type blobWriter struct {
	store  *Store
	tenant string
	data   bytes.Buffer
}

func (w *blobWriter) Write(b []byte) (int, error) {
	if w.store.unfinished.Add(int64(len(b))) > maxUnfinished {
		w.store.unfinished.Add(-int64(len(b)))
		return 0, errUnfinished
	}
	return w.data.Write(b)
}

// Commit returns when the file is on disk: no record can name it before.
func (w *blobWriter) Commit() (d sdk.Digest, err error) {
	defer w.Discard()
	d = sdk.Sum(w.data.Bytes())
	err = w.store.read(context.Background(), "blob", func() error {
		if err := w.store.blobs.write([]pendingBlob{{blobKey{w.tenant, d}, w.data.Bytes()}}); err != nil {
			return err
		}
		return w.store.failure.cause()
	})
	return d, err
}

func (w *blobWriter) Discard() {
	w.store.unfinished.Add(-int64(w.data.Len()))
	w.data = bytes.Buffer{}
}

// OpenBlob implements checkpoint.BlobStore.
func (s *Store) OpenBlob(ctx context.Context, tenant string, digest sdk.Digest) (r io.ReadSeekCloser, err error) {
	err = s.read(ctx, "blob "+digest.Short(), func() error {
		data, err := s.blobs.whole(blobKey{tenant, digest})
		r = checkpoint.OpenBytes(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// HasBlob implements checkpoint.BlobStore.
func (s *Store) HasBlob(ctx context.Context, tenant string, digest sdk.Digest) (there bool, err error) {
	err = s.read(ctx, "blob "+digest.Short(), func() error {
		_, file, err := s.blobs.path(blobKey{tenant, digest})
		if err != nil {
			return err
		}
		_, err = s.blobs.fs.Stat(file)
		there = err == nil
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return there, err
}

package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/retrace-dev/engine/sdk"
)

// BlobStore keeps large data that steps make. It is part of every Store: a blob
// is kept for as long as the data of a record names it, and one that is gone
// makes that data as good as absent.
type BlobStore interface {
	// CreateBlob begins a blob. The caller commits or discards it.
	CreateBlob(ctx context.Context, tenant string) (BlobWriter, error)
	// OpenBlob reads a blob, verified. ErrNotFound, ErrCorrupt. The caller closes
	// it.
	OpenBlob(ctx context.Context, tenant string, digest sdk.Digest) (io.ReadSeekCloser, error)
	// HasBlob reports whether there is a blob, without reading it.
	HasBlob(ctx context.Context, tenant string, digest sdk.Digest) (bool, error)
}

// BlobWriter is a blob that is being made, by one goroutine at a time.
type BlobWriter interface {
	io.Writer
	// Commit makes what was written durable and returns its digest. Nothing
	// follows. Equal blobs of a tenant are kept once.
	Commit() (sdk.Digest, error)
	// Discard drops what was written. It may be called after Commit, which it
	// does not undo.
	Discard()
}

// Blobs lists the blobs that a value refers to, each once, in the order in which
// they appear. A reference is an object with the member "$blob"; the error is
// about one that is none, or sdk.CheckJSON's.
func Blobs(v json.RawMessage) ([]sdk.Blob, error) {
	if !MayReferToBlobs(v) {
		return nil, nil
	}
	if err := sdk.CheckJSON(v); err != nil {
		return nil, err
	}
	d := digester{b: v}
	d.value()
	for _, b := range d.blobs {
		if b.Digest.IsZero() || b.Size < 0 {
			return nil, fmt.Errorf(`an object with "$blob" is no reference to a blob; want {"$blob": "sha256:…", "size": N}`)
		}
	}
	return d.blobs, nil
}

// MayReferToBlobs is a quick look at a value: false says that it refers to no
// blob. Most do not.
func MayReferToBlobs(v json.RawMessage) bool {
	return bytes.Contains(v, []byte(`blob"`)) || bytes.Contains(v, []byte(`\u`))
}

// reference notes the blob that the object refers to; of an object that refers
// to none, one without a digest.
func (d *digester) reference(object []byte) {
	var b sdk.Blob
	if sdk.Unmarshal(object, &b) != nil {
		b = sdk.Blob{}
	}
	for _, have := range d.blobs {
		if have.Digest == b.Digest {
			return
		}
	}
	d.blobs = append(d.blobs, b)
}

// OpenBytes reads b, which must not change, as a blob.
func OpenBytes(b []byte) io.ReadSeekCloser { return openBytes{bytes.NewReader(b)} }

type openBytes struct{ *bytes.Reader }

func (openBytes) Close() error { return nil }

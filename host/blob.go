package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// blobs are those of a run: what steps make is in the store, and files of the
// flow that it names by fileblob are where the evaluator has read them.
type blobs struct {
	store  checkpoint.BlobStore
	tenant string
	files  func(sdk.Digest) []byte
}

var _ operation.Blobs = (*blobs)(nil)

func (s *session) blobs() *blobs {
	return &blobs{store: s.h.o.Store, tenant: s.h.o.Tenant, files: s.eval.FileBlob}
}

// Create begins a blob of a step.
func (b *blobs) Create(ctx context.Context) (operation.BlobWriter, error) {
	return b.store.CreateBlob(ctx, b.tenant)
}

// Open reads a blob, whoever made it.
func (b *blobs) Open(ctx context.Context, d sdk.Digest, offset int64) (io.ReadCloser, error) {
	var r io.ReadSeekCloser
	if file := b.files(d); file != nil {
		r = checkpoint.OpenBytes(file)
	} else {
		var err error
		if r, err = b.store.OpenBlob(ctx, b.tenant, d); err != nil {
			return nil, &sdk.Error{Class: sdk.ClassInternal, Code: "blob", Message: fmt.Sprintf("%v; run again, and the step that made it runs anew", err)}
		}
	}
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// keep makes sure that what an output refers to is kept with it. held reports
// what the attempt has put or received; nil: all is known to the flow.
func (b *blobs) keep(ctx context.Context, out json.RawMessage, held func(sdk.Digest) bool) *sdk.Error {
	refs, err := checkpoint.Blobs(out)
	if err != nil {
		return &sdk.Error{Class: sdk.ClassProtocol, Message: "output: " + err.Error()}
	}
	for _, ref := range refs {
		if held != nil && !held(ref.Digest) {
			return &sdk.Error{Class: sdk.ClassProtocol, Code: "blob", Message: fmt.Sprintf("the output refers to blob %s, which the step has neither put nor received", ref.Digest)}
		}
		if err := b.have(ctx, ref.Digest); err != nil {
			return sdk.AsError(err)
		}
	}
	return nil
}

// have puts a file of the flow into the store unless it is there.
func (b *blobs) have(ctx context.Context, d sdk.Digest) error {
	there, err := b.store.HasBlob(ctx, b.tenant, d)
	if there || err != nil {
		return err
	}
	file := b.files(d)
	if file == nil {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Code: "blob", Message: fmt.Sprintf("there is no blob %s in this store", d)}
	}
	w, err := b.store.CreateBlob(ctx, b.tenant)
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := w.Write(file); err != nil {
		return err
	}
	_, err = w.Commit()
	return err
}

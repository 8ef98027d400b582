package operation

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/retrace-dev/engine/sdk"
)

// Blobs keeps large data between steps. It is safe for concurrent use. Its
// errors end the attempt.
type Blobs interface {
	// Create begins a blob. The caller commits or discards it.
	Create(ctx context.Context) (BlobWriter, error)
	// Open reads a blob from offset on; reading past its end gives io.EOF. The
	// caller closes it.
	Open(ctx context.Context, digest sdk.Digest, offset int64) (io.ReadCloser, error)
}

// BlobWriter is a blob that is being made, by one goroutine at a time.
type BlobWriter interface {
	io.Writer
	// Commit keeps what was written and returns its digest. Nothing follows.
	Commit() (sdk.Digest, error)
	// Discard drops what was written. It may be called after Commit, which it
	// does not undo.
	Discard()
}

// blobs are those that an attempt may read, and those it is writing.
type blobs struct {
	last  int
	known map[sdk.Digest]int64 // size
	parts map[int]*blobPart
}

type blobPart struct {
	BlobWriter
	media string
	size  int64
}

// take gives up the unfinished ones.
func (b *blobs) take() map[int]*blobPart {
	parts := b.parts
	b.parts = nil
	return parts
}

func (b *blobs) know(d sdk.Digest, size int64) {
	if b.known == nil {
		b.known = map[sdk.Digest]int64{}
	}
	b.known[d] = size
}

// Holds reports whether the attempt has put or received the blob: a response may
// name no other.
func (h *Host) Holds(d sdk.Digest) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.blobs.known[d]
	return ok
}

var errNoBlobs = refusal{unsupported("this run keeps no blobs; pass less, or pass it as text")}

func blobPut(ctx context.Context, h *Host, head json.RawMessage, data []byte) (any, []byte, error) {
	if h.o.Blobs == nil {
		return nil, nil, errNoBlobs
	}
	op, e := read[sdk.BlobPutOp](head)
	if e != nil {
		return nil, nil, refusal{e}
	}
	p, err := h.part(ctx, &op)
	if err != nil {
		return nil, nil, err
	}
	if p.size += int64(len(data)); p.size > h.o.MaxBlob {
		p.Discard()
		return nil, nil, exhausted(CodeBlobTooLarge, "a blob of more than %d bytes", h.o.MaxBlob)
	}
	if _, err := p.Write(data); err != nil {
		p.Discard()
		return nil, nil, err
	}
	if op.More {
		id, err := h.keepPart(p)
		return sdk.BlobPart{Part: id}, nil, err
	}
	d, err := p.Commit()
	if err != nil {
		p.Discard()
		return nil, nil, err
	}
	h.mu.Lock()
	h.blobs.know(d, p.size)
	h.mu.Unlock()
	return sdk.Blob{Digest: d, Size: p.size, Type: p.media}, nil, nil
}

// part takes the unfinished blob that op goes on with, or begins one. Whoever
// holds it is alone with it.
func (h *Host) part(ctx context.Context, op *sdk.BlobPutOp) (*blobPart, error) {
	if op.Part == 0 {
		w, err := h.o.Blobs.Create(ctx)
		if err != nil {
			return nil, err
		}
		return &blobPart{BlobWriter: w, media: op.Type}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.blobs.parts[op.Part]
	if p == nil {
		return nil, refusal{invalid("", "there is no unfinished blob %d", op.Part)}
	}
	delete(h.blobs.parts, op.Part)
	return p, nil
}

// keepPart gives the unfinished blob the number under which it is gone on with.
func (h *Host) keepPart(p *blobPart) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		p.Discard()
		return 0, errOver
	case len(h.blobs.parts) >= h.o.MaxStreams:
		p.Discard()
		return 0, exhausted(CodeStreams, "more than %d blobs are unfinished at once", h.o.MaxStreams)
	case h.blobs.parts == nil:
		h.blobs.parts = map[int]*blobPart{}
	}
	h.blobs.last++
	h.blobs.parts[h.blobs.last] = p
	return h.blobs.last, nil
}

func blobGet(ctx context.Context, h *Host, head json.RawMessage, _ []byte) (any, []byte, error) {
	if h.o.Blobs == nil {
		return nil, nil, errNoBlobs
	}
	op, e := read[sdk.BlobGetOp](head)
	if e != nil {
		return nil, nil, refusal{e}
	}
	h.mu.Lock()
	size, ok := h.blobs.known[op.Digest]
	h.mu.Unlock()
	switch {
	case !ok:
		return nil, nil, refusal{invalid("", "blob %s was neither put nor received by this attempt", op.Digest)}
	case op.Offset < 0 || op.Offset > size:
		return nil, nil, refusal{invalid("", "offset %d of a blob of %d bytes", op.Offset, size)}
	}
	r, err := h.o.Blobs.Open(ctx, op.Digest, op.Offset)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	b := make([]byte, min(int64(chunk(op.Max)), size-op.Offset))
	if _, err := io.ReadFull(r, b); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return sdk.BlobSlice{EOF: op.Offset+int64(len(b)) == size}, b, nil
}

package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	last    int
	known   map[sdk.Digest]int64 // size
	parts   map[int]*blobPart
	reading *blobReader // the last one that was read, to go on with
}

type blobPart struct {
	BlobWriter
	media string
	size  int64           // as the attempt gave it
	kept  int64           // as it is kept
	mask  *RedactorStream // what is kept holds no secret
}

// write keeps more of the blob.
func (p *blobPart) write(data []byte, last bool) error {
	data = p.mask.Next(data, last)
	p.kept += int64(len(data))
	_, err := p.Write(data)
	return err
}

// blobReader is a blob that is being read from its beginning to its end, by one
// operation after the other.
type blobReader struct {
	io.ReadCloser
	digest sdk.Digest
	at     int64
}

// take gives up what is open.
func (b *blobs) take() (map[int]*blobPart, *blobReader) {
	parts, reading := b.parts, b.reading
	b.parts, b.reading = nil, nil
	return parts, reading
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
	if err := p.write(data, !op.More); err != nil {
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
	h.blobs.know(d, p.kept)
	h.mu.Unlock()
	return sdk.Blob{Digest: d, Size: p.kept, Type: p.media}, nil, nil
}

// part takes the unfinished blob that op goes on with, or begins one. Whoever
// holds it is alone with it.
func (h *Host) part(ctx context.Context, op *sdk.BlobPutOp) (*blobPart, error) {
	if op.Part == 0 {
		w, err := h.o.Blobs.Create(ctx)
		if err != nil {
			return nil, err
		}
		return &blobPart{BlobWriter: w, media: op.Type, mask: h.redactor.Stream()}, nil
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
	r, err := h.reader(ctx, op.Digest, op.Offset)
	if err != nil {
		return nil, nil, err
	}
	b := make([]byte, min(int64(chunk(op.Max)), size-op.Offset))
	if n, err := io.ReadFull(r, b); err != nil && !errors.Is(err, io.EOF) {
		_ = r.Close()
		return nil, nil, fmt.Errorf("blob %s: %d of %d bytes: %w", op.Digest, op.Offset+int64(n), size, err)
	}
	r.at += int64(len(b))
	h.keepReader(r, r.at == size)
	return sdk.BlobSlice{EOF: r.at == size}, b, nil
}

// reader is the blob from offset on: the one that was read up to there, if it is
// at hand. Whoever holds it is alone with it.
func (h *Host) reader(ctx context.Context, d sdk.Digest, offset int64) (*blobReader, error) {
	h.mu.Lock()
	r := h.blobs.reading
	h.blobs.reading = nil
	h.mu.Unlock()
	if r != nil && r.digest == d && r.at == offset {
		return r, nil
	}
	if r != nil {
		_ = r.Close()
	}
	f, err := h.o.Blobs.Open(ctx, d, offset)
	if err != nil {
		return nil, err
	}
	return &blobReader{ReadCloser: f, digest: d, at: offset}, nil
}

// keepReader puts r where the next operation finds it.
func (h *Host) keepReader(r *blobReader, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done || h.closed || h.blobs.reading != nil {
		_ = r.Close()
		return
	}
	h.blobs.reading = r
}

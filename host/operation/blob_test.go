package operation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// operate does one operation and reads the reply into ok.
func operate(t *testing.T, h *Host, op any, data []byte, ok any) ([]byte, error) {
	t.Helper()
	rep, body, err := sdk.Operate(t.Context(), h, op, data)
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(rep, ok)
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	var store MemoryBlobs
	h := New(Options{Blobs: &store})
	var ref sdk.Blob
	if _, err := operate(t, h, sdk.BlobPutOp{Op: sdk.OpBlobPut, Type: "image/png"}, []byte("a\x00中"), &ref); err != nil {
		t.Fatal(err)
	}
	if want := (sdk.Blob{Digest: sdk.Sum([]byte("a\x00中")), Size: 5, Type: "image/png"}); ref != want {
		t.Errorf("%+v, want %+v", ref, want)
	}
	if !h.Holds(ref.Digest) || h.Holds(sdk.Sum(nil)) {
		t.Error("the attempt does not know its own blobs")
	}
	for _, c := range []struct {
		offset int64
		most   int
		want   string
		eof    bool
	}{{0, 0, "a\x00中", true}, {0, 2, "a\x00", false}, {2, 99, "中", true}, {5, 1, "", true}} {
		var s sdk.BlobSlice
		b, err := operate(t, h, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest, Offset: c.offset, Max: c.most}, nil, &s)
		if err != nil || string(b) != c.want || s.EOF != c.eof {
			t.Errorf("from %d, %d bytes: %q, %v, %v", c.offset, c.most, b, s.EOF, err)
		}
	}
	var empty sdk.Blob
	if _, err := operate(t, h, sdk.BlobPutOp{Op: sdk.OpBlobPut}, nil, &empty); err != nil || empty.Size != 0 || empty.Digest != sdk.Sum(nil) {
		t.Errorf("an empty blob is %+v, %v", empty, err)
	}
	other := New(Options{Blobs: &store}) // of another attempt
	_, err := operate(t, other, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest}, nil, new(sdk.BlobSlice))
	wantError(t, err, sdk.ClassInvalidInput, "")
	_, err = operate(t, h, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest, Offset: 6}, nil, new(sdk.BlobSlice))
	wantError(t, err, sdk.ClassInvalidInput, "")
	received := New(Options{Blobs: &store, Received: []sdk.Blob{ref}})
	if b, err := operate(t, received, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest}, nil, new(sdk.BlobSlice)); err != nil || string(b) != "a\x00中" {
		t.Errorf("a blob of the input: %q, %v", b, err)
	}
}

func TestBlobInParts(t *testing.T) {
	t.Parallel()
	var store MemoryBlobs
	h := New(Options{Blobs: &store, MaxBlob: 10, MaxStreams: 2})
	var a, b sdk.BlobPart
	put := func(op sdk.BlobPutOp, data string, ok any) error {
		op.Op = sdk.OpBlobPut
		_, err := operate(t, h, op, []byte(data), ok)
		return err
	}
	if err := errors.Join(put(sdk.BlobPutOp{Type: "t", More: true}, "one", &a), put(sdk.BlobPutOp{More: true}, "x", &b), put(sdk.BlobPutOp{Part: a.Part, More: true}, "two", &a)); err != nil {
		t.Fatal(err)
	}
	var ref sdk.Blob
	if err := put(sdk.BlobPutOp{Part: a.Part}, "six", &ref); err != nil || ref.Digest != sdk.Sum([]byte("onetwosix")) || ref.Type != "t" {
		t.Errorf("%+v, %v", ref, err)
	}
	wantError(t, put(sdk.BlobPutOp{Part: a.Part}, "", &ref), sdk.ClassInvalidInput, "")
	wantError(t, put(sdk.BlobPutOp{Part: b.Part}, "0123456789", &ref), sdk.ClassResourceExhausted, CodeBlobTooLarge)
	if err := errors.Join(put(sdk.BlobPutOp{More: true}, "", &a), put(sdk.BlobPutOp{More: true}, "", &a)); err != nil {
		t.Fatal(err)
	}
	wantError(t, put(sdk.BlobPutOp{More: true}, "", &a), sdk.ClassResourceExhausted, CodeStreams)
	h.Close()
	if n := store.Unfinished(); n != 0 {
		t.Errorf("%d blobs are left unfinished", n)
	}
}

func TestWithoutBlobs(t *testing.T) {
	t.Parallel()
	for _, op := range []any{sdk.BlobPutOp{Op: sdk.OpBlobPut}, sdk.BlobGetOp{Op: sdk.OpBlobGet}} {
		_, err := operate(t, New(Options{}), op, nil, new(sdk.Blob))
		wantError(t, err, sdk.ClassInvalidInput, sdk.CodeUnsupportedOp)
	}
}

// TestBlobsHoldNoSecret: what a step puts is searched like what it answers, across
// its pieces too.
func TestBlobsHoldNoSecret(t *testing.T) {
	t.Parallel()
	var store MemoryBlobs
	var r *Redactor
	h := New(Options{Blobs: &store, Grants: Grants{Redactor: r.With("token", "s3cr3t-v4lue")}})
	var part sdk.BlobPart
	if _, err := operate(t, h, sdk.BlobPutOp{Op: sdk.OpBlobPut, More: true}, []byte("a s3cr3t-"), &part); err != nil {
		t.Fatal(err)
	}
	var ref sdk.Blob
	if _, err := operate(t, h, sdk.BlobPutOp{Op: sdk.OpBlobPut, Part: part.Part}, []byte("v4lue b"), &ref); err != nil {
		t.Fatal(err)
	}
	b, err := operate(t, h, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest}, nil, new(sdk.BlobSlice))
	if want := "a (secret token) b"; err != nil || string(b) != want || ref.Size != int64(len(want)) {
		t.Errorf("%q of %d bytes, %v", b, ref.Size, err)
	}
}

// TestBlobReadInOrder: a blob that is read to its end is opened once, and is closed
// with the attempt at the latest.
func TestBlobReadInOrder(t *testing.T) {
	t.Parallel()
	store := counting{MemoryBlobs: &MemoryBlobs{}}
	h := New(Options{Blobs: &store})
	var ref sdk.Blob
	if _, err := operate(t, h, sdk.BlobPutOp{Op: sdk.OpBlobPut}, []byte("0123456789"), &ref); err != nil {
		t.Fatal(err)
	}
	get := func(offset int64) {
		t.Helper()
		if b, err := operate(t, h, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: ref.Digest, Offset: offset, Max: 4}, nil, new(sdk.BlobSlice)); err != nil || string(b) != "0123456789"[offset:min(offset+4, 10)] {
			t.Errorf("from %d: %q, %v", offset, b, err)
		}
	}
	for _, offset := range []int64{0, 4, 8} {
		get(offset)
	}
	if store.opened != 1 || store.closed != 1 {
		t.Errorf("opened %d times, closed %d times", store.opened, store.closed)
	}
	get(4)
	get(0)
	h.Close()
	if store.opened != 3 || store.closed != 3 {
		t.Errorf("opened %d times, closed %d times", store.opened, store.closed)
	}
}

type counting struct {
	*MemoryBlobs
	opened, closed int
}

func (c *counting) Open(ctx context.Context, d sdk.Digest, offset int64) (io.ReadCloser, error) {
	c.opened++
	r, err := c.MemoryBlobs.Open(ctx, d, offset)
	return countedClose{r, c}, err
}

type countedClose struct {
	io.ReadCloser
	c *counting
}

func (r countedClose) Close() error {
	r.c.closed++
	return r.ReadCloser.Close()
}

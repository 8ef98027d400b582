package operation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// nowhere keeps no blobs, however large.
type nowhere struct{}

func (nowhere) Create(context.Context) (BlobWriter, error) { return nowhere{}, nil }
func (nowhere) Open(context.Context, sdk.Digest, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Commit() (sdk.Digest, error) { return sdk.Sum(nil), nil }
func (nowhere) Discard()                    {}

// TestDefaultLimits: what is documented holds for who sets nothing, to the byte.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			return
		}
		var more int64
		_, _ = fmt.Sscan(r.URL.Query().Get("more"), &more)
		_, _ = io.CopyN(rw, zeros{}, DefaultMaxReply+more)
	})
	own := func(o *Options) { o.Blobs = nowhere{} }
	exceeds := func(t *testing.T, err error, code string, limit int64) {
		t.Helper()
		wantError(t, err, sdk.ClassResourceExhausted, code)
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(limit)) {
			t.Errorf("%v does not name %d", err, limit)
		}
	}
	t.Run("http reply", func(t *testing.T) {
		t.Parallel()
		_, body, err := sdk.HTTP(t.Context(), w.host(t, own), sdk.HTTPOp{URL: w.URL + "/?more=0"}, nil)
		if err != nil || len(body) != 16<<20 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		_, _, err = sdk.HTTP(t.Context(), w.host(t, own), sdk.HTTPOp{URL: w.URL + "/?more=1"}, nil)
		exceeds(t, err, CodeReplyTooLarge, 16<<20)
	})
	t.Run("blob", func(t *testing.T) {
		t.Parallel()
		h := w.host(t, own)
		piece := make([]byte, 8<<20)
		put := func(op sdk.BlobPutOp, data []byte) (part sdk.BlobPart, err error) {
			op.Op = sdk.OpBlobPut
			_, err = operate(t, h, op, data, &part)
			return part, err
		}
		part, err := put(sdk.BlobPutOp{More: true}, piece)
		for k := 1; k < (256<<20)/len(piece) && err == nil; k++ {
			part, err = put(sdk.BlobPutOp{Part: part.Part, More: true}, piece)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = put(sdk.BlobPutOp{Part: part.Part}, piece[:1])
		exceeds(t, err, CodeBlobTooLarge, 256<<20)
	})
	t.Run("message", func(t *testing.T) {
		t.Parallel()
		h := w.host(t, own)
		if _, err := h.Call(t.Context(), make([]byte, 16<<20)); err != nil {
			t.Error(err) // it is no operation, which is a reply
		}
		_, err := h.Call(t.Context(), make([]byte, 16<<20+1))
		exceeds(t, err, CodeMessageTooLarge, 16<<20)
	})
	t.Run("host calls", func(t *testing.T) {
		t.Parallel()
		h := w.host(t, own)
		for range 10_000 {
			if _, err := h.Call(t.Context(), []byte(`{"op":"emit","chunk":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := h.Call(t.Context(), []byte(`{"op":"emit","chunk":"x"}`))
		exceeds(t, err, CodeHostCalls, 10_000)
	})
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		h := w.host(t, own)
		for range 8 {
			if _, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL + "/small", Stream: true}, nil); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL + "/small", Stream: true}, nil)
		exceeds(t, err, CodeStreams, 8)
	})
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

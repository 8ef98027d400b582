package operation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// next reads a stream once.
func next(t *testing.T, h *Host, id, most int) (string, bool, error) {
	t.Helper()
	ok, b, err := sdk.Operate(t.Context(), h, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: id, Max: most}, nil)
	if err != nil {
		return "", false, err
	}
	var r sdk.StreamReply
	if err := json.Unmarshal(ok, &r); err != nil || b == nil {
		t.Fatalf("%s, %q, %v", ok, b, err)
	}
	return string(b), r.EOF, nil
}

func begin(t *testing.T, h *Host, url string) (int, error) {
	t.Helper()
	rep, body, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: url, Stream: true, Secrets: []sdk.HeaderSecret{{Header: "X-Key", Name: "key"}}}, nil)
	if err != nil {
		return 0, err
	}
	if rep.Stream == 0 || body != nil {
		t.Errorf("%+v, %q", rep, body)
	}
	return rep.Stream, nil
}

func TestStreamGivesWhatHasCome(t *testing.T) {
	t.Parallel()
	more := make(chan string)
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		for s := range more {
			_, _ = io.WriteString(rw, strings.ReplaceAll(s, "KEY", r.Header.Get("X-Key")))
			rw.(http.Flusher).Flush()
		}
	})
	h := w.host(t)
	go func() { more <- "data: 1\n\n" }()
	id, err := begin(t, h, w.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ send, want string }{{"", "data: 1\n\n"}, {"中文\x00", "中文\x00"}, {"key=KEY.", "key=(secret key)."}} {
		if c.send != "" {
			more <- c.send
		}
		for got := ""; got != c.want; {
			b, eof, err := next(t, h, id, 5)
			if got += b; err != nil || eof || !strings.HasPrefix(c.want, got) {
				t.Fatalf("got %q, %v, %v, want %q", got, eof, err, c.want)
			}
		}
	}
	close(more)
	if b, eof, err := next(t, h, id, 0); b != "" || !eof || err != nil {
		t.Errorf("the end is %q, %v, %v", b, eof, err)
	}
	if _, _, err := next(t, h, id, 0); sdk.AsError(err).Class != sdk.ClassInvalidInput {
		t.Errorf("after the end: %v", err)
	}
}

func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWeb(t, drip)
	h := w.host(t, func(o *Options) { o.MaxStreams = 2 })
	first, err := begin(t, h, w.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begin(t, h, w.URL); err != nil {
		t.Fatal(err)
	}
	for range 2 { // closing twice is harmless
		if _, _, err := sdk.Operate(t.Context(), h, sdk.StreamCloseOp{Op: sdk.OpStreamClose, Stream: first}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := begin(t, h, w.URL); err != nil {
		t.Errorf("a closed stream still counts: %v", err)
	}
	_, err = begin(t, h, w.URL)
	wantError(t, err, sdk.ClassResourceExhausted, CodeStreams)
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	w := newWeb(t, drip) // hangs until its client is gone, and the server waits for it
	h := w.host(t)
	id, err := begin(t, h, w.URL)
	if err != nil {
		t.Fatal(err)
	}
	reading := make(chan error)
	go func() {
		for {
			if _, _, err := next(t, h, id, 0); err != nil {
				reading <- err
				return
			}
		}
	}()
	h.Close()
	h.Close()
	if err := <-reading; err == nil {
		t.Error("the read went on")
	}
	if _, err := h.Call(t.Context(), []byte(`{"op":"emit","chunk":"x"}`)); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Errorf("a call after Close gives %v", err)
	}
}

func TestCancelEndsAStreamThatIsRead(t *testing.T) {
	t.Parallel()
	w := newWeb(t, drip)
	h := w.host(t)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	rep, _, err := sdk.HTTP(ctx, h, sdk.HTTPOp{URL: w.URL, Stream: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, b, err := sdk.Operate(ctx, h, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: rep.Stream}, nil)
		if err != nil {
			if !errors.Is(err, gone) {
				t.Errorf("%v", err)
			}
			return
		}
		if string(b) == "first" {
			cancel(gone)
		}
	}
}

func TestStreamThatBreaks(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "first")
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	h := w.host(t)
	id, err := begin(t, h, w.URL)
	for err == nil {
		_, _, err = next(t, h, id, 0)
	}
	wantError(t, err, sdk.ClassUnavailable, codeBroken)
}

package operation

import (
	"net/http"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

// TestPatience: a step may wait for the head of a reply and for each piece of a
// stream for less time than for all of it.
func TestPatience(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		_, _ = rw.Write([]byte("one"))
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	_, _, err := sdk.HTTP(t.Context(), w.host(t), sdk.HTTPOp{URL: w.URL + "/silent", HeadTimeoutMS: 20, TimeoutMS: 3_600_000, Stream: true}, nil)
	wantError(t, err, sdk.ClassTimeout, codeHeadTimeout)

	h := w.host(t)
	rep, _, err := sdk.HTTP(t.Context(), h, sdk.HTTPOp{URL: w.URL + "/begins", HeadTimeoutMS: 3_600_000, Stream: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: rep.Stream, TimeoutMS: 3_600_000}
	if _, b, err := sdk.Operate(t.Context(), h, read, nil); err != nil || string(b) != "one" {
		t.Fatalf("%q, %v", b, err)
	}
	read.TimeoutMS = 20
	msg, err := sdk.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := h.Call(t.Context(), msg)
	if err != nil {
		t.Fatalf("the attempt ends, where the step should be told: %v", err)
	}
	var told sdk.Reply
	if err := sdk.Unmarshal(reply, &told); err != nil {
		t.Fatal(err)
	}
	wantError(t, told.Error, sdk.ClassTimeout, codeIdleTimeout)
	_, _, err = sdk.Operate(t.Context(), h, read, nil)
	wantError(t, err, sdk.ClassInvalidInput, "") // it is closed
}

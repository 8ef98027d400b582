package operation

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/retrace-dev/engine/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOperationsReachTheSink(t *testing.T) {
	t.Parallel()
	var rec Recorder
	h := New(Options{Sink: &rec})
	for _, msg := range []string{
		`{"op":"log","level":"warn","message":"中文 🏴 עברית","fields":{"n":12345678901234567890}}`,
		`{"op":"log","message":"no level"}`,
		`{"op":"progress","fraction":7,"message":"done"}`,
		`{"op":"emit","chunk":"a\u0000b"}`,
		`{"op":"usage","model":"m","input_tokens":3}`,
	} {
		if rep, err := h.Call(t.Context(), []byte(msg)); err != nil || string(rep) != `{"ok":{}}` {
			t.Errorf("%s: %s, %v", msg, rep, err)
		}
	}
	want := []string{
		`log warn "中文 🏴 עברית" map[n:12345678901234567890]`,
		`log info "no level" map[]`,
		`progress 1 "done"`,
		`emit "a\x00b"`,
		`usage {Model:m Calls:0 Counted:0 InputTokens:3 OutputTokens:0 CachedTokens:0 CacheWriteTokens:0}`,
	}
	if d := cmp.Diff(want, rec.Lines()); d != "" {
		t.Error(d)
	}
}

func TestRefusalsAreReplies(t *testing.T) {
	t.Parallel()
	for msg, want := range map[string]string{
		`{"op":"http","url":"x"}`:     sdk.CodeUnsupportedOp,
		`{"op":"teleport"}`:           sdk.CodeUnsupportedOp,
		`{}`:                          sdk.CodeUnsupportedOp,
		``:                            "unexpected end",
		`{"op":"log","op":"emit"}`:    "duplicate key",
		`{"op":"log","level":"loud"}`: "want debug",
		`{"op":"emit","chunk":5}`:     "cannot unmarshal",
		"{\"op\":\"emit\",\"chunk\":\"a\"}\x00raw":         "takes no raw bytes",
		`{"op":"usage","input_tokens":-1}`:                 "negative",
		`{"op":"respond","response":{"output":1,"x":[}}`:   "unexpected",
		`{"op":"respond","response":{}}`:                   "neither output nor error",
		`{"op":"progress","fraction":"half","message":""}`: "cannot unmarshal",
	} {
		h := New(Options{})
		rep, err := h.Call(t.Context(), []byte(msg))
		var r sdk.Reply
		if err != nil || json.Unmarshal(rep, &r) != nil || r.Error == nil || !strings.Contains(r.Error.Error(), want) {
			t.Errorf("%q: %s, %v, want %q", msg, rep, err, want)
		}
	}
}

func TestUsageAddsUpAndOutlivesTheAttempt(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				_, _, _ = sdk.Operate(ctx, h, sdk.UsageOp{Op: sdk.OpUsage, Usage: sdk.Usage{Model: "m", InputTokens: 1, OutputTokens: 2}}, nil)
			}
		})
	}
	wg.Wait()
	_, _, _ = sdk.Operate(ctx, h, sdk.UsageOp{Op: sdk.OpUsage, Usage: sdk.Usage{Model: "n", CachedTokens: math.MaxInt64}}, nil)
	_, _, _ = sdk.Operate(ctx, h, sdk.UsageOp{Op: sdk.OpUsage, Usage: sdk.Usage{Model: "n", CachedTokens: 1}}, nil)
	gone := errors.New("gone")
	cancel(gone)
	if _, err := h.Call(ctx, []byte(`{"op":"usage","input_tokens":1}`)); !errors.Is(err, gone) {
		t.Errorf("a call after the end gives %v", err)
	}
	want := []sdk.Usage{{Model: "m", InputTokens: 80, OutputTokens: 160}, {Model: "n", CachedTokens: math.MaxInt64}}
	if d := cmp.Diff(want, h.Usage()); d != "" {
		t.Error(d)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var rec Recorder
	h := New(Options{Sink: &rec, MaxCalls: 3, MaxLogs: 2, MaxMessage: 64})
	for range 5 { // log lines are dropped, and do not use up calls
		if _, err := h.Call(t.Context(), []byte(`{"op":"log","message":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := h.Call(t.Context(), []byte(`{"op":"unknown"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Call(t.Context(), []byte(`{"op":"emit","chunk":"x"}`)); sdk.AsError(err).Code != CodeHostCalls {
		t.Errorf("the fourth call gives %v", err)
	}
	if _, err := h.Call(t.Context(), make([]byte, 65)); sdk.AsError(err).Code != CodeMessageTooLarge {
		t.Errorf("a long message gives %v", err)
	}
	want := []string{`log info "x" map[]`, `log info "x" map[]`, `log warn "the step logged more than 2 lines; the rest is dropped" map[]`}
	if d := cmp.Diff(want, rec.Lines()); d != "" {
		t.Error(d)
	}
}

func TestRespond(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	if h.Response() != nil {
		t.Error("a response before there is one")
	}
	for _, out := range []string{"1", "2"} {
		if _, _, err := sdk.Operate(t.Context(), h, sdk.RespondOp{Op: sdk.OpRespond, Response: sdk.Response{Output: json.RawMessage(out)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.Response(); r == nil || string(r.Output) != "2" {
		t.Errorf("%+v", r)
	}
}

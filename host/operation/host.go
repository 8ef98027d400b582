package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// Defaults of Options.
const (
	DefaultMaxCalls   = 10_000
	DefaultMaxMessage = 16 << 20
	DefaultMaxLogs    = 10_000
)

// Codes of the errors that end an attempt.
const (
	CodeHostCalls       = "host_calls"
	CodeMessageTooLarge = "message_too_large"
)

// Sink receives what a step reports while it runs. Its methods are called from
// the goroutine that called Host.Call, one at a time, and should not block: a
// slow watcher loses chunks, never the step. Text is the step's own, untrusted,
// and valid UTF-8; escaping control characters is the view's duty.
type Sink interface {
	// Log is one line; level is debug, info, warn or error.
	Log(level, message string, fields map[string]any)
	// Progress tells how far the attempt is, from 0 to 1.
	Progress(fraction float64, message string)
	// Emit is a piece of output while it is made.
	Emit(chunk string)
	// Usage is what one model call consumed, as it was reported.
	Usage(u sdk.Usage)
}

// Options of New. The zero value reports to nobody under the default limits.
type Options struct {
	Sink       Sink  // nil drops everything but usage
	MaxCalls   int   // operations other than log. Defaults to 10,000
	MaxMessage int64 // bytes of one message. Defaults to 16 MiB
	MaxLogs    int   // log lines; later ones are dropped. Defaults to 10,000
}

func (o *Options) setDefaults() {
	if o.Sink == nil {
		o.Sink = discard{}
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = DefaultMaxCalls
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.MaxLogs <= 0 {
		o.MaxLogs = DefaultMaxLogs
	}
}

// Host is the sdk.Host of one attempt. It is safe for concurrent use.
type Host struct {
	o Options

	mu       sync.Mutex
	calls    int
	logs     int
	usage    []sdk.Usage
	response *sdk.Response
}

var _ sdk.Host = (*Host)(nil)

// New makes the Host of one attempt.
func New(o Options) *Host {
	o.setDefaults()
	return &Host{o: o}
}

// Usage returns what the attempt reported so far, one entry per model, in the
// order in which the models first appeared. It may be called at any time, also
// after the attempt has failed.
func (h *Host) Usage() []sdk.Usage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sdk.Usage(nil), h.usage...)
}

// Response returns what the step gave with the last respond operation, or nil.
// Carriers take respond for themselves; it reaches a Host only from a step that
// runs in the host's own process.
func (h *Host) Response() *sdk.Response {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.response
}

// Call does one operation. Its error is context.Cause(ctx), or an *sdk.Error of
// ClassResourceExhausted when a limit ends the attempt.
func (h *Host) Call(ctx context.Context, msg []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if int64(len(msg)) > h.o.MaxMessage {
		return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: CodeMessageTooLarge,
			Message: fmt.Sprintf("operation message of %d bytes, the limit is %d; send less at a time", len(msg), h.o.MaxMessage)}
	}
	head, data := sdk.Split(msg)
	var op struct {
		Op string `json:"op"`
	}
	readErr := sdk.Unmarshal(head, &op)

	h.mu.Lock()
	defer h.mu.Unlock()
	if op.Op != sdk.OpLog {
		if h.calls++; h.calls > h.o.MaxCalls {
			return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: CodeHostCalls,
				Message: fmt.Sprintf("the attempt made more than %d host operations", h.o.MaxCalls)}
		}
	}
	if readErr != nil {
		return reply(&sdk.Error{Class: sdk.ClassProtocol, Message: "operation message: " + readErr.Error()})
	}
	do, known := operations[op.Op]
	if !known {
		return reply(unsupported(op.Op))
	}
	if data != nil {
		return reply(&sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("operation %s takes no raw bytes, got %d", op.Op, len(data))})
	}
	return reply(do(h, head))
}

func unsupported(op string) *sdk.Error {
	e := &sdk.Error{Class: sdk.ClassInvalidInput, Code: sdk.CodeUnsupportedOp, Message: fmt.Sprintf("this engine has no operation %q", op)}
	if op == "http" {
		e.Message = "this engine gives steps no network; operation http is not available"
	}
	return e
}

func reply(e *sdk.Error) ([]byte, error) {
	if e == nil {
		return []byte(`{"ok":{}}`), nil
	}
	return sdk.Marshal(sdk.Reply{Error: e})
}

// operations run with the lock held.
var operations = map[string]func(*Host, json.RawMessage) *sdk.Error{
	sdk.OpLog:      (*Host).log,
	sdk.OpProgress: (*Host).progress,
	sdk.OpEmit:     (*Host).emit,
	sdk.OpUsage:    (*Host).addUsage,
	sdk.OpRespond:  (*Host).respond,
}

func read[T any](head json.RawMessage) (op T, e *sdk.Error) {
	if err := sdk.Unmarshal(head, &op); err != nil {
		return op, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "operation message: " + err.Error()}
	}
	return op, nil
}

func (h *Host) log(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.LogOp](head)
	if e != nil {
		return e
	}
	switch op.Level {
	case "":
		op.Level = "info"
	case "debug", "info", "warn", "error":
	default:
		return &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/level", Message: fmt.Sprintf("log level %q: want debug, info, warn or error", op.Level)}
	}
	h.logs++
	switch {
	case h.logs <= h.o.MaxLogs:
		h.o.Sink.Log(op.Level, op.Message, op.Fields)
	case h.logs == h.o.MaxLogs+1:
		h.o.Sink.Log("warn", fmt.Sprintf("the step logged more than %d lines; the rest is dropped", h.o.MaxLogs), nil)
	}
	return nil
}

func (h *Host) progress(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.ProgressOp](head)
	if e != nil {
		return e
	}
	h.o.Sink.Progress(min(max(op.Fraction, 0), 1), op.Message)
	return nil
}

func (h *Host) emit(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.EmitOp](head)
	if e != nil {
		return e
	}
	h.o.Sink.Emit(op.Chunk)
	return nil
}

func (h *Host) addUsage(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.UsageOp](head)
	if e != nil {
		return e
	}
	if err := op.Usage.Check(); err != nil {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Message: err.Error()}
	}
	h.usage = Add(h.usage, op.Usage)
	h.o.Sink.Usage(op.Usage)
	return nil
}

// Add adds u to the entry of its model, or appends it. Counts stay at the
// largest int64 instead of wrapping around.
func Add(usage []sdk.Usage, u sdk.Usage) []sdk.Usage {
	for i := range usage {
		if t := &usage[i]; t.Model == u.Model {
			t.InputTokens = sum(t.InputTokens, u.InputTokens)
			t.OutputTokens = sum(t.OutputTokens, u.OutputTokens)
			t.CachedTokens = sum(t.CachedTokens, u.CachedTokens)
			return usage
		}
	}
	return append(usage, u)
}

func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (h *Host) respond(head json.RawMessage) *sdk.Error {
	r, err := sdk.ParseRespond(head)
	if err != nil {
		return sdk.AsError(err)
	}
	h.response = r
	return nil
}

type discard struct{}

func (discard) Log(string, string, map[string]any) {}
func (discard) Progress(float64, string)           {}
func (discard) Emit(string)                        {}
func (discard) Usage(sdk.Usage)                    {}

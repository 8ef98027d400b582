package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// Defaults of Options.
const (
	DefaultMaxCalls   = 10_000
	DefaultMaxMessage = 16 << 20
	DefaultMaxLogs    = 10_000
	DefaultMaxReply   = 16 << 20
	DefaultMaxStreams = 8
	DefaultMaxBlob    = 256 << 20
)

// Codes of the errors that end an attempt: a limit is no reply that a step
// could go on from.
const (
	CodeHostCalls       = "host_calls"
	CodeMessageTooLarge = "message_too_large"
	CodeReplyTooLarge   = "reply_too_large"
	CodeStreams         = "streams"
	CodeBlobTooLarge    = "blob_too_large"
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

// Options of New. The zero value reports to nobody, reaches nothing, and has the
// default limits.
type Options struct {
	Sink    Sink     // nil drops everything but usage
	Network *Network // what http goes through; nil answers http with unsupported_op
	Grants  Grants   // what http may reach and inject
	Blobs   Blobs    // where blobs are kept; nil answers the blob operations with unsupported_op
	// Received are the blobs that the request names; blob_get opens them and those
	// that the attempt has put.
	Received []sdk.Blob

	MaxCalls   int   // operations other than log. Defaults to 10,000
	MaxMessage int64 // bytes of one message. Defaults to 16 MiB
	MaxLogs    int   // log lines; later ones are dropped. Defaults to 10,000
	MaxReply   int64 // bytes of one http body, unpacked; not of streams. Defaults to 16 MiB
	MaxStreams int   // streams open at once. Defaults to 8
	MaxBlob    int64 // bytes of one blob, and of one stream. Defaults to 256 MiB
}

func (o *Options) setDefaults() {
	if o.Sink == nil {
		o.Sink = discard{}
	}
	def(&o.MaxCalls, DefaultMaxCalls)
	def(&o.MaxMessage, DefaultMaxMessage)
	def(&o.MaxLogs, DefaultMaxLogs)
	def(&o.MaxReply, DefaultMaxReply)
	def(&o.MaxStreams, DefaultMaxStreams)
	def(&o.MaxBlob, DefaultMaxBlob)
}

func def[N int | int64](n *N, value N) {
	if *n <= 0 {
		*n = value
	}
}

// Host is the sdk.Host of one attempt. It is safe for concurrent use.
type Host struct {
	o        Options
	redactor *Redactor

	mu       sync.Mutex
	calls    int
	logs     int
	usage    []sdk.Usage
	response *sdk.Response
	told     []*sdk.Error // refusals in the host's own words, see Own
	closed   bool
	streams  streams
	blobs    blobs
}

var _ sdk.Host = (*Host)(nil)

// New makes the Host of one attempt. Close it when the attempt has ended.
func New(o Options) *Host {
	o.setDefaults()
	h := &Host{o: o, redactor: o.Grants.redactor()}
	for _, b := range o.Received {
		h.blobs.know(b.Digest, b.Size)
	}
	return h
}

// Close ends what the attempt has left open: streams and unfinished blobs.
// Later calls are answered as if the attempt were over. It is idempotent.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	streams := h.streams.take()
	parts, reading := h.blobs.take()
	h.mu.Unlock()
	if reading != nil {
		_ = reading.Close()
	}
	for _, s := range streams {
		s.end()
	}
	for _, p := range parts {
		p.Discard()
	}
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
		return nil, exhausted(CodeMessageTooLarge, "operation message of %d bytes, the limit is %d; send less at a time", len(msg), h.o.MaxMessage)
	}
	head, data := sdk.Split(msg)
	var op struct {
		Op string `json:"op"`
	}
	readErr := sdk.Unmarshal(head, &op)
	if err := h.count(op.Op); err != nil {
		return nil, err
	}
	if readErr != nil {
		return refuse(&sdk.Error{Class: sdk.ClassProtocol, Message: "operation message: " + readErr.Error()})
	}
	do, known := operations[op.Op]
	switch {
	case !known:
		return refuse(unsupported("this engine has no operation %q", op.Op))
	case data != nil && !do.data:
		return refuse(invalid("", "operation %s takes no raw bytes, got %d", op.Op, len(data)))
	case do.report != nil:
		h.mu.Lock()
		defer h.mu.Unlock()
		if e := do.report(h, head); e != nil {
			return refuse(e)
		}
		return []byte(`{"ok":{}}`), nil
	}
	ok, body, err := do.act(ctx, h, head, data)
	return h.answer(ctx, ok, body, err)
}

// Own gives a step's error its class back if it is what this Host told the step:
// a step may not speak of the sandbox itself, but it may pass on what it heard.
// Any other error is returned as it is.
func (h *Host) Own(e *sdk.Error) *sdk.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Class != sdk.ClassInternal {
		return e
	}
	for _, t := range h.told {
		if e.Code == t.Code && strings.HasSuffix(e.Message, t.Message) {
			own := *e
			own.Class, own.Message = t.Class, t.Message
			return &own
		}
	}
	return e
}

// remember keeps a refusal that is of a class of the host's alone.
func (h *Host) remember(e *sdk.Error) {
	if e.Class.FromStep() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = 16
	if len(h.told) < most {
		h.told = append(h.told, e)
	}
}

// count ends an attempt that asks without end.
func (h *Host) count(op string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errOver
	}
	if op != sdk.OpLog {
		if h.calls++; h.calls > h.o.MaxCalls {
			return exhausted(CodeHostCalls, "the attempt made more than %d host operations", h.o.MaxCalls)
		}
	}
	return nil
}

// operation is one row of the table: a report is done with the lock held and
// answers {}, an act takes the lock itself where it needs it.
type operation struct {
	data   bool // raw bytes may follow the message
	report func(h *Host, head json.RawMessage) *sdk.Error
	act    func(ctx context.Context, h *Host, head json.RawMessage, data []byte) (ok any, body []byte, err error)
}

var operations = map[string]operation{
	sdk.OpLog:      {report: (*Host).log},
	sdk.OpProgress: {report: (*Host).progress},
	sdk.OpEmit:     {report: (*Host).emit},
	sdk.OpUsage:    {report: (*Host).addUsage},
	sdk.OpRespond:  {report: (*Host).respond},

	sdk.OpHTTP:        {act: httpRequest, data: true},
	sdk.OpStreamRead:  {act: streamRead},
	sdk.OpStreamClose: {act: streamClose},
	sdk.OpBlobPut:     {act: blobPut, data: true},
	sdk.OpBlobGet:     {act: blobGet},
}

// errOver answers calls of an attempt that has ended.
var errOver = &sdk.Error{Class: sdk.ClassCancelled, Message: "the attempt is over"}

// refusal is an error that the step is told of; any other error of an operation
// ends the attempt.
type refusal struct{ told *sdk.Error }

func (r refusal) Error() string { return r.told.Error() }

// answer makes the reply of an act. body is nil where no raw bytes belong.
func (h *Host) answer(ctx context.Context, ok any, body []byte, err error) ([]byte, error) {
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var r refusal
		if errors.As(err, &r) {
			h.remember(r.told)
			return refuse(r.told)
		}
		return nil, err
	}
	text, err := sdk.Marshal(ok)
	if err != nil {
		return nil, err
	}
	head := append(append([]byte(`{"ok":`), text...), '}')
	return sdk.Join(head, body), nil
}

func refuse(e *sdk.Error) ([]byte, error) { return sdk.Marshal(sdk.Reply{Error: e}) }

func unsupported(format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Code: sdk.CodeUnsupportedOp, Message: fmt.Sprintf(format, args...)}
}

func invalid(path, format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: fmt.Sprintf(format, args...)}
}

func exhausted(code, format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: code, Message: fmt.Sprintf(format, args...)}
}

func read[T any](head json.RawMessage) (op T, e *sdk.Error) {
	if err := sdk.Unmarshal(head, &op); err != nil {
		return op, invalid("", "operation message: %v", err)
	}
	return op, nil
}

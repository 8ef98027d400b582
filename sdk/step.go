package sdk

import (
	"context"
	"encoding/json"
)

// Version is the version of the messages in this package, sent as Request.V.
const Version = 1

// Step is one unit of work. Run is called once per attempt, possibly from
// several goroutines at once when the manifest says the plugin is concurrent;
// an implementation keeps no state between calls that could change an answer.
//
// Run returns either a response or an error. An *Error anywhere in the
// error's chain keeps its class; any other error is ClassInternal. When ctx
// ends, Run returns soon, with context.Cause(ctx). The request belongs to the
// step for the duration of the call; the response belongs to the caller.
type Step interface {
	Run(ctx context.Context, req *Request, host Host) (*Response, error)
}

// StepFunc lets a function be a Step.
type StepFunc func(ctx context.Context, req *Request, host Host) (*Response, error)

// Run calls f.
func (f StepFunc) Run(ctx context.Context, req *Request, host Host) (*Response, error) {
	return f(ctx, req, host)
}

// Host is a step's only door to the world. It is valid for one attempt and
// safe for concurrent use.
//
// Call sends one operation message (see Op) and returns the reply message.
// An operation that is refused or fails is a reply holding an error, not a Go
// error; a Go error means that the attempt is over and the step should return.
// The host keeps neither slice.
type Host interface {
	Call(ctx context.Context, msg []byte) ([]byte, error)
}

// Request is what a step receives for one attempt.
type Request struct {
	V              int             `json:"v"`
	StepType       string          `json:"step_type"`
	Workflow       string          `json:"workflow"`
	Run            string          `json:"run"`
	Step           string          `json:"step"`               // address, such as "step.summarize"
	Instance       string          `json:"instance,omitempty"` // for_each key, "" without for_each
	Attempt        int             `json:"attempt"`            // counts from 1
	IdempotencyKey string          `json:"idempotency_key"`    // equal on every attempt for the same input
	DeadlineMS     int64           `json:"deadline_ms"`        // milliseconds left, 0 = none
	TraceParent    string          `json:"traceparent,omitempty"`
	Engine         string          `json:"engine"` // version of the engine
	Input          json.RawMessage `json:"input"`  // an object
	Config         json.RawMessage `json:"config"` // an object, the plugin's configuration
}

// Response is what a step answers: an Output, or an Error, never both.
type Response struct {
	Output   json.RawMessage `json:"output,omitempty"` // any JSON value
	Error    *Error          `json:"error,omitempty"`
	Usage    []Usage         `json:"usage,omitempty"`
	Warnings []Warning       `json:"warnings,omitempty"`
	Context  json.RawMessage `json:"context,omitempty"` // an object of at most MaxContext bytes; explains, is never an input
}

// MaxContext is the largest Response.Context, in bytes.
const MaxContext = 16 << 10

// Usage is what calls of one model consumed. A step reports a call when it is
// sent and its tokens when they are known: of Calls, those beyond Counted have
// used what nobody knows, not nothing.
type Usage struct {
	Model            string `json:"model,omitempty"`              // as it was asked for
	Calls            int64  `json:"calls,omitempty"`              // requests that were sent
	Counted          int64  `json:"counted,omitempty"`            // of Calls, those whose tokens are in the counts below
	InputTokens      int64  `json:"input_tokens,omitempty"`       // all that was read, CachedTokens and CacheWriteTokens included
	OutputTokens     int64  `json:"output_tokens,omitempty"`      // all that was written, what was thought included
	CachedTokens     int64  `json:"cached_tokens,omitempty"`      // read from a cache of the provider
	CacheWriteTokens int64  `json:"cache_write_tokens,omitempty"` // put into one
}

// Warning is something the reader of the run should know; it changes nothing.
type Warning struct {
	Message string `json:"message"`
	Path    string `json:"path,omitempty"` // JSON Pointer into the input
}

// Output makes a response of any value that encoding/json can encode. HTML
// characters are not escaped.
func Output(v any) (*Response, error) {
	b, err := Marshal(v)
	if err != nil {
		return nil, &Error{Class: ClassInternal, Message: "output cannot be encoded: " + err.Error()}
	}
	return &Response{Output: b}, nil
}

// Func makes a Step of a function on Go values: the input is decoded into I
// (a mismatch is ClassInvalidInput with the path), the result becomes the
// output.
func Func[I, O any](f func(ctx context.Context, in I, host Host) (O, error)) Step {
	return StepFunc(func(ctx context.Context, req *Request, host Host) (*Response, error) {
		var in I
		if err := Unmarshal(req.Input, &in); err != nil {
			return nil, inputError(err)
		}
		out, err := f(ctx, in, host)
		if err != nil {
			return nil, err
		}
		return Output(out)
	})
}

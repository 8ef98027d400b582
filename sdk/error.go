package sdk

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// Class says what kind of failure an error is. The scheduler decides by class
// alone; nothing parses messages.
type Class string

// The classes. Those a step may return itself are marked; the others are the
// host's words.
const (
	ClassTimeout           Class = "timeout"       // step
	ClassUnavailable       Class = "unavailable"   // step
	ClassRateLimited       Class = "rate_limited"  // step
	ClassQuota             Class = "quota"         // step
	ClassUnauthorized      Class = "unauthorized"  // step
	ClassAPIError          Class = "api_error"     // step
	ClassValidation        Class = "validation"    // step
	ClassTruncated         Class = "truncated"     // step
	ClassRefused           Class = "refused"       // step
	ClassInvalidInput      Class = "invalid_input" // step
	ClassProtocol          Class = "protocol"
	ClassResourceExhausted Class = "resource_exhausted"
	ClassSandbox           Class = "sandbox"
	ClassPluginCrash       Class = "plugin_crash"
	ClassInternal          Class = "internal" // step
	ClassCancelled         Class = "cancelled"
)

type classTraits struct{ step, deterministic, retryDefault bool }

var classes = map[Class]classTraits{
	ClassTimeout:           {step: true, retryDefault: true},
	ClassUnavailable:       {step: true, retryDefault: true},
	ClassRateLimited:       {step: true, retryDefault: true},
	ClassQuota:             {step: true},
	ClassUnauthorized:      {step: true},
	ClassAPIError:          {step: true, retryDefault: true},
	ClassValidation:        {step: true},
	ClassTruncated:         {step: true},
	ClassRefused:           {step: true, deterministic: true},
	ClassInvalidInput:      {step: true, deterministic: true},
	ClassProtocol:          {deterministic: true},
	ClassResourceExhausted: {deterministic: true},
	ClassSandbox:           {deterministic: true},
	ClassPluginCrash:       {retryDefault: true},
	ClassInternal:          {step: true},
	ClassCancelled:         {deterministic: true},
}

var classOrder = []Class{ClassTimeout, ClassUnavailable, ClassRateLimited, ClassQuota, ClassUnauthorized,
	ClassAPIError, ClassValidation, ClassTruncated, ClassRefused, ClassInvalidInput, ClassProtocol,
	ClassResourceExhausted, ClassSandbox, ClassPluginCrash, ClassInternal, ClassCancelled}

// Classes lists every class, in the order of the documentation.
func Classes() []Class { return append([]Class(nil), classOrder...) }

// Valid reports whether c is one of the classes.
func (c Class) Valid() bool { _, ok := classes[c]; return ok }

// FromStep reports whether a step may return c itself.
func (c Class) FromStep() bool { return classes[c].step }

// Deterministic reports whether trying again cannot help, so that a retry
// block must not name c.
func (c Class) Deterministic() bool { return classes[c].deterministic }

// RetriedByDefault reports whether a retry block without "on" covers c.
func (c Class) RetriedByDefault() bool { return classes[c].retryDefault }

// Error is a step's failure as data: it crosses every carrier as fields.
type Error struct {
	Class        Class           `json:"class"`
	Code         string          `json:"code,omitempty"`           // free, for people and for flows: "context_length"
	Message      string          `json:"message,omitempty"`        // for people
	Path         string          `json:"path,omitempty"`           // JSON Pointer into the input
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"` // a floor under the retry delay
	Details      json.RawMessage `json:"details,omitempty"`
	Stderr       string          `json:"stderr,omitempty"` // the last lines the step wrote to stderr; set by the carrier, ignored in a step's own response
}

// Error returns "class/code: message".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Class))
	if e.Code != "" {
		b.WriteByte('/')
		b.WriteString(e.Code)
	}
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// RetryAfter is RetryAfterMS as a duration; negative values count as 0.
func (e *Error) RetryAfter() time.Duration {
	return time.Duration(max(e.RetryAfterMS, 0)) * time.Millisecond
}

// AsError finds the *Error in err's chain; any other error becomes
// ClassInternal with its text. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: ClassInternal, Message: err.Error()}
}

// Normalize returns the response's error as a host may act on it: an unknown
// class, or one that only the host may use, becomes ClassInternal with the
// given class in the message.
func (e *Error) Normalize() *Error {
	n := *e
	n.Stderr = ""
	if !n.Class.FromStep() {
		n.Message = strings.TrimSuffix("class "+string(n.Class)+" is not a step's to return: "+n.Message, ": ")
		n.Class = ClassInternal
	}
	return &n
}

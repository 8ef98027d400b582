package sdk

import (
	"context"
	"errors"
)

// Ended returns why ctx ended, as an attempt reports it: an *Error that is the
// cause, ClassTimeout after a deadline, else ClassCancelled with the cause's
// text. It must be called only when ctx.Err() is not nil.
func Ended(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	var e *Error
	switch {
	case errors.As(cause, &e):
		own := *e
		return &own
	case errors.Is(cause, context.DeadlineExceeded):
		return &Error{Class: ClassTimeout, Message: "the attempt's deadline has passed"}
	case cause == context.Canceled:
		return &Error{Class: ClassCancelled, Message: "the attempt was cancelled"}
	}
	return &Error{Class: ClassCancelled, Message: cause.Error()}
}

package sdk

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestEnded(t *testing.T) {
	t.Parallel()
	past, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	why, cancelWhy := context.WithCancelCause(t.Context())
	cancelWhy(errors.New("fail fast"))
	own, cancelOwn := context.WithCancelCause(t.Context())
	cancelOwn(&Error{Class: ClassTimeout, Code: "run"})
	for ctx, want := range map[context.Context]string{
		past: "timeout: the attempt's deadline has passed", plain: "cancelled: the attempt was cancelled", why: "cancelled: fail fast", own: "timeout/run",
	} {
		if got := Ended(ctx).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

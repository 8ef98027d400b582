package operation

import (
	"net/http"
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

func TestStatusClasses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]sdk.Class{
		200: "", 204: "", 304: "", 301: sdk.ClassAPIError, 400: sdk.ClassInvalidInput, 401: sdk.ClassUnauthorized, 402: sdk.ClassQuota, 403: sdk.ClassUnauthorized,
		404: sdk.ClassInvalidInput, 408: sdk.ClassTimeout, 409: sdk.ClassAPIError, 413: sdk.ClassInvalidInput, 422: sdk.ClassInvalidInput, 425: sdk.ClassUnavailable,
		429: sdk.ClassRateLimited, 500: sdk.ClassAPIError, 502: sdk.ClassUnavailable, 503: sdk.ClassUnavailable, 504: sdk.ClassTimeout, 529: sdk.ClassUnavailable, 599: sdk.ClassAPIError,
	} {
		if got := classOf(status); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
	for status, c := range statusClasses {
		if !c.FromStep() {
			t.Errorf("%d is %q, which a step cannot return", status, c)
		}
	}
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	in := func(d time.Duration, layout string) string { return now.Add(d).Format(layout) }
	for _, c := range []struct {
		name, value, date string
		want              time.Duration
	}{
		{"Retry-After", "3", "", 3 * time.Second},
		{"Retry-After", " 1.5 ", "", 1500 * time.Millisecond},
		{"Retry-After", "0", "", 0},
		{"Retry-After", "-5", "", 0},
		{"Retry-After", "NaN", "", 0},
		{"Retry-After", "1e300", "", maxRetryAfter},
		{"Retry-After", "soon", "", 0},
		{"Retry-After", "", "", 0},
		{"Retry-After", in(time.Minute, http.TimeFormat), "", time.Minute},
		{"Retry-After", in(time.Minute, time.RFC850), "", time.Minute},
		{"Retry-After", in(time.Minute, time.ANSIC), "", time.Minute},
		{"Retry-After", in(-time.Minute, http.TimeFormat), "", 0},
		{"Retry-After", in(time.Hour, http.TimeFormat), in(time.Hour-time.Second, http.TimeFormat), time.Second}, // a server whose clock is fast
		{"Retry-After", in(9000*time.Hour, http.TimeFormat), "", maxRetryAfter},
		{"Retry-After-Ms", "250", "", 250 * time.Millisecond},
		{"X-Ms-Retry-After-Ms", "250", "", 250 * time.Millisecond},
	} {
		h := http.Header{c.name: {c.value}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.name, c.value, got, c.want)
		}
	}
	if got := retryAfter(http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"100"}}, now); got != 100*time.Millisecond {
		t.Errorf("the finer header does not win: %s", got)
	}
}

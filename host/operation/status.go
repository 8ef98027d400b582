package operation

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// statusClasses is the one table that says what a failing status means to a
// run. What is not in it is api_error from 500 on and for redirects, else
// invalid_input.
var statusClasses = map[int]sdk.Class{
	http.StatusUnauthorized:      sdk.ClassUnauthorized,
	http.StatusPaymentRequired:   sdk.ClassQuota,
	http.StatusForbidden:         sdk.ClassUnauthorized,
	http.StatusProxyAuthRequired: sdk.ClassUnauthorized,
	http.StatusRequestTimeout:    sdk.ClassTimeout,
	http.StatusConflict:          sdk.ClassAPIError, // with another request: it may pass
	http.StatusLocked:            sdk.ClassUnavailable,
	http.StatusFailedDependency:  sdk.ClassAPIError,
	http.StatusTooEarly:          sdk.ClassUnavailable,
	http.StatusTooManyRequests:   sdk.ClassRateLimited,

	http.StatusBadGateway:          sdk.ClassUnavailable,
	http.StatusServiceUnavailable:  sdk.ClassUnavailable,
	http.StatusGatewayTimeout:      sdk.ClassTimeout,
	http.StatusInsufficientStorage: sdk.ClassQuota,
	520:                            sdk.ClassUnavailable, // Cloudflare's, as far as 524
	521:                            sdk.ClassUnavailable,
	522:                            sdk.ClassUnavailable,
	523:                            sdk.ClassUnavailable,
	524:                            sdk.ClassTimeout,
	529:                            sdk.ClassUnavailable, // "overloaded" of model servers
}

// classOf is what a status stands for, "" if it does not fail.
func classOf(status int) sdk.Class {
	if c, ok := statusClasses[status]; ok {
		return c
	}
	switch {
	case status < 300 || status == http.StatusNotModified:
		return ""
	case status < 400 || status >= 500:
		return sdk.ClassAPIError
	}
	return sdk.ClassInvalidInput
}

// maxRetryAfter bounds what a server can make a run wait for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads how long a server asks to be left alone: retry-after-ms and
// x-ms-retry-after-ms (milliseconds), else Retry-After as seconds, which may
// have a fraction, or as a date in any of HTTP's three forms. A date counts from
// the server's own Date, so that clocks need not agree. What cannot be read, or
// has passed, is 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := number(h.Get(name), time.Millisecond); ok {
			return d
		}
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := number(text, time.Second); ok {
		return d
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func number(text string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f != f {
		return 0, false
	}
	return time.Duration(min(max(f, 0)*float64(unit), float64(maxRetryAfter))), true
}

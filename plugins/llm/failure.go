package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// complaint is what servers write about a failure. OpenAI has code and type,
// Anthropic a type, Gemini a status and a numeric code; some write a string.
type complaint struct {
	Code    any    `json:"code"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Details []struct {
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	} `json:"details"`
	RetryAfter json.Number `json:"retry_after"` // seconds
}

// meaning is the class and the code of a word that servers use.
type meaning struct {
	class sdk.Class
	code  string
}

// meanings of what is said in code, type or status. sure says that the word
// tells more than the HTTP status beside it.
var meanings = map[string]struct {
	meaning
	sure bool
}{
	// OpenAI and those who speak like it.
	"insufficient_quota":           {meaning{sdk.ClassQuota, "insufficient_quota"}, true},
	"billing_hard_limit_reached":   {meaning{sdk.ClassQuota, "insufficient_quota"}, true},
	"billing_not_active":           {meaning{sdk.ClassQuota, "insufficient_quota"}, true},
	"rate_limit_exceeded":          {meaning{sdk.ClassRateLimited, "rate_limit"}, true},
	"context_length_exceeded":      {meaning{sdk.ClassInvalidInput, "context_length"}, true},
	"exceed_context_size_error":    {meaning{sdk.ClassInvalidInput, "context_length"}, true}, // llama.cpp
	"string_above_max_length":      {meaning{sdk.ClassInvalidInput, "context_length"}, true},
	"content_filter":               {meaning{sdk.ClassRefused, "content_filter"}, true}, // Azure
	"content_policy_violation":     {meaning{sdk.ClassRefused, "content_filter"}, true},
	"ResponsibleAIPolicyViolation": {meaning{sdk.ClassRefused, "content_filter"}, true},
	"invalid_api_key":              {meaning{sdk.ClassUnauthorized, "token"}, true},
	"model_not_found":              {meaning{sdk.ClassInvalidInput, "model_not_found"}, true},
	"server_error":                 {meaning{sdk.ClassAPIError, "server_error"}, false},
	"unavailable_error":            {meaning{sdk.ClassUnavailable, "loading"}, false}, // llama.cpp, while it loads
	// Anthropic.
	"overloaded_error":      {meaning{sdk.ClassUnavailable, "overloaded"}, true},
	"rate_limit_error":      {meaning{sdk.ClassRateLimited, "rate_limit"}, true},
	"billing_error":         {meaning{sdk.ClassQuota, "billing"}, true},
	"authentication_error":  {meaning{sdk.ClassUnauthorized, "token"}, true},
	"permission_error":      {meaning{sdk.ClassUnauthorized, "permission"}, false},
	"not_found_error":       {meaning{sdk.ClassInvalidInput, "not_found"}, false},
	"request_too_large":     {meaning{sdk.ClassInvalidInput, "request_too_large"}, false},
	"timeout_error":         {meaning{sdk.ClassTimeout, "server_timeout"}, false},
	"api_error":             {meaning{sdk.ClassAPIError, "server_error"}, false},
	"invalid_request_error": {meaning{sdk.ClassInvalidInput, "request"}, false},
	// Gemini.
	"API_KEY_INVALID":     {meaning{sdk.ClassUnauthorized, "token"}, true}, // with status 400
	"RESOURCE_EXHAUSTED":  {meaning{sdk.ClassRateLimited, "rate_limit"}, false},
	"UNAVAILABLE":         {meaning{sdk.ClassUnavailable, "overloaded"}, false},
	"DEADLINE_EXCEEDED":   {meaning{sdk.ClassTimeout, "server_timeout"}, false},
	"INTERNAL":            {meaning{sdk.ClassAPIError, "server_error"}, false},
	"UNAUTHENTICATED":     {meaning{sdk.ClassUnauthorized, "token"}, false},
	"PERMISSION_DENIED":   {meaning{sdk.ClassUnauthorized, "permission"}, false},
	"INVALID_ARGUMENT":    {meaning{sdk.ClassInvalidInput, "request"}, false},
	"FAILED_PRECONDITION": {meaning{sdk.ClassInvalidInput, "request"}, false},
	"NOT_FOUND":           {meaning{sdk.ClassInvalidInput, "not_found"}, false},
}

// tooLong is how servers without a code for it say that the prompt does not fit.
var tooLong = regexp.MustCompile(`(?i)context_length_exceeded|maximum context length|context size|context window|prompt is too long|exceeds the maximum number of tokens|input token count`)

// noCredit is Anthropic's way to say, with status 400, that nothing is paid for.
var noCredit = regexp.MustCompile(`(?i)credit balance is too low`)

// meaning finds the word that says most; sure: more than an HTTP status.
func (f *complaint) meaning() (m meaning, sure bool) {
	code, _ := f.Code.(string)
	said := []string{code, f.Type, f.Status}
	for _, d := range f.Details {
		said = append(said, d.Reason)
		for _, v := range d.Violations {
			if strings.Contains(v.QuotaID, "PerDay") {
				return meaning{sdk.ClassQuota, "insufficient_quota"}, true
			}
		}
	}
	for _, word := range said {
		known := meanings[word]
		switch {
		case known.sure:
			return known.meaning, true
		case m.class == "":
			m = known.meaning
		}
	}
	switch {
	case m.class != "" && m.class != sdk.ClassInvalidInput:
	case tooLong.MatchString(f.Message):
		return meaning{sdk.ClassInvalidInput, "context_length"}, true
	case noCredit.MatchString(f.Message):
		return meaning{sdk.ClassQuota, "billing"}, true
	}
	return m, false
}

// readComplaint finds what a body says about a failure; nothing is not a mistake.
func readComplaint(body []byte) (f complaint) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &outer) != nil {
		var list []json.RawMessage // Gemini without SSE
		if json.Unmarshal(body, &list) != nil || len(list) == 0 || json.Unmarshal(list[0], &outer) != nil {
			return f
		}
	}
	if json.Unmarshal(outer.Error, &f) != nil {
		f = complaint{}
		_ = json.Unmarshal(outer.Error, &f.Message) // a string, or nothing that can be used
	}
	first(&f.Message, outer.Message)
	return f
}

// failed is a failing status as an error; nil if it does not fail. The body may
// say more than the status: that a 429 is not too fast but not paid for.
func failed(rep *sdk.HTTPReply, body []byte) *sdk.Error {
	e := rep.Err(body)
	if e == nil {
		return nil
	}
	f := readComplaint(body)
	m, sure := f.meaning()
	switch {
	case sure:
		e.Class, e.Code = m.class, m.code
	case m.class == e.Class:
		e.Code = m.code
	}
	if f.Message != "" {
		e.Message = fmt.Sprintf("the server answered %d: %s", rep.Status, f.Message)
	}
	if e.RetryAfterMS == 0 {
		e.RetryAfterMS = f.retryAfter().Milliseconds()
	}
	e.Details = details{Status: rep.Status, RequestID: requestID(rep)}.encode()
	return e
}

// told is a failure that comes in place of an answer, with a status that says
// all is well.
func told(body []byte) *sdk.Error {
	f := readComplaint(body)
	m, _ := f.meaning()
	if m.class == "" {
		m = meaning{sdk.ClassAPIError, "server_error"}
	}
	if f.Message == "" {
		f.Message = strings.TrimPrefix(sdk.Seen(body), "; saw ")
	}
	return &sdk.Error{Class: m.class, Code: m.code, Message: "the server broke off: " + f.Message, RetryAfterMS: f.retryAfter().Milliseconds()}
}

// strange is a reply with a good status that is not of the dialect: the login
// page of a network, the front page of a proxy.
func strange(body []byte, why error) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassAPIError, Code: "not_the_api", Message: fmt.Sprintf("the reply is not what this api says: %v%s; check base_url and api", why, sdk.Seen(body))}
}

// tryAgain finds "try again in 1m2.5s" and "retry after 20 seconds" in a message.
var tryAgain = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) (?:((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)|(\d+(?:\.\d+)?) ?sec)`)

// maxRetryAfter bounds what a server can make a run wait for.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long a body asks to be left alone; what cannot be read is 0.
func (f *complaint) retryAfter() time.Duration {
	for _, d := range f.Details {
		if d.RetryDelay != "" {
			return wait(d.RetryDelay)
		}
	}
	if f.RetryAfter != "" {
		return wait(f.RetryAfter.String() + "s")
	}
	if m := tryAgain.FindStringSubmatch(f.Message); m != nil {
		if m[1] != "" {
			return wait(m[1])
		}
		return wait(m[2] + "s")
	}
	return 0
}

func wait(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return min(max(d, 0), maxRetryAfter)
}

// requestID is how the server's own people find the request.
func requestID(rep *sdk.HTTPReply) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Goog-Request-Id"} {
		if id := rep.Header(name); id != "" {
			return id
		}
	}
	return ""
}

package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Failure is a failing status, in the words of the three dialects.
type Failure struct {
	Status            int
	Type, Code        string // OpenAI's
	Anthropic, Gemini string // type; status
	Message           string
	Reason            string // of Gemini's ErrorInfo
	PerDay            bool   // Gemini: the quota that is used up is that of a day
}

// Failures are further words. A suffix says in which form the client is asked to
// wait: ":seconds", ":fraction", ":date", ":ms", ":body", ":message" or
// ":garbage".
var Failures = map[string]Failure{
	"400":         {Status: 400, Type: "invalid_request_error", Anthropic: "invalid_request_error", Gemini: "INVALID_ARGUMENT", Message: "no such parameter"},
	"401":         {Status: 401, Type: "invalid_request_error", Code: "invalid_api_key", Anthropic: "authentication_error", Gemini: "UNAUTHENTICATED", Message: "no such key"},
	"402":         {Status: 402, Type: "billing_error", Anthropic: "billing_error", Gemini: "FAILED_PRECONDITION", Message: "pay first"},
	"403":         {Status: 403, Type: "invalid_request_error", Code: "unsupported_country", Anthropic: "permission_error", Gemini: "PERMISSION_DENIED", Message: "not for you"},
	"404":         {Status: 404, Type: "invalid_request_error", Code: "model_not_found", Anthropic: "not_found_error", Gemini: "NOT_FOUND", Message: "no such model"},
	"408":         {Status: 408, Type: "timeout", Anthropic: "timeout_error", Gemini: "DEADLINE_EXCEEDED", Message: "you are too slow"},
	"409":         {Status: 409, Type: "conflict", Anthropic: "invalid_request_error", Gemini: "ABORTED", Message: "another request holds it"},
	"413":         {Status: 413, Type: "invalid_request_error", Anthropic: "request_too_large", Gemini: "INVALID_ARGUMENT", Message: "too many bytes"},
	"429":         {Status: 429, Type: "requests", Code: "rate_limit_exceeded", Anthropic: "rate_limit_error", Gemini: "RESOURCE_EXHAUSTED", Message: "too fast"},
	"500":         {Status: 500, Type: "server_error", Anthropic: "api_error", Gemini: "INTERNAL", Message: "something broke"},
	"502":         {Status: 502, Type: "server_error", Anthropic: "api_error", Gemini: "UNAVAILABLE", Message: "bad gateway"},
	"503":         {Status: 503, Type: "server_error", Anthropic: "api_error", Gemini: "UNAVAILABLE", Message: "come back later"},
	"504":         {Status: 504, Type: "server_error", Anthropic: "timeout_error", Gemini: "DEADLINE_EXCEEDED", Message: "the model is too slow"},
	"529":         {Status: 529, Type: "server_error", Anthropic: "overloaded_error", Gemini: "UNAVAILABLE", Message: "Overloaded"},
	"overloaded":  {Status: 529, Type: "overloaded_error", Anthropic: "overloaded_error", Gemini: "UNAVAILABLE", Message: "Overloaded"},
	"quota":       {Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Anthropic: "billing_error", Gemini: "RESOURCE_EXHAUSTED", Message: "you have used what you paid for", PerDay: true},
	"context":     {Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Anthropic: "invalid_request_error", Gemini: "INVALID_ARGUMENT", Message: "prompt is too long: the maximum context length is 240 tokens"},
	"badkey":      {Status: 400, Type: "invalid_request_error", Code: "invalid_api_key", Anthropic: "authentication_error", Gemini: "INVALID_ARGUMENT", Message: "API key not valid", Reason: "API_KEY_INVALID"},
	"nocredit":    {Status: 400, Type: "invalid_request_error", Code: "billing_not_active", Anthropic: "invalid_request_error", Gemini: "FAILED_PRECONDITION", Message: "Your credit balance is too low to access the API"},
	"unavailable": {Status: 503, Type: "unavailable_error", Anthropic: "api_error", Gemini: "UNAVAILABLE", Message: "Loading model"},
}

// fail answers with a failing status and asks to wait in the given form.
func (c *call) fail(f *Failure, wait string) {
	h := c.w.Header()
	body := c.d.failure(f)
	switch wait {
	case "seconds":
		h.Set("Retry-After", "7")
	case "fraction":
		h.Set("Retry-After", "0.25")
	case "date":
		h.Set("Retry-After", inAMinute())
	case "ms":
		h.Set("Retry-After-Ms", "150")
	case "garbage":
		h.Set("Retry-After", "when it suits you")
	case "body":
		delay(body, f)
	case "message":
		told := *f
		told.Message += ". Please try again in 1.5s."
		body = c.d.failure(&told)
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Request-Id", "req_fault")
	c.w.WriteHeader(f.Status)
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	_, _ = c.w.Write(b)
}

// delay puts the wait into the body: Gemini's RetryInfo, a field elsewhere.
func delay(body any, f *Failure) {
	m, ok := body.(object)["error"].(object)
	if !ok {
		panic(fmt.Sprintf("%d has no error", f.Status))
	}
	if list, ok := m["details"].([]any); ok {
		m["details"] = append(list, object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"})
		return
	}
	m["retry_after"] = 2.5
}

type object map[string]any

func (openAI) failure(f *Failure) any {
	var code any
	if f.Code != "" {
		code = f.Code
	}
	return object{"error": object{"message": f.Message, "type": f.Type, "param": nil, "code": code}}
}

func (anthropic) failure(f *Failure) any {
	return object{"type": "error", "request_id": "req_fault", "error": object{"type": f.Anthropic, "message": f.Message}}
}

func (gemini) failure(f *Failure) any {
	details := []any{}
	if f.Reason != "" {
		details = append(details, object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": f.Reason, "domain": "googleapis.com"})
	}
	if f.PerDay {
		details = append(details, object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{object{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}}})
	}
	status := f.Status
	if status == 529 {
		status = http.StatusServiceUnavailable // Gemini has no 529
	}
	return object{"error": object{"code": status, "message": f.Message, "status": f.Gemini, "details": details}}
}

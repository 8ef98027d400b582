package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/plugins/llm/fault"
	"github.com/retrace-dev/engine/sdk"
)

// watcher keeps what a step emits.
type watcher struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *watcher) Emit(chunk string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.WriteString(chunk)
}
func (*watcher) Log(string, string, map[string]any) {}
func (*watcher) Progress(float64, string)           {}
func (*watcher) Usage(sdk.Usage)                    {}

// asked is what became of one attempt.
type asked struct {
	*sdk.Response
	usage    []sdk.Usage
	emitted  string
	requests []fault.Request
}

// details are those of its error.
func (a *asked) details(t *testing.T) (d details) {
	t.Helper()
	if len(a.Error.Details) > 0 {
		if err := json.Unmarshal(a.Error.Details, &d); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// attempt runs one attempt of a step through the host's own operations, against
// a server of its own.
func attempt(t *testing.T, step sdk.StepFunc, api, config string, input map[string]any) *asked {
	t.Helper()
	s := fault.New()
	defer s.Close()
	network := operation.NewNetwork(operation.NetworkOptions{})
	defer network.Close()
	rule, err := operation.ParseHostRule(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	rules := []operation.HostRule{rule}
	host := operation.New(operation.Options{Sink: w, Network: network, Grants: operation.Grants{Hosts: rules, Secrets: map[string]operation.Secret{"key": {Value: "s3cret", Hosts: rules}}}})
	defer host.Close()
	in, err := sdk.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	r, err := step(t.Context(), &sdk.Request{V: sdk.Version, Attempt: 1, Input: in,
		Config: json.RawMessage(fmt.Sprintf(`{"api":%q,"base_url":%q%s}`, api, s.URL, config))}, host)
	if err != nil {
		r = &sdk.Response{Error: sdk.AsError(err)}
	}
	return &asked{r, host.Usage(), w.text.String(), s.Requests()}
}

// apis in both forms of an answer.
func apis(t *testing.T, f func(t *testing.T, api string, stream bool)) {
	t.Helper()
	for _, api := range slices.Sorted(maps.Keys(dialects)) {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream=%v", api, stream), func(t *testing.T) {
				t.Parallel()
				f(t, api, stream)
			})
		}
	}
}

const verdict = `{"label":"débogage 虫","urgency":1.50}`

var verdictSchema = json.RawMessage(`{"type":"object","properties":{"label":{"type":"string"},"urgency":{"type":"number"}},"required":["label","urgency"],"additionalProperties":false}`)

func TestGoodAnswer(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, stream bool) {
		a := attempt(t, chat, api, `,"model":"ok","token":{"$secret":"key"}`, map[string]any{"prompt": "say " + verdict, "schema": verdictSchema, "stream": stream, "temperature": 0.5, "seed": 7})
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		want := `{"text":` + quoted(verdict) + `,"json":` + verdict + `}`
		if string(a.Output) != want {
			t.Errorf("output is %s, want %s", a.Output, want)
		}
		if stream && a.emitted != verdict || !stream && a.emitted != "" {
			t.Errorf("a watcher saw %q", a.emitted)
		}
		if d := cmp.Diff([]sdk.Usage{{Model: "ok", Calls: 1, Counted: 1, InputTokens: 11, OutputTokens: 7, CachedTokens: 3}}, a.usage); d != "" {
			t.Errorf("usage (-want +got):\n%s", d)
		}
		var ctx explained
		if err := json.Unmarshal(a.Context, &ctx); err != nil || !strings.HasPrefix(ctx.Resolved, "ok-") || ctx.Model != "ok" || ctx.FinishReason == "" || ctx.RequestID == "" || fmt.Sprint(ctx.Parameters["temperature"]) != "0.5" {
			t.Errorf("context %s, %v", a.Context, err)
		}
		if len(a.requests) != 1 {
			t.Fatalf("%d requests", len(a.requests))
		}
		h := a.requests[0].Header
		if got := h.Get("Authorization") + h.Get("X-Api-Key") + h.Get("X-Goog-Api-Key"); strings.TrimPrefix(got, "Bearer ") != "s3cret" {
			t.Errorf("the token arrived as %q", got)
		}
	})
}

func quoted(s string) string {
	b, _ := sdk.Marshal(s)
	return string(b)
}

// TestGate: no answer counts that is not whole, not empty and fits the schema.
// Each costs one request.
func TestGate(t *testing.T) {
	t.Parallel()
	type want struct {
		class sdk.Class
		code  string
		in    string // a part of the message
	}
	words := map[string]want{
		"empty":      {sdk.ClassValidation, "empty_answer", "the answer is empty"},
		"truncated":  {sdk.ClassTruncated, "length", "raise max_tokens, now 5"},
		"filter":     {sdk.ClassRefused, "", "the "},
		"refusal":    {sdk.ClassRefused, "", "the "},
		"oddfinish":  {sdk.ClassAPIError, "finish_reason", "does not know"},
		"reset":      {sdk.ClassUnavailable, "", ""},
		"early":      {sdk.ClassUnavailable, "", ""},
		"html":       {sdk.ClassAPIError, "not_the_api", "Sign in to the network"},
		"wrong":      {sdk.ClassValidation, "schema", "the answer does not fit the schema: got array, want object"},
		"errorevent": {sdk.ClassUnavailable, "overloaded", "the server broke off: Overloaded"},
		"redirect":   {sdk.ClassAPIError, "http_307", "redirects are not followed"},
		"nonsense":   {sdk.ClassInvalidInput, "model_not_found", "does not exist"},
	}
	streamed := map[string]want{
		"nofinish":  {sdk.ClassUnavailable, "no_finish_reason", "without a finish reason"},
		"cut":       {sdk.ClassUnavailable, "no_finish_reason", "without a finish reason"},
		"malformed": {sdk.ClassAPIError, "malformed_event", "cannot be read"},
		"slow":      {sdk.ClassTimeout, "first_token", "no token came within 100ms"},
		"silent":    {sdk.ClassTimeout, "first_token", "no token came within 100ms"},
		"ping":      {sdk.ClassTimeout, "first_token", "no token came within 100ms"},
		"stall":     {sdk.ClassTimeout, "idle", "no token came for 100ms"},
	}
	whole := map[string]want{
		"nofinish":  {sdk.ClassUnavailable, "no_finish_reason", "without a finish reason"},
		"cut":       {sdk.ClassAPIError, "not_the_api", "unexpected end"},
		"malformed": {sdk.ClassAPIError, "not_the_api", ""},
	}
	apis(t, func(t *testing.T, api string, stream bool) {
		cases := maps.Clone(words)
		maps.Copy(cases, map[bool]map[string]want{true: streamed, false: whole}[stream])
		for word, want := range cases {
			in := map[string]any{"prompt": "say " + verdict, "schema": verdictSchema, "stream": stream, "max_tokens": 5}
			switch word {
			case "slow", "silent", "ping":
				in["first_token_timeout"] = "100ms"
			case "stall":
				in["idle_timeout"] = "100ms"
			}
			a := attempt(t, chat, api, fmt.Sprintf(`,"model":%q`, word), in)
			e := a.Error
			if e == nil {
				t.Errorf("%s passes: %s", word, a.Output)
				continue
			}
			code := want.code
			if code == "model_not_found" && api != "openai" {
				code = "not_found"
			}
			if e.Class != want.class || code != "" && e.Code != code || !strings.Contains(e.Message, want.in) {
				t.Errorf("%s: %+v", word, e)
			}
			if len(a.requests) != 1 {
				t.Errorf("%s: %d requests", word, len(a.requests))
			}
			if slices.Contains([]string{"truncated", "oddfinish", "stall", "wrong"}, word) {
				if d := a.details(t); d.Answer == nil || !strings.HasPrefix(verdict, *d.Answer) && word != "wrong" || *d.Answer == "" {
					t.Errorf("%s: the raw answer is lost: %s", word, e.Details)
				}
			}
			if len(a.usage) != 1 || a.usage[0].Calls != 1 {
				t.Errorf("%s: usage %+v", word, a.usage)
			}
		}
	})
}

// TestPasses: what looks odd and is not wrong.
func TestPasses(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, stream bool) {
		for word, counted := range map[string]int64{"fenced": 1, "nousage": 0, "wrongusage": 0, "onepiece": 1} {
			a := attempt(t, chat, api, fmt.Sprintf(`,"model":%q`, word), map[string]any{"prompt": "say " + verdict, "schema": verdictSchema, "stream": stream})
			if a.Error != nil {
				t.Errorf("%s: %v", word, a.Error)
				continue
			}
			var out output
			if err := json.Unmarshal(a.Output, &out); err != nil || string(out.JSON) != verdict {
				t.Errorf("%s: %s, %v", word, a.Output, err)
			}
			if len(a.usage) != 1 || a.usage[0].Calls != 1 || a.usage[0].Counted != counted {
				t.Errorf("%s: usage %+v", word, a.usage)
			}
			if warned := len(a.Warnings) > 0; warned != (word == "wrongusage") {
				t.Errorf("%s: warnings %+v", word, a.Warnings)
			}
		}
	})
}

// TestStatuses is the table of failing statuses, and of how a server says when
// to come again.
func TestStatuses(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, stream bool) {
		for word, want := range map[string]sdk.Class{
			"400": sdk.ClassInvalidInput, "401": sdk.ClassUnauthorized, "402": sdk.ClassQuota, "403": sdk.ClassUnauthorized, "404": sdk.ClassInvalidInput,
			"408": sdk.ClassTimeout, "409": sdk.ClassAPIError, "413": sdk.ClassInvalidInput, "429": sdk.ClassRateLimited, "500": sdk.ClassAPIError,
			"502": sdk.ClassUnavailable, "503": sdk.ClassUnavailable, "504": sdk.ClassTimeout, "529": sdk.ClassUnavailable, "overloaded": sdk.ClassUnavailable,
			"quota": sdk.ClassQuota, "context": sdk.ClassInvalidInput, "badkey": sdk.ClassUnauthorized, "nocredit": sdk.ClassQuota, "unavailable": sdk.ClassUnavailable,
		} {
			a := attempt(t, chat, api, fmt.Sprintf(`,"model":%q`, word), map[string]any{"prompt": "hi", "stream": stream})
			if a.Error == nil || a.Error.Class != want || len(a.requests) != 1 {
				t.Errorf("%s: %+v after %d requests, want %s", word, a.Error, len(a.requests), want)
				continue
			}
			if f := fault.Failures[word]; !strings.Contains(a.Error.Message, f.Message) {
				t.Errorf("%s: %q does not say what the server said", word, a.Error.Message)
			}
			if word == "context" && a.Error.Code != "context_length" {
				t.Errorf("%s: code %s", word, a.Error.Code)
			}
			if d := a.details(t); d.Status == 0 || d.RequestID != "req_fault" {
				t.Errorf("%s: %s", word, a.Error.Details)
			}
		}
		for form, want := range map[string][2]int64{"seconds": {7000, 7000}, "fraction": {250, 250}, "ms": {150, 150}, "date": {50_000, 60_000}, "body": {2500, 2500}, "message": {1500, 1500}, "garbage": {0, 0}} {
			a := attempt(t, chat, api, fmt.Sprintf(`,"model":"429:%s"`, form), map[string]any{"prompt": "hi", "stream": stream})
			if e := a.Error; e == nil || e.Class != sdk.ClassRateLimited || e.RetryAfterMS < want[0] || e.RetryAfterMS > want[1] {
				t.Errorf("Retry-After as %s: %+v", form, e)
			}
		}
	})
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, stream bool) {
		a := attempt(t, chat, api, `,"model":"tool"`, map[string]any{"prompt": "weather?", "stream": stream, "schema": verdictSchema,
			"tools": []any{map[string]any{"name": "get_weather", "description": "of a city", "parameters": map[string]any{"type": "object"}}}})
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		var out output
		if err := json.Unmarshal(a.Output, &out); err != nil || len(out.ToolCalls) != 1 || out.ToolCalls[0].Name != "get_weather" || string(out.ToolCalls[0].Arguments) != `{"city":"東京"}` || out.ToolCalls[0].ID == "" {
			t.Errorf("%s, %v", a.Output, err)
		}
	})
}

// TestAskingAgain: the answer before and the exact errors go to the model; what
// was no fault of the answer does not.
func TestAskingAgain(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, stream bool) {
		in := map[string]any{"prompt": "say " + verdict, "schema": verdictSchema, "stream": stream}
		bad := attempt(t, chat, api, `,"model":"wrong"`, in)
		in["last_error"] = bad.Error
		again := attempt(t, chat, api, `,"model":"ok"`, in)
		body := string(again.requests[0].Body)
		for _, part := range []string{`[{\"no\":\"schema wants this\"}]`, "got array, want object", "Answer the question again."} {
			if !strings.Contains(body, part) {
				t.Errorf("%q is not in %s", part, body)
			}
		}
		in["last_error"] = &sdk.Error{Class: sdk.ClassValidation, Message: "too short", Details: json.RawMessage(`{"output":{"text":"ok 好"}}`)}
		if body := string(attempt(t, chat, api, `,"model":"ok"`, in).requests[0].Body); !strings.Contains(body, "ok 好") || !strings.Contains(body, "too short") {
			t.Errorf("what the flow refused is not in %s", body)
		}
		in["last_error"] = &sdk.Error{Class: sdk.ClassUnavailable, Message: "away"}
		if body := string(attempt(t, chat, api, `,"model":"ok"`, in).requests[0].Body); strings.Contains(body, "away") {
			t.Errorf("a server that was away is told so: %s", body)
		}
	})
}

func TestModels(t *testing.T) {
	t.Parallel()
	apis(t, func(t *testing.T, api string, _ bool) {
		a := attempt(t, models, api, `,"token":"plain"`, map[string]any{})
		if a.Error != nil || string(a.Output) != `{"models":["ok"]}` || len(a.requests) != 1 {
			t.Errorf("%s, %v, %d requests", a.Output, a.Error, len(a.requests))
		}
	})
}

package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// chat asks a server as a model step does.
func chat(ctx context.Context, in struct {
	Prompt string `json:"prompt"`
	Stream bool   `json:"stream"`
}, host sdk.Host) (any, error) {
	if in.Prompt == "wait" {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	body, err := sdk.Marshal(map[string]any{"prompt": in.Prompt, "model": "m"})
	if err != nil {
		return nil, err
	}
	ok, reply, err := sdk.Operate(ctx, host, map[string]any{"op": "http", "method": "POST", "url": "https://api.example/chat", "stream": in.Stream}, body)
	if err != nil {
		return nil, err
	}
	var head struct {
		Status int
		Stream int
		Class  sdk.Class
	}
	if err := sdk.Unmarshal(ok, &head); err != nil {
		return nil, err
	}
	if head.Class != "" {
		return nil, &sdk.Error{Class: head.Class, Code: fmt.Sprint("http_", head.Status), Message: string(reply)}
	}
	if in.Stream {
		if _, reply, err = sdk.Operate(ctx, host, map[string]any{"op": "stream_read", "stream": head.Stream}, nil); err != nil {
			return nil, err
		}
	}
	sdk.Log(ctx, host, "info", "answered", nil)
	return map[string]any{"text": string(reply)}, nil
}

func TestCases(t *testing.T) {
	t.Parallel()
	const post = `"match":{"method":"POST","url":"https://api.example/chat","body":{"prompt":"hi"}}`
	for _, c := range []struct{ text, want string }{
		{`{"request":{"input":{"prompt":"hi"}},"http":[{` + post + `,"reply":{"status":200,"body":"hello 中文 🏴"}}],"response":{"output":{"text":"hello 中文 🏴"}}}`, ""},
		{`{"request":{"input":{"prompt":"hi","stream":true}},"http":[{` + post + `,"reply":{"status":200,"body":{"a":[1]}}}],"response":{"output":{"text":"{\"a\":[1]}"}}}`, ""},
		{`{"request":{"input":{"prompt":"hi"}},"http":[{` + post + `,"reply":{"status":429,"class":"rate_limited","body":"slow down"}}],"response":{"error":{"class":"rate_limited","code":"http_429"}}}`, ""},
		{`{"request":{"input":{"prompt":"hi"}},"http":[{` + post + `,"reply":{"error":{"class":"unavailable","message":"no route"}}}],"response":{"error":{"class":"unavailable"}}}`, ""},
		{`{"request":{"input":{"prompt":"wait"}},"stops":true}`, ""},
		{`{"request":{"input":{"prompt":"hi"}},"response":{"output":1}}`, "the step asked for POST https://api.example/chat, which no http entry matches"},
		{`{"request":{"input":{"prompt":"ho"}},"http":[{` + post + `,"reply":{"status":200}}],"response":{"output":1}}`, "which no http entry matches"},
		{`{"request":{"input":{"prompt":"hi"}},"http":[{` + post + `,"reply":{"status":200,"body":"a"}},{` + post + `,"reply":{"status":200}}],"response":{"output":{"text":"a"}}}`, "did not make 1 of 2 recorded requests"},
		{`{"request":{"input":{"prompt":"hi"}},"http":[{` + post + `,"reply":{"status":200,"body":"a"}}],"response":{"output":{}}}`, `the response has output {"text":"a"}, want {}`},
		{`{"request":{"input":{"prompt":7}},"response":{"output":{}}}`, "want output {}"},
		{`{"request":{"input":{"prompt":7}},"response":{"error":{"class":"quota"}}}`, `want {"class":"quota"}`},
		{`{"request":{"input":{"prompt":7}},"stops":true}`, "want class timeout"},
	} {
		parsed, err := ParseCase([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		err = CheckCase(t.Context(), sdk.Func(chat), parsed, Options{Type: "chat", Within: time.Second})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// TestCaseKeepsOtherOperations: what is not http goes to the caller's host, and
// the request's own fields reach the step.
func TestCaseKeepsOtherOperations(t *testing.T) {
	t.Parallel()
	c, err := ParseCase([]byte(`{"request":{"step_type":"a","attempt":3,"input":{},"config":{"k":1}},"response":{"output":["a",3,{"k":1},"log"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	step := sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		ok, _, err := sdk.Operate(ctx, host, sdk.LogOp{Op: "log"}, nil)
		if err != nil {
			return nil, err
		}
		return sdk.Output([]any{req.StepType, req.Attempt, req.Config, ok})
	})
	if err := CheckCase(t.Context(), step, c, Options{Type: "b", Host: tells{}}); err != nil {
		t.Error(err)
	}
}

type tells struct{}

func (tells) Call(_ context.Context, msg []byte) ([]byte, error) {
	var op struct{ Op string }
	if err := sdk.Unmarshal(msg, &op); err != nil {
		return nil, errors.Join(err)
	}
	return sdk.Marshal(map[string]any{"ok": op.Op})
}

func TestParseCaseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:                                     "expected a key",
		`{"requst":{}}`:                         `unknown field "requst"`,
		`{"request":{}}`:                        "request.input is missing",
		`{"request":{"input":{}}}`:              `"response" is missing`,
		`{"request":{"input":{}},"response":7}`: "must hold an output or an error",
		`{"request":{"input":{}},"response":{"output":1,"error":{}}}`:                      "must hold an output or an error",
		`{"request":{"input":{}},"stops":true,"response":{"output":1}}`:                    "either",
		`{"request":{"input":{}},"http":[{"match":{}}],"response":{"output":1}}`:           `needs "match" and "reply"`,
		`{"request":{"input":{}, "input":{}},"response":{"output":1}}`:                     "input",
		`{"request":{"input":{}},"response":{"output":1},"http":[{"mach":{},"reply":{}}]}`: `unknown field "mach"`,
	} {
		if _, err := ParseCase([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b        string
		equal, part bool
	}{
		{`1.0`, `1`, true, true},
		{`-0.250`, `-0.25`, true, true},
		{`9007199254740993`, `9007199254740992`, false, false},
		{`[1,{"a":2}]`, `[1,{"a":2.0}]`, true, true},
		{`{"a":1,"b":2}`, `{"b":2}`, false, true},
		{`{"b":2}`, `{"a":1,"b":2}`, false, false},
		{`[1,2]`, `[1]`, false, false},
		{`[{"a":1,"b":2}]`, `[{"a":1}]`, false, true},
		{`"1"`, `1`, false, false},
		{`[]`, `{}`, false, false},
		{`null`, `null`, true, true},
	} {
		a, b := json.RawMessage(c.a), json.RawMessage(c.b)
		if equal(a, b) != c.equal || contains(a, b) != c.part {
			t.Errorf("%s and %s: equal %v, part %v", a, b, equal(a, b), contains(a, b))
		}
	}
}

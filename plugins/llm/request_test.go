package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

// blobs answers blob_get in pieces of two bytes, and nothing else.
type blobs string

func (b blobs) Call(_ context.Context, msg []byte) ([]byte, error) {
	var op sdk.BlobGetOp
	if err := json.Unmarshal(msg, &op); err != nil || op.Op != sdk.OpBlobGet {
		return []byte(`{"error":{"class":"invalid_input","code":"unsupported_op"}}`), nil
	}
	end := min(int(op.Offset)+2, len(b))
	eof := `false`
	if end == len(b) {
		eof = `true`
	}
	return sdk.Join([]byte(`{"ok":{"eof":`+eof+`}}`), []byte(b[op.Offset:end])), nil
}

const everything = `{
	"system": "be brief", "temperature": 0.20, "top_p": 1, "seed": 7, "max_tokens": 99, "stop": "END", "tool_choice": "look",
	"schema": {"type":"object"}, "extra": {"user": "<u>"},
	"tools": [{"name":"look","description":"looks","parameters":{"type":"object"}}, {"name":"bare"}],
	"messages": [
		{"role":"user","content":[{"text":"what is it? 中"},{"image":{"$blob":"sha256:0000000000000000000000000000000000000000000000000000000000000001","size":5,"type":"image/gif"}},{"image_url":"https://i.example/x.png"}]},
		{"role":"assistant","tool_calls":[{"id":"c1","name":"look","arguments":{"at":1.50}}]},
		{"role":"tool","tool_call_id":"c1","name":"look","content":"a cat"}
	]}`

// TestRequests is what each dialect sends for the same question, whole.
func TestRequests(t *testing.T) {
	t.Parallel()
	for api, want := range map[string]struct{ url, body string }{
		"openai": {"https://m.example/v1/chat/completions", `{"max_tokens":99,"messages":[{"content":"be brief","role":"system"},` +
			`{"content":[{"text":"what is it? 中","type":"text"},{"image_url":{"url":"data:image/gif;base64,aGVsbG8="},"type":"image_url"},{"image_url":{"url":"https://i.example/x.png"},"type":"image_url"}],"role":"user"},` +
			`{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\"at\":1.50}","name":"look"},"id":"c1","type":"function"}]},` +
			`{"content":"a cat","role":"tool","tool_call_id":"c1"}],"model":"m/1",` +
			`"response_format":{"json_schema":{"name":"answer","schema":{"type":"object"}},"type":"json_schema"},"seed":7,"stop":["END"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.20,` +
			`"tool_choice":{"function":{"name":"look"},"type":"function"},"tools":[{"function":{"description":"looks","name":"look","parameters":{"type":"object"}},"type":"function"},{"function":{"name":"bare","parameters":{"properties":{},"type":"object"}},"type":"function"}],"top_p":1,"user":"<u>"}`},
		"anthropic": {"https://m.example/v1/messages", `{"max_tokens":99,"messages":[` +
			`{"content":[{"text":"what is it? 中","type":"text"},{"source":{"data":"aGVsbG8=","media_type":"image/gif","type":"base64"},"type":"image"},{"source":{"type":"url","url":"https://i.example/x.png"},"type":"image"}],"role":"user"},` +
			`{"content":[{"id":"c1","input":{"at":1.50},"name":"look","type":"tool_use"}],"role":"assistant"},` +
			`{"content":[{"content":"a cat","tool_use_id":"c1","type":"tool_result"}],"role":"user"}],"model":"m/1","output_config":{"format":{"schema":{"type":"object"},"type":"json_schema"}},` +
			`"stop_sequences":["END"],"stream":true,"system":"be brief","temperature":0.20,"tool_choice":{"name":"look","type":"tool"},` +
			`"tools":[{"description":"looks","input_schema":{"type":"object"},"name":"look"},{"input_schema":{"properties":{},"type":"object"},"name":"bare"}],"top_p":1,"user":"<u>"}`},
		"gemini": {"https://m.example/v1beta/models/m%2F1:streamGenerateContent?alt=sse", `{"contents":[` +
			`{"parts":[{"text":"what is it? 中"},{"inlineData":{"data":"aGVsbG8=","mimeType":"image/gif"}},{"fileData":{"fileUri":"https://i.example/x.png"}}],"role":"user"},` +
			`{"parts":[{"functionCall":{"args":{"at":1.50},"name":"look"}}],"role":"model"},` +
			`{"parts":[{"functionResponse":{"name":"look","response":{"result":"a cat"}}}],"role":"user"}],` +
			`"generationConfig":{"maxOutputTokens":99,"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json","seed":7,"stopSequences":["END"],"temperature":0.20,"topP":1},` +
			`"systemInstruction":{"parts":[{"text":"be brief"}]},"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["look"],"mode":"ANY"}},` +
			`"tools":[{"functionDeclarations":[{"description":"looks","name":"look","parametersJsonSchema":{"type":"object"}},{"name":"bare","parametersJsonSchema":{"properties":{},"type":"object"}}]}],"user":"<u>"}`},
	} {
		c, err := parseConfig(json.RawMessage(`{"api":"` + api + `","base_url":"https://m.example","model":"m/1","headers":{"X-Org":"o"},"token":"t"}`))
		if err != nil {
			t.Fatal(err)
		}
		q, err := parseQuestion(t.Context(), blobs("hello"), c, json.RawMessage(everything))
		if err != nil {
			t.Errorf("%s: %v", api, err)
			continue
		}
		op, body := c.dialect.request(c, q)
		text, err := sdk.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.body, string(text)); d != "" || op.URL != want.url || op.Headers["X-Org"] == nil {
			t.Errorf("%s: %s %v (-want +got):\n%s", api, op.URL, op.Headers, d)
		}
		if warned := len(q.warnings) == 1; warned != (api == "anthropic") {
			t.Errorf("%s: warnings %+v", api, q.warnings)
		}
	}
}

func TestWrongQuestions(t *testing.T) {
	t.Parallel()
	for input, path := range map[string]string{
		`{}`: "/prompt",
		`{"prompt":"x","schema":{"type":"nothing"}}`:                                             "/schema",
		`{"prompt":"x","schema":{"$ref":"https://evil.example/s.json"}}`:                         "/schema",
		`{"prompt":"x","schema":{"maximum":1e999999999}}`:                                        "/schema",
		`{"prompt":"x","max_tokens":-1}`:                                                         "/max_tokens",
		`{"prompt":"x","structured":"maybe"}`:                                                    "/structured",
		`{"messages":[{"role":"robot","content":"x"}]}`:                                          "/messages/0/role",
		`{"messages":[{"role":"user","content":"x"},{"role":"system","content":"y"}]}`:           "/messages/1/role",
		`{"messages":[{"role":"system","content":"y"}]}`:                                         "/messages",
		`{"messages":[{"role":"user","content":"x"}],"images":[{"$blob":""}]}`:                   "/images",
		`{"prompt":"x","idle_timeout":"-1s"}`:                                                    "",
		`{"prompt":5}`:                                                                           "",
		`{"prompt":"x","images":[{"$blob":"` + sdk.Sum(nil).String() + `","size":99999999999}]}`: "/images",
	} {
		c, err := parseConfig(json.RawMessage(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseQuestion(t.Context(), blobs("x"), c, json.RawMessage(input))
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != path {
			t.Errorf("%s gives %v, want path %q", input, err, path)
		}
	}
	for _, config := range []string{`{"api":"cohere"}`, `{"base_url":"m.example"}`, `{"base_url":"https://m.example?x=1"}`, `[]`} {
		if _, err := parseConfig(json.RawMessage(config)); sdk.AsError(err) == nil {
			t.Errorf("%s is a config", config)
		}
	}
}

func TestUnfenced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"```json\n{\"a\":1}\n```":  `{"a":1}`,
		"```\n[1]\n```":            `[1]`,
		"```{\"a\":1}```":          `{"a":1}`,
		"{\"a\":\"```\"}":          "{\"a\":\"```\"}",
		"Here:\n```\n1\n```":       "Here:\n```\n1\n```",
		"```\n1\n```\n```\n2\n```": "```\n1\n```\n```\n2\n```",
		"```":                      "```",
	} {
		if got := unfenced(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// FuzzEvents: whatever a server streams, reading it ends, and an answer without
// a finish reason does not pass.
func FuzzEvents(f *testing.F) {
	f.Add("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n")
	f.Add("event: x\ndata: {\"type\":\"content_block_delta\",\ndata: \"index\":0}\r\n\r\n")
	f.Add("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}\n\n:\n\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":999999999}]}}]}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, d := range dialects {
			a, es := &answer{}, newEvents(strings.NewReader(text))
			for {
				data, err := es.next()
				if err != nil {
					break
				}
				if d.take(data, a) != nil {
					break
				}
			}
			q := &question{}
			if e := q.judge(&config{API: name, dialect: d.dialect}, a); e == nil && (a.finish == "" || a.text.Len() == 0 && len(a.calls) == 0) {
				t.Errorf("%s: %q passes", name, text)
			}
		}
	})
}

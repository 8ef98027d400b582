package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

// fakeHost answers http with a reply, and keeps what it was asked.
type fakeHost struct {
	reply sdk.HTTPReply
	body  string
	ops   []string // the messages, with their bodies
}

func (h *fakeHost) Call(_ context.Context, msg []byte) ([]byte, error) {
	head, data := sdk.Split(msg)
	h.ops = append(h.ops, string(head)+" | "+string(data))
	var ok []byte
	if strings.Contains(string(head), `"op":"blob_put"`) {
		ok, _ = sdk.Marshal(sdk.Blob{Digest: sdk.Sum(data), Size: int64(len(data)), Type: "image/png"})
		return append(append([]byte(`{"ok":`), ok...), '}'), nil
	}
	ok, err := sdk.Marshal(h.reply)
	return sdk.Join(append(append([]byte(`{"ok":`), ok...), '}'), []byte(h.body)), err
}

func run(t *testing.T, step sdk.StepFunc, h sdk.Host, input string) (string, error) {
	t.Helper()
	r, err := step.Run(t.Context(), &sdk.Request{Input: json.RawMessage(input), IdempotencyKey: "idem"}, h)
	if err != nil {
		return "", err
	}
	return string(r.Output), nil
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step  sdk.StepFunc
		input string
		want  string
	}{
		{get, `{"url":"https://a.example/x"}`, `{"op":"http","method":"GET","url":"https://a.example/x"} | `},
		{get, `{"url":"https://a.example/x?a=1","method":"head","query":{"q":"中 &","n":[1,2.50],"no":null,"yes":true},"timeout_ms":5}`,
			`{"op":"http","method":"HEAD","url":"https://a.example/x?a=1&n=1&n=2.50&q=%E4%B8%AD+%26&yes=true","timeout_ms":5} | `},
		{get, `{"url":"u","bearer":{"$secret":"token"},"headers":{"X-B":{"$secret":"other"},"X-A":"1"}}`,
			`{"op":"http","method":"GET","url":"u","headers":{"X-A":["1"]},"secrets":[{"header":"Authorization","prefix":"Bearer ","name":"token"},{"header":"X-B","name":"other"}]} | `},
		{get, `{"url":"u","bearer":"plain"}`, `{"op":"http","method":"GET","url":"u","headers":{"Authorization":["Bearer plain"]}} | `},
		{request, `{"url":"u","json":{"b":1.50,"a":"<中>"}}`,
			`{"op":"http","method":"POST","url":"u","headers":{"Content-Type":["application/json"],"Idempotency-Key":["idem"]}} | {"b":1.50,"a":"<中>"}`},
		{request, `{"url":"u","method":"put","text":"x","headers":{"content-type":"a/b","Idempotency-Key":"mine"}}`,
			`{"op":"http","method":"PUT","url":"u","headers":{"Idempotency-Key":["mine"],"content-type":["a/b"]}} | x`},
		{request, `{"url":"u","form":{"b":"1 2","a":3}}`,
			`{"op":"http","method":"POST","url":"u","headers":{"Content-Type":["application/x-www-form-urlencoded"],"Idempotency-Key":["idem"]}} | a=3&b=1+2`},
	} {
		h := &fakeHost{reply: sdk.HTTPReply{Status: 204}}
		if _, err := run(t, c.step, h, c.input); err != nil {
			t.Errorf("%s: %v", c.input, err)
		} else if d := cmp.Diff([]string{c.want}, h.ops); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.input, d)
		}
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	typed := func(t string) map[string][]string {
		return map[string][]string{"Content-Type": {t}, "Link": {"a", "b"}}
	}
	for _, c := range []struct {
		reply       sdk.HTTPReply
		body, extra string
		want        string // a part of the output, or of the error
		class       sdk.Class
	}{
		{sdk.HTTPReply{Status: 200, Headers: typed("application/json")}, `{"n":1.50}`, ``, `{"status":200,"headers":{"content-type":"application/json","link":"a, b"},"json":{"n":1.50}}`, ""},
		{sdk.HTTPReply{Status: 200, Headers: typed("text/html")}, `{"n":1}`, ``, `"text":"{\"n\":1}"`, ""},
		{sdk.HTTPReply{Status: 200, Headers: typed("text/html")}, `{"n":1}`, `,"response":"json"`, `"json":{"n":1}`, ""},
		{sdk.HTTPReply{Status: 200, Headers: typed("application/json")}, `{"n":1,"n":2}`, ``, `"text":"{`, ""},
		{sdk.HTTPReply{Status: 200, Headers: typed("text/html")}, `<中文 🏴>`, `,"response":"json"`, `the body is not JSON`, sdk.ClassValidation},
		{sdk.HTTPReply{Status: 200, Headers: typed("image/png")}, "\xff\x00", ``, `"blob":{"$blob":"sha256:`, ""},
		{sdk.HTTPReply{Status: 200, Headers: typed("image/png")}, "\xff\x00", `,"response":"text"`, `not text in UTF-8`, sdk.ClassValidation},
		{sdk.HTTPReply{Status: 200}, "x", `,"response":"blob"`, `"blob":{"$blob":"sha256:`, ""},
		{sdk.HTTPReply{Status: 429, Class: sdk.ClassRateLimited, RetryAfterMS: 1500}, "slow down", ``, `the server answered 429: slow down`, sdk.ClassRateLimited},
		{sdk.HTTPReply{Status: 404, Class: sdk.ClassInvalidInput}, "no", `,"ok_status":[404]`, `"status":404`, ""},
	} {
		got, err := run(t, get, &fakeHost{reply: c.reply, body: c.body}, `{"url":"u"`+c.extra+`}`)
		if e := sdk.AsError(err); e != nil {
			if got = e.Message; e.Class != c.class || e.RetryAfterMS != c.reply.RetryAfterMS {
				t.Errorf("%+v: %+v", c.reply, e)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v %q gives %s, want %s", c.reply, c.body, got, c.want)
		}
	}
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	for input, path := range map[string]string{
		`{"url":"u","method":"DELETE"}`:                   "/method",
		`{"url":"u","json":1}`:                            "/method",
		`{"url":"u","query":{"a":{"b":1}}}`:               "/query",
		`{"url":5}`:                                       "",
		`{"url":"u","method":"GET","text":"a","form":{}}`: "",
	} {
		h := &fakeHost{}
		_, err := run(t, get, h, input)
		if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassInvalidInput || e.Path != path || len(h.ops) != 0 {
			t.Errorf("%s gives %v", input, err)
		}
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil || m.Steps["get"].Effects != sdk.EffectsRead || m.Steps["request"].Effects != sdk.EffectsWrite || len(m.Steps) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
}

package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

var digest = sdk.Sum([]byte("中文"))

// written are messages as the SDK writes them, with every member and with few.
var written = map[string][]any{
	"request.schema.json": {
		&sdk.Request{V: 1, StepType: "chat", Workflow: "w", Run: "r_1", Step: "step.a", Attempt: 1, Engine: "1.0.0", Input: json.RawMessage(`{"文":"本"}`), Config: json.RawMessage(`{}`)},
		&sdk.Request{V: 1, StepType: "chat", Workflow: "w", Run: "r_1", Step: "step.a", Instance: "k", Attempt: 2, IdempotencyKey: "key", DeadlineMS: 29950, TraceParent: "00-1-2-01", Engine: "1.0.0", Input: json.RawMessage(`{}`), Config: json.RawMessage(`{"a":1}`)},
	},
	"response.schema.json": {
		&sdk.Response{Output: json.RawMessage(`null`)},
		&sdk.Response{Output: json.RawMessage(`{"text":"🏴"}`), Usage: []sdk.Usage{{Model: "m", Calls: 2, Counted: 1, InputTokens: 3, OutputTokens: 4, CachedTokens: 1, CacheWriteTokens: 1}},
			Warnings: []sdk.Warning{{Message: "m", Path: "/a/0"}, {Message: "m"}}, Context: json.RawMessage(`{"why":1}`)},
		&sdk.Response{Error: &sdk.Error{Class: sdk.ClassRateLimited, Code: "c", Message: "m", Path: "/messages/0", RetryAfterMS: 1000, Details: json.RawMessage(`[1]`)}},
	},
	"reply.schema.json": {
		sdk.Reply{Ok: json.RawMessage(`{}`)},
		sdk.Reply{Error: &sdk.Error{Class: sdk.ClassSandbox, Stderr: "s"}},
	},
	"secret.schema.json": {sdk.Secret{Name: "api_key"}},
	"manifest.schema.json": {
		sdk.Manifest{ABI: 1, Name: "a", Steps: map[string]sdk.StepType{}},
		sdk.Manifest{ABI: 1, Name: "ai", Version: "1.2.0", Engine: ">= 1.0", Config: json.RawMessage(`true`), MemoryMB: 64, IO: "raw", Concurrent: true,
			Steps: map[string]sdk.StepType{"chat": {Description: "d", Input: json.RawMessage(`{"type":"object"}`), Output: json.RawMessage(`{}`), Effects: sdk.EffectsOnce,
				Transient: []string{"*.id"}, TimeoutMS: 1, Ops: []string{"http"}, Examples: []sdk.Example{{Input: json.RawMessage(`{}`), Output: json.RawMessage(`1`)}, {Input: json.RawMessage(`{}`)}}}},
			Capabilities: []sdk.Capability{{HTTP: "*", Reason: "r"}, {Mount: "index", Mode: "rw", Reason: "r"}, {Env: "LC_ALL", Reason: "r"}}},
	},
	"op/log.schema.json":          {sdk.LogOp{Op: "log", Level: "warn", Message: "m", Fields: map[string]any{"k": 1}}, sdk.LogOp{Op: "log", Level: "info"}},
	"op/progress.schema.json":     {sdk.ProgressOp{Op: "progress", Fraction: 0.5, Message: "m"}, sdk.ProgressOp{Op: "progress"}},
	"op/emit.schema.json":         {sdk.EmitOp{Op: "emit", Chunk: "c"}},
	"op/usage.schema.json":        {sdk.UsageOp{Op: "usage", Usage: sdk.Usage{Model: "m", Calls: 1}}, sdk.UsageOp{Op: "usage"}},
	"op/respond.schema.json":      {sdk.RespondOp{Op: "respond", Response: sdk.Response{Output: json.RawMessage(`1`)}}},
	"op/http.schema.json":         {sdk.HTTPOp{Op: "http", URL: "https://a.example"}, sdk.HTTPOp{Op: "http", Method: "POST", URL: "u", Headers: map[string][]string{"A": {"b"}}, Secrets: []sdk.HeaderSecret{{Header: "H", Prefix: "P", Name: "n"}}, TimeoutMS: 1, Stream: true, HeadTimeoutMS: 1}},
	"op/stream_read.schema.json":  {sdk.StreamReadOp{Op: "stream_read", Stream: 1, Max: 10, TimeoutMS: 1}, sdk.StreamReadOp{Op: "stream_read", Stream: 2}},
	"op/stream_close.schema.json": {sdk.StreamCloseOp{Op: "stream_close", Stream: 1}},
	"op/blob_put.schema.json":     {sdk.BlobPutOp{Op: "blob_put"}, sdk.BlobPutOp{Op: "blob_put", Type: "image/png", Part: 1, More: true}},
	"op/blob_get.schema.json":     {sdk.BlobGetOp{Op: "blob_get", Digest: digest}, sdk.BlobGetOp{Op: "blob_get", Digest: digest, Offset: 7, Max: 9}},

	"op/log.schema.json#/$defs/reply":         {sdk.Reply{Ok: json.RawMessage(`{}`)}},
	"op/http.schema.json#/$defs/reply":        {ok(sdk.HTTPReply{Status: 200, Headers: map[string][]string{"A": {"b"}}}), ok(sdk.HTTPReply{Status: 429, Headers: map[string][]string{}, Stream: 1, Class: sdk.ClassRateLimited, RetryAfterMS: 5}), sdk.Reply{Error: &sdk.Error{Class: sdk.ClassSandbox, Code: "host_denied"}}},
	"op/stream_read.schema.json#/$defs/reply": {ok(sdk.StreamReply{EOF: true})},
	"op/blob_put.schema.json#/$defs/reply":    {ok(sdk.Blob{Digest: digest, Size: 3}), ok(sdk.Blob{Digest: digest, Size: 3, Type: "text/plain"}), ok(sdk.BlobPart{Part: 1})},
	"op/blob_get.schema.json#/$defs/reply":    {ok(sdk.BlobSlice{})},
}

func ok(v any) any { return map[string]any{"ok": v} }

// TestWhatIsWrittenIsValid: with a member of a later version, too.
func TestWhatIsWrittenIsValid(t *testing.T) {
	t.Parallel()
	for name, messages := range written {
		s := compile(t, name)
		for _, m := range messages {
			b, err := sdk.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			later := append(bytes.TrimSuffix(bytes.Clone(b), []byte("}")), `,"of_a_later_version":1}`...)
			for _, text := range [][]byte{b, later} {
				if err := validate(t, s, text); err != nil {
					t.Errorf("%s: %s: %v", name, text, err)
				}
			}
		}
	}
}

// TestManifestsAreValid: every manifest of this repository.
func TestManifestsAreValid(t *testing.T) {
	t.Parallel()
	s := compile(t, "manifest.schema.json")
	seen := 0
	for _, pattern := range []string{"../*/example/step.json", "../examples/*/step.json", "../../plugins/*/step.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			seen++
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, s, b); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d manifests were found", seen)
	}
}

// wrong are messages that the engine refuses, or that say what no reader takes.
var wrong = map[string][]string{
	"request.schema.json": {`[]`, `{}`, `{"v":2,"step_type":"s","workflow":"w","run":"r","step":"s","attempt":1,"idempotency_key":"k","deadline_ms":0,"engine":"e","input":{},"config":{}}`,
		`{"v":1,"step_type":"s","workflow":"w","run":"r","step":"s","attempt":0,"idempotency_key":"k","deadline_ms":0,"engine":"e","input":{},"config":{}}`,
		`{"v":1,"step_type":"s","workflow":"w","run":"r","step":"s","attempt":1,"idempotency_key":"k","deadline_ms":0,"engine":"e","input":[],"config":{}}`},
	"response.schema.json": {`1`, `{}`, `{"output":1,"error":{"class":"internal"}}`, `{"error":{"class":"sandbox"}}`, `{"error":{}}`, `{"error":"text"}`, `{"output":1,"usage":{"calls":1}}`,
		`{"output":1,"usage":[{"input_tokens":-1}]}`, `{"output":1,"context":[]}`, `{"output":1,"warnings":[{"path":"/a"}]}`, `{"error":{"class":"internal","path":"a"}}`},
	"error.schema.json":    {`{}`, `{"class":"other"}`, `{"class":"internal","retry_after_ms":"1"}`},
	"usage.schema.json":    {`[]`, `{"calls":-1}`, `{"calls":1.5}`, `{"model":1}`},
	"blob.schema.json":     {`{}`, `{"$blob":"sha256:00","size":1}`, `{"$blob":"` + digest.String() + `"}`, `{"$blob":"` + digest.String() + `","size":-1}`},
	"secret.schema.json":   {`{}`, `{"$secret":1}`},
	"reply.schema.json":    {`{}`, `{"ok":1}`, `{"ok":{},"error":{"class":"internal"}}`, `{"error":{}}`},
	"manifest.schema.json": {`{}`, `{"abi":2,"name":"a","steps":{}}`, `{"abi":1,"name":"A","steps":{}}`, `{"abi":1,"name":"a","steps":[]}`, `{"abi":1,"name":"a","steps":{"Bad Name":{}}}`, `{"abi":1,"name":"a","steps":{"s":{"effects":"some"}}}`, `{"abi":1,"name":"a","steps":{},"io":"text"}`, `{"abi":1,"name":"a","steps":{},"memory_mb":1025}`, `{"abi":1,"name":"a","steps":{},"memory_mb":-1}`, `{"abi":1,"name":"a","steps":{"s":{"timeout_ms":-1}}}`, `{"abi":1,"name":"a","steps":{},"capabilities":[{"http":"*"}]}`, `{"abi":1,"name":"a","steps":{},"capabilities":[{"mount":"a/b","reason":"r"}]}`, `{"abi":1,"name":"a","steps":{},"capabilities":[{"env":"A-B","reason":"r"}]}`, `{"abi":1,"name":"a","steps":{},"capabilities":[{"mount":"a","mode":"w","reason":"r"}]}`},

	"op/log.schema.json":          {`{}`, `{"op":"emit","level":"info","message":"m"}`, `{"op":"log","level":"loud","message":"m"}`, `{"op":"log","level":"info","message":1}`, `{"op":"log","level":"info","message":"m","fields":[]}`},
	"op/progress.schema.json":     {`{"op":"progress"}`, `{"op":"progress","fraction":2}`, `{"op":"progress","fraction":"0.5"}`},
	"op/emit.schema.json":         {`{"op":"emit"}`, `{"op":"emit","chunk":{}}`},
	"op/usage.schema.json":        {`{"op":"usage","calls":-1}`, `{"calls":1}`},
	"op/respond.schema.json":      {`{"op":"respond"}`, `{"op":"respond","response":{}}`},
	"op/http.schema.json":         {`{"op":"http"}`, `{"op":"http","url":"u","headers":{"A":"b"}}`, `{"op":"http","url":"u","secrets":[{"header":"H"}]}`, `{"op":"http","url":"u","stream":1}`},
	"op/stream_read.schema.json":  {`{"op":"stream_read"}`, `{"op":"stream_read","stream":0}`, `{"op":"stream_read","stream":1,"max":-1}`},
	"op/stream_close.schema.json": {`{"op":"stream_close"}`},
	"op/blob_put.schema.json":     {`{"op":"blob_put","more":"yes"}`, `{"op":"blob_put","part":0}`},
	"op/blob_get.schema.json":     {`{"op":"blob_get"}`, `{"op":"blob_get","digest":"x"}`, `{"op":"blob_get","digest":"` + digest.String() + `","offset":-1}`},

	"op/http.schema.json#/$defs/reply":        {`{"ok":{}}`, `{"ok":{"status":"200","headers":{}}}`, `{"ok":{"status":200,"headers":{},"class":"bad"}}`, `{}`},
	"op/stream_read.schema.json#/$defs/reply": {`{"ok":{}}`, `{"ok":{"eof":1}}`},
	"op/blob_put.schema.json#/$defs/reply":    {`{"ok":{}}`, `{"ok":{"part":0}}`},
	"op/blob_get.schema.json#/$defs/reply":    {`{"ok":{}}`},
}

func TestWhatIsWrongIsNot(t *testing.T) {
	t.Parallel()
	for name, texts := range wrong {
		s := compile(t, name)
		for _, text := range texts {
			if err := validate(t, s, []byte(text)); err == nil {
				t.Errorf("%s accepts %s", name, text)
			}
			if name == "manifest.schema.json" {
				if _, err := sdk.ParseManifest([]byte(text)); err == nil {
					t.Errorf("the engine accepts the manifest %s", text)
				}
			}
		}
	}
	for name := range types {
		if len(wrong[name]) == 0 {
			t.Errorf("%s: nothing wrong is tried", name)
		}
	}
	for op := range operations {
		if len(wrong["op/"+op+".schema.json"]) == 0 {
			t.Errorf("%s: nothing wrong is tried", op)
		}
	}
}

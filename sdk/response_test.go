package sdk

import (
	"strings"
	"testing"
)

func TestParseResponse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		`{"output":null}`: "null", `{"output":{"a":"中文 🏴 עברית"}}`: `{"a":"中文 🏴 עברית"}`, `{"output":1.50,"error":null,"later":{}}`: "1.50",
	} {
		if r, err := ParseResponse([]byte(s)); err != nil || string(r.Output) != want {
			t.Errorf("%s: %v", s, err)
		}
	}
	r, err := ParseResponse([]byte(`{"error":{"class":"sandbox","message":"x"}}`))
	if err != nil || r.Error.Class != ClassInternal {
		t.Errorf("%+v, %v", r, err)
	}
	for s, want := range map[string]string{
		``: "saw nothing", `hello`: `saw "hello"`, `{}`: "neither", `{"output":1,"error":{"class":"quota"}}`: "both", `{"output":1}{"output":2}`: "more data",
		`{"output":1,"output":2}`: "duplicate key", `{"output":1,"context":[]}`: "not an object", `{"output":1,"usage":[{"input_tokens":-1}]}`: "negative",
		`{"output":1,"context":{"a":"` + strings.Repeat("x", MaxContext) + `"}}`: "the limit is 16384", strings.Repeat("é", 300): "(600 bytes)",
	} {
		r, err := ParseResponse([]byte(s))
		if err == nil || AsError(err).Class != ClassProtocol || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gave %+v, %v, want %q", s, r, err, want)
		}
	}
}

func TestParseRespond(t *testing.T) {
	t.Parallel()
	if r, err := ParseRespond([]byte(`{"op":"respond","response":{"output":7}}`)); err != nil || r == nil || string(r.Output) != "7" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, other := range []string{`{"op":"log","message":"respond"}`, `{"op":"log"}`, `respond`, ``} {
		if r, err := ParseRespond([]byte(other)); r != nil || err != nil {
			t.Errorf("%s was taken for a response: %+v, %v", other, r, err)
		}
	}
	for _, bad := range []string{`{"op":"respond"}`, `{"op":"respond","response":{}}`, "{\"op\":\"respond\",\"response\":{\"output\":1}}\x00raw"} {
		if r, err := ParseRespond([]byte(bad)); err == nil {
			t.Errorf("%s was accepted as %+v", bad, r)
		}
	}
}

package sdk

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	good := []string{`{}`, `[]`, ` null `, `"x"`, `-0.5e+10`, `0`, `{"a":[1,{"b":"c"}],"d":""}`, `"\ud83d\ude00"`,
		`"🏴\u0000"`, `{"":1,"a":2}`, `[[],{}]`, strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)}
	for _, s := range good {
		if err := CheckJSON([]byte(s)); err != nil {
			t.Errorf("CheckJSON(%q) = %v", s, err)
		}
	}
	bad := map[string]string{
		``: "unexpected end", `{`: "expected a key", `[1,]`: "unexpected ']'", `{"a":1,}`: "expected a key", `{"a" 1}`: "colon",
		`01`: "more data", `-`: "invalid number", `1.`: "invalid number", `1e`: "invalid number", `tru`: "unexpected",
		`{"a":1,"a":2}`: `duplicate key "a"`, `{"a":1,"b":2,"\u0061":3}`: `duplicate key "a"`, `{"":1,"":2}`: "duplicate key",
		`"\ud800"`: "lone surrogate", `"\ud800\u0041"`: "lone surrogate", `"\udc00"`: "lone surrogate", `"\u12"`: "escape",
		"\"\xff\"": "invalid UTF-8", "\"\n\"": "control character", `1 2`: "more data", `{}x`: "more data", `[1}`: "unexpected", `"a`: "end of JSON", `"\`: "end of JSON", `"\x"`: "invalid escape",
		strings.Repeat("[", MaxDepth+1): "deeper than", `[`: "end of JSON", `{"a":`: "end of JSON", "\u00a01": "unexpected",
	}
	for s, want := range bad {
		err := CheckJSON([]byte(s))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckJSON(%q) = %v, want %q", s, err, want)
		}
	}
}

// FuzzCheckJSON: whatever is accepted, encoding/json reads too and re-encodes
// to something that is accepted again.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":null}]}`, `"\ud83d\ude00"`, `1e5`, `{"a":1,"a":2}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckJSON(b) != nil {
			return
		}
		var v any
		if err := Unmarshal(b, &v); err != nil {
			t.Fatalf("accepted %q, but encoding/json says %v", b, err)
		}
		if !json.Valid(b) {
			t.Fatalf("accepted %q, which encoding/json calls invalid", b)
		}
		again, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckJSON(again); err != nil {
			t.Fatalf("%q re-encoded as %q: %v", b, again, err)
		}
	})
}

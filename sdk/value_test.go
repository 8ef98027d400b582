package sdk

import (
	"encoding/json"
	"testing"
)

func TestDecodeAny(t *testing.T) {
	t.Parallel()
	v, err := DecodeAny([]byte(`{"a":[1e400,-2.50E-400,"1e9999"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if list := v.(map[string]any)["a"].([]any); list[1] != json.Number("-2.50E-400") {
		t.Errorf("numbers are not kept as written: %v", list)
	}
	for _, bad := range []string{`1e401`, `[{"a":-1E-401}]`, `1e99999999999999999999`, `{"a":1,"a":2}`, `1 2`} {
		if v, err := DecodeAny([]byte(bad)); err == nil {
			t.Errorf("%s became %v", bad, v)
		}
	}
}

// TestHeaderValue: a string or a bound secret, which the host fills in.
func TestHeaderValue(t *testing.T) {
	t.Parallel()
	var in map[string]HeaderValue
	if err := json.Unmarshal([]byte(`{"a":"x","b":{"$secret":"token"},"c":""}`), &in); err != nil {
		t.Fatal(err)
	}
	op := &HTTPOp{}
	for _, name := range []string{"a", "b", "c"} {
		in[name].Set(op, name, "Bearer ")
	}
	if len(op.Headers) != 1 || op.Headers["a"][0] != "Bearer x" || len(op.Secrets) != 1 || op.Secrets[0] != (HeaderSecret{"b", "Bearer ", "token"}) {
		t.Errorf("%+v", op)
	}
	for _, bad := range []string{`1`, `[]`, `{"$secret":1}`, `{}`, `{"other":"x"}`} {
		if err := json.Unmarshal([]byte(bad), new(HeaderValue)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var envelopes = []string{
	`{"v":1,"step_type":"chat","input":{"a":[1,2.50,"中文"]},"config":{}}`,
	` { "input" : { "a" : 1 } , "config" : null , "v" : 1 } `,
	`{"\u0069nput":1,"engine":"x"}`, `{"Input":1,"input":2,"CONFIG":3}`, `{"input":1,"Input":2}`,
	`{"input":1,"input":2}`, `{"input":{"a":1,"\u0061":2}}`, `{}`, `null`, `[]`, `[{"input":1}]`, `{"input":`, `{"input":1}}`,
	`{"v":"text","input":1}`, `{"x":{"input":1},"v":2}`, "{\"input\":\"\xff\"}", `{"input":"\ud800"}`,
	`{"output":"long text","usage":[{"model":"m","calls":1}]}`, `{"output":null}`, `{"output":1,"error":{"class":"internal"},"context":{}}`,
	`{"error":{"class":"refused","details":{"a":1}}}`, `{"OUTPUT":1}`, `{"output":{"a":1},"warnings":[{"message":"<&>"}]}`,
}

// sameAsPlain: what is read of a message and written of it is what encoding/json
// would read and write, behind CheckJSON.
func sameAsPlain[T any](t *testing.T, b []byte) {
	t.Helper()
	var got, want T
	gotErr := Unmarshal(b, &got)
	wantErr := CheckJSON(b)
	if wantErr == nil {
		wantErr = decode(b, &want)
	}
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		t.Fatalf("%T of %q: %v, want %v", got, b, gotErr, wantErr)
	}
	if gotErr != nil {
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%T of %q (-plain +got):\n%s", got, b, d)
	}
	text, err := Marshal(&got)
	plain, plainErr := encode(&want)
	if err != nil || plainErr != nil || !bytes.Equal(text, plain) {
		t.Fatalf("%T of %q is written as %q, %v; want %q, %v", got, b, text, err, plain, plainErr)
	}
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	for _, s := range envelopes {
		sameAsPlain[Request](t, []byte(s))
		sameAsPlain[Response](t, []byte(s))
	}
}

// FuzzEnvelope is TestEnvelopes for any text.
func FuzzEnvelope(f *testing.F) {
	for _, s := range envelopes {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sameAsPlain[Request](t, b)
		sameAsPlain[Response](t, b)
	})
}

// What is not JSON is refused when it is written, and space goes.
func TestMarshalChecksRawMembers(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `{`, `1 2`, `{"a":}`} {
		if b, err := Marshal(&Request{Input: json.RawMessage(raw), Config: json.RawMessage(`{}`)}); err == nil {
			t.Errorf("input %q is written as %q", raw, b)
		}
		if raw == "" {
			continue // no output
		}
		if b, err := Marshal(&Response{Output: json.RawMessage(raw)}); err == nil {
			t.Errorf("output %q is written as %q", raw, b)
		}
	}
	b, err := Marshal(&Response{Output: json.RawMessage(" [ 1 ,\n2 ] ")})
	if err != nil || string(b) != `{"output":[1,2]}` {
		t.Errorf("%q, %v", b, err)
	}
}

// A byte that ends the fast way through a string is met at every place of eight.
func TestStringsAtEveryOffset(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		pad := strings.Repeat("x", n)
		for tail, want := range map[string]string{
			``: "", `\n`: "", "\u007f": "", "é": "", "!#[]~": "", "\x1f": "control", "\x00": "control", "\xff": "UTF-8", `\q`: "escape", `"`: "more data",
		} {
			err := CheckJSON([]byte(`"` + pad + tail + pad + `"`))
			if tail == `"` && n == 0 {
				want = "more data" // `"""`
			}
			var e *SyntaxError
			switch {
			case want == "" && err != nil, want != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), want)):
				t.Errorf("%q after %d: %v, want %q", tail, n, err, want)
			}
		}
	}
}

// Equal keys are found in small and large objects, and only within one object.
func TestDuplicateKeysInLargeObjects(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, manyKeys - 1, manyKeys, manyKeys + 1, 100} {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"k` + strings.Repeat("x", i) + `":{"k":[{"k":1}]},`)
		}
		if err := CheckJSON([]byte(`{` + b.String() + `"last":1}`)); err != nil {
			t.Errorf("%d keys: %v", n, err)
		}
		for _, again := range []string{"k", "k" + strings.Repeat("x", n-1)} {
			if err := CheckJSON([]byte(`{` + b.String() + `"` + again + `":1}`)); err == nil {
				t.Errorf("%d keys and %.20q again are accepted", n, again)
			}
		}
	}
}

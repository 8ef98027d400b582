package operation

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/sdk"
)

// redactorOf makes a Redactor of secrets by name.
func redactorOf(values map[string]string) *Redactor {
	secrets := make([]named, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secrets = append(secrets, named{name, values[name]})
	}
	return newRedactor(secrets)
}

func TestEverySpellingIsMasked(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"plainsecret", `p"a\s/s<>&`, "ключ пароль 🏴", "a b+c=d&e/f?g", "-----x-----\x01\x7f", "0123456789"} {
		r := redactorOf(map[string]string{"k": value})
		js, _ := json.Marshal(value)
		nested, _ := json.Marshal(string(js))
		ascii := ""
		for _, u := range utf16.Encode([]rune(string(js))) {
			if u < 0x80 {
				ascii += string(rune(u))
			} else {
				ascii += fmt.Sprintf(`\u%04x`, u)
			}
		}
		b := []byte(value)
		for what, text := range map[string]string{
			"as it is": value, "JSON": string(js), "JSON in JSON": string(nested), "JSON with escapes": ascii, "query": url.QueryEscape(value), "path": url.PathEscape(value),
			"hex": hex.EncodeToString(b), "HEX": strings.ToUpper(hex.EncodeToString(b)), "base64": base64.StdEncoding.EncodeToString(b), "base64url": base64.URLEncoding.EncodeToString(b),
			"raw base64": base64.RawStdEncoding.EncodeToString(b), "basic": base64.StdEncoding.EncodeToString([]byte("user:" + value)),
			"basic2": base64.StdEncoding.EncodeToString([]byte("u:" + value + ":after")), "lower escapes": strings.ToLower(url.QueryEscape(strings.ToLower(value))),
		} {
			if what == "lower escapes" && value != strings.ToLower(value) {
				continue
			}
			got := r.Text("before " + text + " after")
			if !strings.Contains(got, "(secret k)") || strings.Contains(got, text) || len(got) > len("before (secret k) after")+16 {
				t.Errorf("%q %s: %q", value, what, got)
			}
		}
	}
}

func TestLinesAndWeakSecrets(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN KEY-----\r\nAAAABBBBCCCC\r\nDDDDEEEEFFFF\r\nab\r\n-----END KEY-----\n"
	r := redactorOf(map[string]string{"pem": pem, "flag": "true", "empty": "", "port": "8080\n", "same": "DDDDEEEEFFFF"})
	if d := cmp.Diff([]string{"empty", "flag", "port"}, r.Weak()); d != "" {
		t.Error(d)
	}
	for in, want := range map[string]string{
		"x AAAABBBBCCCC y":          "x (secret pem) y",
		"whole: " + pem:             "whole: (secret pem)\n",
		"DDDDEEEEFFFF":              "(secret pem)",
		"true 8080 ab":              "true 8080 ab",
		"-----BEGIN KEY-----":       "-----BEGIN KEY-----",
		"AAAABBBBCCCCAAAABBBBCCCC.": "(secret pem)(secret pem).",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	var none *Redactor
	if none.Text("x") != "x" || none.Weak() != nil || string(none.JSON([]byte("1"))) != "1" || string(none.Bytes([]byte("1"))) != "1" {
		t.Error("a nil Redactor changes something")
	}
	b := []byte("nothing here")
	if got := r.Bytes(b); &got[0] != &b[0] {
		t.Error("what holds no secret was copied")
	}
}

func TestTheLongerSecretWins(t *testing.T) {
	t.Parallel()
	r := redactorOf(map[string]string{"short": "abcdefgh", "long": "abcdefgh-ijkl"})
	if got := r.Text("abcdefgh abcdefgh-ijkl abcdefgh-ijk"); got != "(secret short) (secret long) (secret short)-ijk" {
		t.Error(got)
	}
}

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	r := redactorOf(map[string]string{"k": "nabcdefg\"h", "n": "1234567890"})
	for in, want := range map[string]string{
		`{"a":"nabcdefg\"h","b":[ 1.50 ]}`:   `{"a":"(secret k)","b":[ 1.50 ]}`,
		`["\nabcdefg\"h"]`:                   `["\nabcdefg\"h"]`, // the n belongs to the escape
		`"\u006eabcdefg\u0022h"`:             `"(secret k)"`,
		`{"x nabcdefg\"h":12345678901}`:      `{"x (secret k)":"(secret n)1"}`,
		`{"n":1234567890,"m":-1234567890.5}`: `{"n":"(secret n)","m":"-(secret n).5"}`,
		`{"n":"中文 🏴 1234567890"}`:            `{"n":"中文 🏴 (secret n)"}`,
		`not JSON 1234567890`:                `not JSON (secret n)`,
	} {
		if got := string(r.JSON([]byte(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// TestStreamEqualsWhole: wherever a text is cut, the stream masks what the
// whole would have masked, and nothing of a secret passes before its end.
func TestStreamEqualsWhole(t *testing.T) {
	t.Parallel()
	r := redactorOf(map[string]string{"a": "abababab", "b": "ababababcc", "c": "line-one\nline-two\n"})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "abababab", "ababababcc", "c", "line-one", "\n", "line-two", "YWJhYmFiYWI", "61626162", "x"}), 0, 30).Draw(t, "text")
		text := strings.Join(pieces, "")
		want := string(r.Bytes([]byte(text)))
		s := r.Stream()
		var got []byte
		for rest := text; ; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "cut")
			if rest == "" {
				break
			}
			got = append(got, s.Next([]byte(rest[:n]), false)...)
			if !strings.HasPrefix(want, string(got)) {
				t.Fatalf("after %q: %q, want a beginning of %q", text[:len(text)-len(rest)+n], got, want)
			}
			rest = rest[n:]
		}
		if got = append(got, s.Next(nil, true)...); string(got) != want {
			t.Fatalf("%q became %q, in one piece %q", text, got, want)
		}
		read, err := io.ReadAll(iotest.OneByteReader(r.Reader(iotest.OneByteReader(strings.NewReader(text)))))
		if err != nil || string(read) != want {
			t.Fatalf("read: %q, %v, want %q", read, err, want)
		}
	})
}

// FuzzRedactor: no value survives, and JSON stays JSON.
func FuzzRedactor(f *testing.F) {
	f.Add("secretvalue", `{"a":"secretvalue"}`)
	f.Add(`q"uo\ted/`, `["q\"uo\\ted\/"]`)
	f.Add("12345678", `{"n":123456789}`)
	f.Add("(secret k)", `x (secret k)`)
	f.Fuzz(func(t *testing.T, value, text string) {
		r := redactorOf(map[string]string{"k": value})
		out := r.JSON([]byte(text))
		if sdk.CheckJSON([]byte(text)) == nil && sdk.CheckJSON(out) != nil && !strings.Contains(string(out), `(secret k)`) {
			t.Errorf("%s became %s", text, out)
		}
		v := strings.TrimRight(value, "\r\n")
		if plain := r.Bytes([]byte(text)); len(v) >= minSecret && !strings.Contains("(secret k)", v[:1]) && !strings.Contains("(secret k)", v[len(v)-1:]) && bytes.Contains(plain, []byte(v)) {
			t.Errorf("%q still holds %q", plain, v)
		}
	})
}

func BenchmarkRedactor(b *testing.B) {
	r := redactorOf(map[string]string{"a": strings.Repeat("secret-", 6), "b": "another secret value"})
	text := bytes.Repeat([]byte(`{"role":"assistant","content":"Nothing of a secret in here, as a rule."},`), 1<<14)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r.Bytes(text)
	}
}

// TestRedactorWith: a Redactor that was extended masks old and new values, the
// one that it was made of only the old.
func TestRedactorWith(t *testing.T) {
	t.Parallel()
	var none *Redactor
	one := none.With("key", "first-value")
	two := one.With("key", "first-other").With("pin", "1234").With("a", "12").With("pin", "1234")
	if one.With("key", "first-value") != one {
		t.Error("a value that is known makes another Redactor")
	}
	const text = "first-value first-other Zmlyc3Qtb3RoZXI= 1234"
	for r, want := range map[*Redactor]string{
		none: text, one: "(secret key) first-other Zmlyc3Qtb3RoZXI= 1234", two: "(secret key) (secret key) (secret key) 1234",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := two.Weak(); !slices.Equal(got, []string{"a", "pin"}) || one.Weak() != nil {
		t.Errorf("weak: %q", got)
	}
}

package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

func TestSanitize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ patterns, in, want string }{
		{"", ` {"request_id": 1}`, ` {"request_id": 1}`},
		{"took", `{"took":1}`, `{}`},
		{"took", `{ "took" : 1 }`, `{}`},
		{"took", `{"took":1, "b":2}`, `{ "b":2}`},
		{"took", `{"a" : 1e0 , "took":{"x":[1,2]},"c":"\u0041"}`, `{"a" : 1e0 ,"c":"\u0041"}`},
		{"took", `{"a":1, "took":2 }`, `{"a":1}`},
		{"took", `{"\u0074ook":1,"b":2}`, `{"b":2}`},
		{"took", `{"x":{"took":1}}`, `{"x":{"took":1}}`},
		{"took", `["took",{"took":1}]`, `["took",{"took":1}]`},
		{"took", `"took"`, `"took"`},
		{"a,b", `{"a":1,"b":2,"c":3,"a2":4}`, `{"c":3,"a2":4}`},
		{"a,c,e", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"b":2,"d":4}`},
		{"meta.took", `{"took":1,"meta":{"took":2,"kept":3}}`, `{"took":1,"meta":{"kept":3}}`},
		{"*.request_id", `{"request_id":0,"a":{"request_id":1},"b":[{"request_id":2}]}`, `{"request_id":0,"a":{},"b":[{"request_id":2}]}`},
		{"items.*.request_id", `{"items":[{"request_id":2,"n":1},[],{"n":2}]}`, `{"items":[{"n":1},[],{"n":2}]}`},
		{"items.1.n", `{"items":[{"n":1},{"n":2}]}`, `{"items":[{"n":1},{}]}`},
		{"items.1", `{"items":[1,2]}`, `{"items":[1,2]}`}, // an element is no member
		{"*,*.a", `[{"a":1}]`, `[{}]`}, // and what is inside it counts still
		{"items.1", `{"items":{"1":1,"2":2}}`, `{"items":{"2":2}}`},
		{"**.id", `{"id":1,"a":[{"id":2,"b":{"id":3}}],"idx":4}`, `{"a":[{"b":{}}],"idx":4}`},
		{"a.**.z", `{"z":1,"a":{"z":2,"b":{"c":{"z":3,"y":4}}}}`, `{"z":1,"a":{"b":{"c":{"y":4}}}}`},
		{"*_id", `{"a_id":1,"_id":2,"id":3,"a_idx":4}`, `{"id":3,"a_idx":4}`},
		{"x*y*z", `{"xyz":1,"xayaz":2,"xz":3,"xyyzz":4,"xyza":5}`, `{"xz":3,"xyza":5}`},
		{"ab*ba", `{"aba":1,"abba":2}`, `{"aba":1}`}, // the ends do not overlap
		{"*", `{"a":1,"b":{"c":2}}`, `{}`},
		{"*.*", `{"a":1,"b":{"c":2}}`, `{"a":1,"b":{}}`},
		{`a\.b`, `{"a.b":1,"a":{"b":2}}`, `{"a":{"b":2}}`},
		{`\*\*`, `{"**":1,"a":2}`, `{"a":2}`},
		{"流程.编号", `{"流程":{"编号":1,"文":"é🏴"}}`, `{"流程":{"文":"é🏴"}}`},
		{"a.b,a", `{"a":{"b":1},"c":{"a":{"b":2}}}`, `{"c":{"a":{"b":2}}}`},
		{"**.**.**.**.z", strings.Repeat(`{"a":`, 190) + `{"z":1,"y":2}` + strings.Repeat(`}`, 190), strings.Repeat(`{"a":`, 190) + `{"y":2}` + strings.Repeat(`}`, 190)},
	} {
		var o checkpoint.SanitizerOptions
		for i, p := range strings.FieldsFunc(c.patterns, func(r rune) bool { return r == ',' }) {
			if i%2 == 0 { // the two lists are one set
				o.Transient = append(o.Transient, p)
			} else {
				o.Redact = append(o.Redact, p)
			}
		}
		s, err := checkpoint.NewSanitizer(o)
		if err != nil {
			t.Errorf("%s: %v", c.patterns, err)
			continue
		}
		in := json.RawMessage(c.in)
		out, err := s.Sanitize(in, nil)
		if err != nil || string(out.Data()) != c.want {
			t.Errorf("%s: %s\ngives %s, %v\nwant  %s", c.patterns, c.in, out.Data(), err, c.want)
			continue
		}
		if out.Digest() != valueDigest(t, c.want) {
			t.Errorf("%s: digest %s", c.want, out.Digest())
		}
		if string(in) != c.in {
			t.Errorf("%s: the input was changed to %s", c.in, in)
		}
		if c.in == c.want && &in[0] != &out.Data()[0] {
			t.Errorf("%s: copied, though nothing was removed", c.in)
		}
	}
}

func TestSanitizerPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"": "is empty", ".": "is empty", "a.": "is empty", ".a": "is empty", "a..b": "is empty",
		`a\`: "ends in a backslash", "a.**": "would remove everything", "\xff": "not valid UTF-8",
	} {
		for list, o := range map[string]checkpoint.SanitizerOptions{"transient": {Transient: []string{"fine", pattern}}, "redact": {Redact: []string{pattern}}} {
			_, err := checkpoint.NewSanitizer(o)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%s pattern %q", list, pattern)) {
				t.Errorf("%s %q: %v, want %q", list, pattern, err, want)
			}
		}
	}
}

func newSanitizer(t interface {
	Helper()
	Fatalf(string, ...any)
}, patterns ...string) *checkpoint.Sanitizer {
	t.Helper()
	s, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{Transient: patterns})
	if err != nil {
		t.Fatalf("NewSanitizer: %v", err)
	}
	return s
}

// reported is the context as a record of the output stores it.
func reported(t *testing.T, context string) (string, error) {
	t.Helper()
	out, err := newSanitizer(t).Sanitize(json.RawMessage(`{"user_id":7}`), json.RawMessage(context))
	if err != nil {
		return "", err
	}
	if string(out.Data()) != `{"user_id":7}` {
		t.Errorf("the rule for contexts changed the output to %s", out.Data())
	}
	r := &checkpoint.Record{}
	checkpoint.NewBatch("t", "w").PutCheckpoint(r, out)
	return string(r.Context.Reported), nil
}

func TestSanitizeContext(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                         ``,
		`{}`:                       `{}`,
		` {"model":"m", "seed":1}`: ` {"model":"m", "seed":1}`,
		`{"request_id":1,"response_id":2,"user_id":3,"raw_response":4,"debug_info":5,"timestamp":6,"start_time":7,"created_at":8,"git_hash":9,"model":"m"}`: `{"model":"m"}`,
		`{"a":[{"b":{"x_id":1,"my_timestamp":2,"id":3,"time":4}}],"idle":5}`:                                                                                `{"a":[{"b":{"id":3,"time":4}}],"idle":5}`,
		`{"\u005fid":1,"模型":"é"}`:                                                      `{"模型":"é"}`,
		`{"big":"` + strings.Repeat("x", sdk.MaxContext-10) + `"}`:                     `{"big":"` + strings.Repeat("x", sdk.MaxContext-10) + `"}`,
		`{"big":"` + strings.Repeat("x", sdk.MaxContext-9) + `"}`:                      fmt.Sprintf(`{"dropped_bytes":%d}`, sdk.MaxContext+1),
		`{"raw_response":"` + strings.Repeat("x", 2*sdk.MaxContext) + `","model":"m"}`: `{"model":"m"}`,
	} {
		if got, err := reported(t, in); err != nil || got != want {
			t.Errorf("%.80s\ngives %.80s, %v\nwant  %.80s", in, got, err, want)
		}
	}
	for _, bad := range []string{`null`, `[]`, `"a"`, `1`, `{"a":1,"a":2}`, `{`, strings.Repeat(" ", 100), strings.Repeat(" ", 100) + `[]`} {
		_, err := reported(t, bad)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Class != sdk.ClassProtocol || !strings.HasPrefix(e.Message, "context: ") {
			t.Errorf("context %q: %v", bad, err)
		}
	}
	if got, err := reported(t, strings.Repeat(" ", 100)+`{"a_id":1}`); err != nil || strings.TrimSpace(got) != `{}` {
		t.Errorf("a context behind much space: %q, %v", got, err)
	}
}

// TestSanitizeHostile: outputs that readers understand differently, or not at
// all, are the step's fault; the others pass byte for byte.
func TestSanitizeHostile(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"01_dup_keys.json":       "duplicate key",
		"02_numbers.json":        "",
		"03_lone_surrogate.json": "lone surrogate",
		"05_nul.json":            "",
		"06_two_values.json":     "more data",
	}
	files, err := filepath.Glob("testdata/hostile/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := newSanitizer(t, "**.nothing").Sanitize(b, nil)
		fault := want[filepath.Base(file)]
		if fault == "" {
			if err != nil || string(out.Data()) != string(b) {
				t.Errorf("%s: %s, %v", file, out.Data(), err)
			}
			continue
		}
		var e *sdk.Error
		if !errors.As(err, &e) || e.Class != sdk.ClassProtocol || !strings.Contains(e.Message, fault) || !strings.HasPrefix(e.Message, "output: ") {
			t.Errorf("%s: %v, want %q", file, err, fault)
		}
	}
	if _, err := newSanitizer(t).Sanitize(nil, nil); err == nil {
		t.Error("no output at all was taken")
	}
}

func TestSanitizerText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "流程 שלום 🏴‍☠️", "\x1b[31mred\x00\r\n"} {
		if got := newSanitizer(t).Text(text); got != text {
			t.Errorf("Text(%q) = %q", text, got)
		}
	}
}

// TestSanitizeProperty compares with removal from the decoded value, with
// patterns as regular expressions over paths.
func TestSanitizeProperty(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "*b", "**", "request_id", `a\.b`, "0", "*_id"})
	rapid.Check(t, func(t *rapid.T) {
		v := values(3).Draw(t, "value")
		text := spell(t, v)
		var patterns []string
		var paths []*regexp.Regexp
		for range rapid.IntRange(0, 3).Draw(t, "patterns") {
			segments := append(rapid.SliceOfN(segment, 0, 3).Draw(t, "path"), rapid.SampledFrom([]string{"a", "*", "*b", "request_id"}).Draw(t, "last"))
			patterns = append(patterns, strings.Join(segments, "."))
			paths = append(paths, pathRegexp(segments))
		}
		out, err := newSanitizer(t, patterns...).Sanitize(json.RawMessage(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := sdk.CheckJSON(out.Data()); err != nil {
			t.Fatalf("%s without %q became %s: %v", text, patterns, out.Data(), err)
		}
		want := spell(t, without(v, "", paths))
		if out.Digest() != valueDigest(t, want) || out.Digest() != valueDigest(t, string(out.Data())) {
			t.Fatalf("%s without %q became %s, want %s", text, patterns, out.Data(), want)
		}
		if !isSubsequence(string(out.Data()), text) {
			t.Fatalf("%s without %q became %s, which has other bytes", text, patterns, out.Data())
		}
	})
}

// pathRegexp matches paths written as names that each begin with \x1f, which no
// drawn pattern holds.
func pathRegexp(segments []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for _, s := range segments {
		if s == "**" {
			b.WriteString(`(\x{F0000}[^\x{F0000}]*)*`)
			continue
		}
		s = strings.ReplaceAll(s, `\.`, ".")
		b.WriteString(`\x{F0000}` + strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, `[^\x{F0000}]*`))
	}
	return regexp.MustCompile(b.String() + `$`)
}

func without(v any, path string, paths []*regexp.Regexp) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = without(v[i], path+"\U000F0000"+strconv.Itoa(i), paths)
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for k := range v {
			at := path + "\U000F0000" + k
			if !slices.ContainsFunc(paths, func(r *regexp.Regexp) bool { return r.MatchString(at) }) {
				object[k] = without(v[k], at, paths)
			}
		}
		return object
	}
	return v
}

func isSubsequence(part, whole string) bool {
	i := 0
	for j := 0; i < len(part) && j < len(whole); j++ {
		if part[i] == whole[j] {
			i++
		}
	}
	return i == len(part)
}

func FuzzSanitize(f *testing.F) {
	for _, s := range []string{`{"a":{"request_id":1},"b":[{"x_id":2}]}`, `{ "a" : 1 , "a_id" : {} }`, `[{"a":1},{}]`, `{"":{"":1}}`, `{"a":1}x`, "{\"\\u0061\":\"\xff\"}"} {
		f.Add([]byte(s), []byte(s))
	}
	s := newSanitizer(f, "a", "*.request_id", "**.b.c*", "**._*d")
	f.Fuzz(func(t *testing.T, output, context []byte) {
		before := string(output)
		out, err := s.Sanitize(output, context)
		if string(output) != before {
			t.Fatalf("the output was changed from %q to %q", before, output)
		}
		if err != nil {
			var e *sdk.Error
			if !errors.As(err, &e) || e.Class != sdk.ClassProtocol {
				t.Fatalf("error %v", err)
			}
			return
		}
		d, err := checkpoint.ValueDigest(out.Data())
		if err != nil || d != out.Digest() {
			t.Fatalf("%q became %q: digest %s, %v", before, out.Data(), d, err)
		}
		again, err := s.Sanitize(out.Data(), nil)
		if err != nil || string(again.Data()) != string(out.Data()) {
			t.Fatalf("%q became %q, then %q, %v", before, out.Data(), again.Data(), err)
		}
		r := &checkpoint.Record{}
		checkpoint.NewBatch("t", "w").PutCheckpoint(r, out)
		if c := r.Context.Reported; len(c) > sdk.MaxContext || len(c) > 0 && sdk.CheckJSON(c) != nil {
			t.Fatalf("context %q became %q", context, c)
		}
	})
}

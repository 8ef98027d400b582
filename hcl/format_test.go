package hcl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestFormatGolden: each file of the corpus, with other line ends, a byte order
// mark, tabs and without its last line end too, keeps its tokens and its
// identities, and the result keeps itself. The layout is in want.hcl; run with
// -update to write it.
func TestFormatGolden(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/format/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in := ar.Files[0].Data
		out := checkFormat(t, path, in)
		if *update {
			ar.Files[1].Data = out
			if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(string(ar.Files[1].Data), string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		crlf := bytes.ReplaceAll(in, []byte("\n"), []byte("\r\n"))
		checkFormat(t, path+" with CRLF", crlf)
		marked := checkFormat(t, path+" with CRLF and BOM", append(bytes.Clone(bom), crlf...))
		if !bytes.HasPrefix(marked, bom) || bytes.Count(marked, []byte("\r\n")) != bytes.Count(in, []byte("\n")) {
			t.Errorf("%s: line ends or mark are lost", path)
		}
		checkFormat(t, path+" with tabs", bytes.ReplaceAll(in, []byte("\n  "), []byte("\n\t")))
		checkFormat(t, path+" without its end", bytes.TrimRight(in, "\n"))
	}
}

// checkFormat formats a flow and checks what must not change.
func checkFormat(t *testing.T, name string, in []byte) []byte {
	t.Helper()
	out, ds := Format(name, in)
	if ds.HasErrors() {
		t.Fatalf("%s: %s", name, explain(ds))
	}
	if !sameTokens(bytes.TrimPrefix(in, bom), bytes.TrimPrefix(out, bom)) {
		t.Errorf("%s: tokens change", name)
	}
	if again, _ := Format(name, out); !bytes.Equal(again, out) {
		t.Errorf("%s: formatting again changes it: %s", name, cmp.Diff(string(out), string(again)))
	}
	before, ds1 := Parse([]File{{Path: "flow.hcl", Bytes: in}})
	after, ds2 := Parse([]File{{Path: "flow.hcl", Bytes: out}})
	if ds1.HasErrors() || ds2.HasErrors() {
		t.Fatalf("%s: %s%s", name, explain(ds1), explain(ds2))
	}
	same(t, before, after)
	return out
}

// TestFormatRefuses: a file with mistakes has no layout; one with names that
// mean nothing has.
func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"a = ", "step \"a\" {", "a = <<E\n", "\xff", "a = " + strings.Repeat("(", 1000)} {
		out, ds := Format("x.hcl", []byte(src))
		if out != nil || !ds.HasErrors() || ds[0].Subject.File != "x.hcl" {
			t.Errorf("%.20q became %q %s", src, out, explain(ds))
		}
	}
	for src, want := range map[string]string{"": "", "\n\n": "\n\n", "no =such\n  \t": "no = such\n", "a=1\nbb=2\n": "a  = 1\nbb = 2\n", "run  \"x\" {\nassert{}\n}\n": "run \"x\" {\n  assert {}\n}\n"} {
		if out, ds := Format("x.hcl", []byte(src)); string(out) != want || len(ds) > 0 {
			t.Errorf("%q became %q %s", src, out, explain(ds))
		}
	}
}

// TestFormatParts: what cannot be laid out stays, and the rest is laid out
// nevertheless.
func TestFormatParts(t *testing.T) {
	t.Parallel()
	text := "# c\na=1 # d\n\nb {\n c=2\n} // e\nd=<<E\nx\nE\n/* f\n*/ g=3\n# h"
	var joined []byte
	var got []string
	for _, p := range parts([]byte(text)) {
		joined = append(joined, p...)
		got = append(got, string(p))
	}
	want := []string{"# c\na=1 # d\n", "\nb {\n c=2\n} // e\n", "d=<<E\nx\nE\n", "/* f\n*/ g=3\n", "# h"}
	if diff := cmp.Diff(want, got); diff != "" || string(joined) != text {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// FuzzFormat: of any text that parses, tokens stay and one pass is enough.
func FuzzFormat(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(everythingNative))
	for _, s := range []string{"a {\n b = <<-E\n  x\n   ${\n y }\n  E\n}\n", "a = [ # c\n1,\n/* d\n*/ 2]\n", "a=1//x\nbb  = 2 # y\n", "\xef\xbb\xbfa   =  1\r\n", "a = \"${ x }\"\n# 中文\nbbb = { c=1,\n d = 2 }"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out, ds := Format("x.hcl", src)
		if ds.HasErrors() {
			return
		}
		if !sameTokens(bytes.TrimPrefix(out, bom), bytes.TrimPrefix(src, bom)) {
			t.Errorf("%q became %q", src, out)
		}
		if again, ds := Format("x.hcl", out); !bytes.Equal(again, out) {
			t.Errorf("%q becomes %q, then %q %s", src, out, again, explain(ds))
		}
	})
}

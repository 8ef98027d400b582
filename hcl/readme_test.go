package hcl

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadme: the flow in the manual loads, in JSON form it is the same, and the manual names every function,
// block and argument.
func TestReadme(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	_, flow, _ := strings.Cut(text, "```hcl\n")
	flow, _, ok := strings.Cut(flow, "```")
	w, ds := Parse([]File{{Path: "README.md", Bytes: []byte(flow)}})
	if !ok || len(ds) > 0 || len(w.Steps) != 2 {
		t.Errorf("the first flow: %s", explain(ds))
	}
	if out, _ := Format("README.md", []byte(flow)); string(out) != flow {
		t.Errorf("its layout (-README +fmt):\n%s", cmp.Diff(flow, string(out)))
	}
	_, form, _ := strings.Cut(text, "```json\n")
	form, _, _ = strings.Cut(form, "```")
	if other, ds := Parse([]File{{Path: "README.json", Bytes: []byte(form)}}); len(ds) > 0 || !cmp.Equal(w, other, asRead) {
		t.Errorf("its JSON form: %s %s", explain(ds), cmp.Diff(w, other, asRead))
	}
	words := map[string]bool{}
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`[a-z_0-9]+`).FindAllString(span, -1) {
			words[word] = true
		}
	}
	for _, f := range functionNames() {
		if !words[f] {
			t.Errorf("the function %s is not described", f)
		}
	}
	var check func(kind string, b *blockType)
	check = func(kind string, b *blockType) {
		if !words[kind] && !strings.Contains(text, "### "+kind) {
			t.Errorf("the block %s is not described", kind)
		}
		for _, a := range b.args {
			if !words[a] {
				t.Errorf("the argument %s of %s is not described", a, kind)
			}
		}
		for kind, inner := range b.inner {
			check(kind, inner)
		}
	}
	for _, blocks := range []map[string]*blockType{topBlocks, testBlocks} {
		for kind, b := range blocks {
			check(kind, b)
		}
	}
}

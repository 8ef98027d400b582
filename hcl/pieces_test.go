package hcl

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// sameTree reports how the tree of the pieces differs from the tree of the whole;
// pieces tells whether there was one of pieces at all.
func sameTree(src string, size int) (diff string, pieces bool) {
	s := newScanner([]byte(src), scanBody)
	s.piece = size
	if found, _ := s.run(); found != withinLimits {
		return "", false
	}
	start := hclv2.Pos{Line: 1, Column: 1, Byte: 3}
	got, _ := parsePieces([]byte(src), "flow.hcl", start, s.cuts)
	if got == nil {
		return "", false
	}
	file, ds := hclsyntax.ParseConfig([]byte(src), "flow.hcl", start)
	if ds.HasErrors() {
		return ds.Error(), true
	}
	diff = cmp.Diff(file.Body, hclv2.Body(got), cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty(), cmp.Comparer(func(a, b cty.Value) bool { return a.RawEquals(b) }),
		cmp.Comparer(func(a, b *hclsyntax.Operation) bool { return a == b })) // one for each sign
	return diff[:min(len(diff), 4000)], true
}

func FuzzPieces(f *testing.F) {
	for _, s := range append(scanSeeds, "a \"b\" {\n}\n\n# c\nd {\n x = <<E\n}\nE\n}\r\n/*\n*/ e {}\n", "a {}\nb = 1\n", "a {}\n}\nb {\n", "a {}\n/*\nb {}\n") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if invalidUTF8([]byte(src)) >= 0 || strings.Contains(src, "\x00") {
			return // refused before
		}
		if diff, _ := sameTree(src, 1); diff != "" {
			t.Fatalf("%q: the tree of the whole is another (-whole +pieces):\n%s", src, diff)
		}
	})
}

// TestPiecesOfFlows: cut wherever it may be, each flow of the repository gives the
// tree that it gives when it is read as a whole.
func TestPiecesOfFlows(t *testing.T) {
	t.Parallel()
	n := 0
	err := filepath.WalkDir("../testdata/flows", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".hcl") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		diff, pieces := sameTree(string(src), 1)
		if diff != "" {
			t.Errorf("%s: the tree of the whole is another (-whole +pieces):\n%s", path, diff)
		}
		if pieces {
			n++
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d flows were cut, %v", n, err)
	}
}

// TestPieces: a mistake, and an attribute outside of blocks, are left to the whole;
// positions count on from piece to piece.
func TestPieces(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		"a {}\nb {}\n": true, "a {\n x = 1\n}\n\n\n# 中\nb {\n y = \"é${1}\"\n}": true,
		"a {}\nb = 1\n": false, "a {}\nb {\n": false, "a {}\n}\nb {}\n": false, "a {}": false,
	} {
		if diff, pieces := sameTree(src, 1); diff != "" || pieces != want {
			t.Errorf("%q: in pieces %v, want %v; %s", src, pieces, want, diff)
		}
	}
}

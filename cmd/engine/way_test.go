package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheWayOfOneStep: every function that the package documentation names on the way
// from the text of a flow to a checkpoint is there.
func TestTheWayOfOneStep(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, way, _ := strings.Cut(string(text), "# The way of one step")
	way, _, _ = strings.Cut(way, "# Design")
	way = strings.NewReplacer("\n//", " ", "\n", " ").Replace(way)
	names := regexp.MustCompile(`\b((?:hcl|host|recovery|checkpoint)(?:/[a-z]+)?)\.((?:[a-zA-Z]+\.)?[a-zA-Z]+)\b`).FindAllStringSubmatch(way, -1)
	if len(names) < 20 {
		t.Fatalf("%d names: %q", len(names), names)
	}
	known := map[string]map[string]bool{}
	for _, n := range names {
		if n[2] == "hcl" { // flow.hcl
			continue
		}
		if known[n[1]] == nil {
			known[n[1]] = functions(t, "../../"+n[1])
		}
		if !known[n[1]][n[2]] {
			t.Errorf("there is no %s.%s", n[1], n[2])
		}
	}
}

// functions are those of a package, methods with their type before them.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case fn.Recv == nil:
				found[fn.Name.Name] = true
			default:
				typ := fn.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				if id, ok := typ.(*ast.Ident); ok {
					found[id.Name+"."+fn.Name.Name] = true
				}
			}
		}
	}
	return found
}

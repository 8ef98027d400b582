package hcl

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// TestDiagnosticsGolden reads a flow, and with a file "vars" binds it, and
// compares the text a user sees, and the JSON a program does. Adding a case needs no Go: write the files and
// run with -update.
func TestDiagnosticsGolden(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/diagnostics/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			golden(t, path)
		})
	}
}

func golden(t *testing.T, path string) {
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var files []File
	var vars []string
	bind := false
	want, wantJSON := -1, -1
	for i, f := range ar.Files {
		switch f.Name {
		case "want":
			want = i
		case "want.json":
			wantJSON = i
		case "vars":
			bind = true
			vars = strings.Fields(string(f.Data))
		default:
			files = append(files, File{Path: f.Name, Bytes: f.Data})
		}
	}
	w, ds := Parse(files)
	if bind && !ds.HasErrors() {
		_, more := w.Bind(BindOptions{Vars: vars})
		ds = append(ds, more...)
	}
	var got bytes.Buffer
	if err := ds.WriteText(&got, files, 100); err != nil {
		t.Fatal(err)
	}
	if got.Len() == 0 {
		t.Errorf("the flow has no mistakes")
	}
	gotJSON := bytes.ReplaceAll(ds.JSON(files), []byte(`},{"severity"`), []byte("},\n{\"severity\""))
	gotJSON = append(gotJSON, '\n')
	if *update {
		if want < 0 {
			want = len(ar.Files)
			ar.Files = append(ar.Files, txtar.File{Name: "want"})
		}
		if wantJSON < 0 {
			wantJSON = len(ar.Files)
			ar.Files = append(ar.Files, txtar.File{Name: "want.json"})
		}
		ar.Files[want].Data, ar.Files[wantJSON].Data = got.Bytes(), gotJSON
		if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want < 0 || wantJSON < 0 {
		t.Fatalf("%s has no file \"want\" or \"want.json\"; run with -update", path)
	}
	if diff := cmp.Diff(string(ar.Files[wantJSON].Data), string(gotJSON)); diff != "" {
		t.Errorf("JSON differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(ar.Files[want].Data), got.String()); diff != "" {
		t.Errorf("diagnostics differ (-want +got):\n%s", diff)
	}
}

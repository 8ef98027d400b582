package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/retrace-dev/engine/"

// imports says which of our packages each package may import; a package that is
// not listed is an error, so that adding a room is a decision.
var imports = map[string][]string{
	"sdk":                             {},
	"sdk/schema":                      {},
	"sdk/jsonschema":                  {"sdk"},
	"sdk/wire":                        {"sdk"},
	"sdk/serve":                       {"sdk", "sdk/wire"},
	"sdk/steptest":                    {"sdk", "sdk/jsonschema"},
	"sdk/c":                           {},
	"sdk/rust":                        {},
	"sdk/assemblyscript":              {},
	"sdk/examples":                    {},
	"sdk/examples/go":                 {"sdk", "sdk/serve"},
	"plugins":                         {},
	"plugins/exec":                    {"sdk"},
	"plugins/http":                    {"sdk", "sdk/serve"},
	"plugins/json":                    {"sdk", "sdk/serve"},
	"plugins/llm":                     {"sdk", "sdk/serve", "sdk/jsonschema"},
	"plugins/llm/fault":               {},
	"plugins/template":                {"sdk", "sdk/serve"},
	"plugins/text":                    {"sdk", "sdk/serve", "plugins/text/prose"},
	"plugins/text/prose":              {},
	"hcl":                             {"sdk"},
	"checkpoint":                      {"sdk"},
	"checkpoint/pebblestore":          {"checkpoint", "sdk"},
	"checkpoint/storetest":            {"checkpoint", "sdk"},
	"recovery":                        {"checkpoint", "sdk"},
	"host/loader":                     {"sdk"},
	"host/operation":                  {"sdk"},
	"host/control":                    {"checkpoint", "sdk"},
	"host/wasm":                       {"sdk", "host/loader"},
	"host/subprocess":                 {"sdk", "sdk/wire", "host/loader", "host/subprocess/internal/runner"},
	"host/subprocess/internal/runner": {},
	"host/loader/loadertest":          {"sdk", "host/loader"},
	"host":                            {"hcl", "recovery", "checkpoint", "sdk", "sdk/jsonschema", "host/loader", "host/operation"},
	"cmd/engine":                      {"*"},
}

// owners says who alone may use a third party's types.
var owners = map[string][]string{
	"github.com/hashicorp/hcl/":      {"hcl"},
	"github.com/zclconf/":            {"hcl"},
	"github.com/tetratelabs/wazero":  {"host/wasm"},
	"github.com/hashicorp/go-plugin": {"sdk/wire", "sdk/serve", "host/subprocess"},
	"google.golang.org/grpc":         {"sdk/wire", "sdk/serve", "host/subprocess"},
	"google.golang.org/protobuf":     {"sdk/wire"},
	"github.com/cockroachdb/pebble/": {"checkpoint/pebblestore"},
	"github.com/spf13/":              {"cmd/engine"},
	"code.dny.dev/ssrf":              {"host/operation"},
	"github.com/itchyny/gojq":        {"plugins/json"},
	"github.com/santhosh-tekuri/":    {"sdk/jsonschema"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []listed
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

// TestImports keeps the edges between packages to those above.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, ok := imports[name]
		if !ok {
			t.Errorf("package %s is not in the table of imports", name)
			continue
		}
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, module); ok && !slices.Contains(allowed, "*") && !slices.Contains(allowed, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
			for prefix, who := range owners {
				if strings.HasPrefix(i, prefix) && !slices.Contains(who, name) {
					t.Errorf("%s must not import %s, which belongs to %s", name, i, strings.Join(who, ", "))
				}
			}
			if name == "sdk" && strings.Contains(i, ".") {
				t.Errorf("sdk must import the standard library only, not %s", i)
			}
		}
	}
}

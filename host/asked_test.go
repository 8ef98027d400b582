package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// asking is a plugin whose manifest asks for things.
type asking struct {
	loader.Loader
	kind loader.Kind
	asks []sdk.Capability
}

func (l asking) Open(string) (*loader.Artifact, error) {
	return &loader.Artifact{Kind: l.kind, Path: "p", Digest: sdk.Sum([]byte("asking")), Manifest: &sdk.Manifest{ABI: 1, Name: "p", Steps: map[string]sdk.StepType{"echo": {}}, Capabilities: l.asks}}, nil
}

// TestWhatAManifestAsksForIsGiven: a plan of a flow that does not give it is an
// error with the manifest's reason and what to write.
func TestWhatAManifestAsksForIsGiven(t *testing.T) {
	t.Parallel()
	http, host := sdk.Capability{HTTP: "*", Reason: "asks 中文 servers"}, sdk.Capability{HTTP: "api.example.com", Reason: "asks its maker"}
	read, write := sdk.Capability{Mount: "data", Reason: "reads tables"}, sdk.Capability{Mount: "data", Mode: "rw", Reason: "writes tables"}
	env := sdk.Capability{Env: "LANG", Reason: "sorts by it"}
	for _, c := range []struct {
		asks    sdk.Capability
		native  bool
		sandbox string
		want    string // of the message; "" for none
	}{
		{asks: http, want: `Plugin "p" asks for the network|It says: "asks 中文 servers".|allow_hosts = ["HOST"]`},
		{asks: http, sandbox: `allow_hosts = ["a.example"]`},
		{asks: http, native: true},
		{asks: host, want: `Plugin "p" asks for the host api.example.com|It says: "asks its maker".|allow_hosts = ["api.example.com"]`},
		{asks: host, sandbox: `allow_hosts = ["b.example.com"]`, want: `asks for the host api.example.com`},
		{asks: host, sandbox: `allow_hosts = ["*.example.com"]`},
		{asks: host, sandbox: `allow_hosts = ["https://api.example.com:443"]`},
		{asks: sdk.Capability{HTTP: "*.example.com", Reason: "r"}, sandbox: `allow_hosts = ["eu.example.com"]`},
		{asks: sdk.Capability{HTTP: "ftp://x", Reason: "r"}, sandbox: `allow_hosts = ["x.example"]`, want: `asks for no host that there can be|scheme "ftp"`},
		{asks: read, want: `Plugin "p" asks for the mount data (ro)|It says: "reads tables".|a block mount "data" with source in`},
		{asks: read, sandbox: "mount \"data\" {\n source = \".\"\n }"},
		{asks: read, sandbox: "mount \"data\" {\n source = \".\"\n mode = \"rw\"\n }"},
		{asks: read, sandbox: "mount \"other\" {\n source = \".\"\n }", want: "asks for the mount data (ro)"},
		{asks: read, native: true},
		{asks: write, sandbox: "mount \"data\" {\n source = \".\"\n }", want: `asks for the mount data (rw)|source and mode = "rw" in`},
		{asks: write, sandbox: "mount \"data\" {\n source = \".\"\n mode = \"rw\"\n }"},
		{asks: env, want: `Plugin "p" asks for the environment variable LANG|It says: "sorts by it".|env = { LANG = "VALUE" }`},
		{asks: env, sandbox: `env = { LANG = "C" }`},
		{asks: env, native: true, sandbox: `env = { PATH = "/bin" }`, want: `asks for the environment variable LANG`},
		{asks: env, native: true, sandbox: `env = { LANG = "C" }`},
		{asks: sdk.Capability{Reason: "of a later version"}},
	} {
		kind := loader.Wasm
		if c.native {
			kind = loader.Native
		}
		text := "workflow \"w\" {}\nplugin \"p\" {\n source = \"./p\"\n"
		if c.sandbox != "" {
			text += "sandbox {\n" + c.sandbox + "\n}\n"
		}
		wf, diags := hcl.Parse([]hcl.File{{Path: "f.hcl", Bytes: []byte(text + "}\nstep \"x\" { uses = plugin.p.echo }\n")}})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		_, diags = Compile(wf, ".", []loader.Loader{asking{kind: kind, asks: []sdk.Capability{c.asks}}})
		got := ""
		for _, d := range diags {
			got += fmt.Sprintf("%s\n%s\n", d.Summary, d.Detail)
		}
		if c.want == "" && got != "" {
			t.Errorf("%s with %q: %s", c.asks, c.sandbox, got)
		}
		for _, want := range strings.Split(c.want, "|") {
			if !strings.Contains(got, want) {
				t.Errorf("%s with %q: no %q in %s", c.asks, c.sandbox, want, got)
			}
		}
	}
}

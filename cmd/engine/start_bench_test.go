package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What the engine is made of at the least: its store, sandbox, plugin protocol,
// language and log.
const leastProgram = `package main

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/tetratelabs/wazero"
)

var linked = []any{pebble.Open, hclog.New, plugin.NewClient, plugin.Serve, hclsyntax.ParseConfig, hclwrite.Format, wazero.NewRuntime}

func main() { println(len(linked)) }
`

// BenchmarkStart reports the CPU that starting takes, in milliseconds: of the engine
// (version, and validate of a small flow), of a program that does nothing but have
// the libraries linked that the engine cannot do without, and of one that has none.
// They take turns; each figure is a median.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	build := func(name, source string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return path
	}
	engine := build("engine", ".")
	flow := write("flow.hcl", "workflow \"w\" {}\noutput \"o\" { value = 1 }\n")
	programs := []struct {
		name string
		args []string
	}{
		{"version", []string{engine, "version"}},
		{"validate", []string{engine, "validate", flow}},
		{"libraries", []string{build("least", write("least.go", leastProgram))}},
		{"nothing", []string{build("nothing", write("nothing.go", "package main\n\nfunc main() {}\n"))}},
	}
	took := make([][]time.Duration, len(programs))
	for range max(b.N, 9) {
		for k, p := range programs {
			cmd := exec.Command(p.args[0], p.args[1:]...)
			if err := cmd.Run(); err != nil {
				b.Fatal(p.name, err)
			}
			took[k] = append(took[k], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	for k, p := range programs {
		slices.Sort(took[k])
		b.ReportMetric(took[k][len(took[k])/2].Seconds()*1000, "ms-"+p.name)
	}
	b.ReportMetric(0, "ns/op")
}

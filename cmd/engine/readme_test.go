package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme: the README's flow is the one under testdata, and its step of
// fifteen lines builds for both carriers and runs.
func TestReadme(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	if n := strings.Count(readme, "\n"); n > 180 {
		t.Errorf("the README has %d lines, at most 180 are read", n)
	}
	flow, err := os.ReadFile("../../testdata/flows/brief/flow.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(readme, "```hcl\n"+string(flow)+"```") {
		t.Error("the README's first flow is not testdata/flows/brief/flow.hcl")
	}
	_, code, ok := strings.Cut(readme, "<!-- step -->\n```go\n")
	code, _, ok2 := strings.Cut(code, "```")
	if !ok || !ok2 {
		t.Fatal("the README has no step")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", code)
	for out, env := range map[string][]string{"shout.wasm": {"GOOS=wasip1", "GOARCH=wasm"}, "shout": {"CGO_ENABLED=0"}} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, out), filepath.Join(dir, "main.go"))
		cmd.Env = append(os.Environ(), env...)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", out, err, b)
		}
	}
	_, manifest, _ := strings.Cut(readme, "<!-- manifest --> `")
	manifest, _, _ = strings.Cut(manifest, "`")
	write("shout.step.json", manifest)
	write("flow.hcl", `
workflow "shouts" {}
plugin "sandboxed" { source = "./shout.wasm" }
plugin "native" { source = "./shout" }
step "a" {
  uses  = plugin.sandboxed.run
  input = { text = "你好, straße" }
}
step "b" {
  uses  = plugin.native.run
  input = { text = step.a.output }
}
output "b" { value = step.b.output }
`)
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"apply", dir}, streams{in: strings.NewReader(""), out: &stdout, err: &stderr}); code != 0 || stdout.String() != "b = \"你好, STRAßE!!\"\n" {
		t.Fatalf("exit %d, %s%s", code, stdout.String(), stderr.String())
	}
}

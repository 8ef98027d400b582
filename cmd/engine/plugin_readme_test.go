//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSDKReadme: the steps of sdk/README.md build in a new project, pass the
// suite with the README's manifest, and greet; the one without an SDK runs.
func TestSDKReadme(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../sdk/README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(after, lang string) string {
		_, text, ok := strings.Cut(string(b), after)
		_, text, ok2 := strings.Cut(text, "```"+lang+"\n")
		text, _, ok3 := strings.Cut(text, "```")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("sdk/README.md has no %s after %q", lang, after)
		}
		return text
	}
	manifest := block("All of them have this manifest", "json")
	for lang, c := range map[string]struct{ after, fence, file, kind string }{
		"go":             {"**Go**", "go", "main.go", "command"},
		"c":              {"**C**", "c", "greet.c", "reactor"},
		"rust":           {"**Rust**", "rust", "src/lib.rs", "reactor"},
		"assemblyscript": {"**AssemblyScript**", "ts", "greet.ts", "reactor"},
	} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			dir := newProject(t, lang, c.kind, "greet")
			write(t, filepath.Join(dir, c.file), block(c.after, c.fence))
			write(t, filepath.Join(dir, "step.json"), manifest)
			if err := os.RemoveAll(filepath.Join(dir, "main_test.go")); err != nil {
				t.Fatal(err)
			}
			built := buildProject(t, lang, c.kind, dir)
			if got := engine(t, "plugin", "test", built); !strings.HasSuffix(got, "5 checks, 0 failed\n") {
				t.Errorf("plugin test: %s", got)
			}
		})
	}
	t.Run("no SDK", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write(t, filepath.Join(dir, "bytes.c"), block("## No SDK at all", "c"))
		if _, err := exec.LookPath("clang-14"); err != nil {
			t.Skip("clang-14 is not installed: make toolchains")
		}
		built := filepath.Join(dir, "bytes.wasm")
		if out, err := exec.Command("clang-14", "--target=wasm32-wasi", "-Os", "-s", "-o", built, filepath.Join(dir, "bytes.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		write(t, filepath.Join(dir, "case.json"), `{"request":{"input":{"stdin":"hello"}},"response":{"output":{"exit_code":0,"stdout":"5\n","stderr":"","files":{}}}}`)
		if got := engine(t, "plugin", "test", built, filepath.Join(dir, "case.json")); !strings.HasSuffix(got, "4 checks, 0 failed\n") {
			t.Errorf("plugin test: %s", got)
		}
		write(t, filepath.Join(dir, "flow.hcl"), block("## No SDK at all", "hcl"))
		write(t, filepath.Join(dir, "prompt.txt"), "שלום\n")
		if got := engine(t, "apply", dir); got != "bytes = \"9\"\n" {
			t.Errorf("apply: %s", got)
		}
	})
}

package sdk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadSidecar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.step.json", "{}")
	write("large.step.json", strings.Repeat(" ", MaxManifest+1))
	if err := os.Mkdir(filepath.Join(dir, "folder.step.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "{}", "a.wasm": "{}", "a.exe": "{}", "b.wasm": "", "a.b.wasm": ""} {
		b, err := ReadSidecar(filepath.Join(dir, name))
		if err != nil || string(b) != want || (b == nil) != (want == "") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for name, want := range map[string]string{"large.wasm": "larger than 256 KiB", "folder": "manifest: "} {
		if b, err := ReadSidecar(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

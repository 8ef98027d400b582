package wasm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

const small = `{"abi":1,"name":"small","steps":{"upper":{"description":"中文"}}}`

// TestEmbed: what is embedded is what Open finds, once, and the module runs on.
func TestEmbed(t *testing.T) {
	t.Parallel()
	for _, guest := range []string{"command", "reactor"} { // without and with a manifest
		b := readGuest(t, guest)
		before := bytes.Clone(b)
		packed, err := Embed(b, []byte(small))
		if err != nil || !bytes.Equal(b, before) {
			t.Fatalf("%s: %v", guest, err)
		}
		if n := bytes.Count(packed, []byte(sdk.ManifestSection)); n != 1 {
			t.Errorf("%s: %d manifests", guest, n)
		}
		again, err := Embed(packed, []byte(small))
		if err != nil || !bytes.Equal(packed, again) {
			t.Errorf("%s: packing again changes it, %v", guest, err)
		}
		path := filepath.Join(t.TempDir(), "small.wasm")
		if err := os.WriteFile(path, packed, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Open(path)
		if err != nil || a.Manifest.Name != "small" || a.Manifest.Steps["upper"].Description != "中文" {
			t.Fatalf("%s: %v", guest, err)
		}
		if _, err := parseModule(packed); err != nil {
			t.Errorf("%s: %v", guest, err)
		}
	}
	for text, want := range map[string]string{`{"abi":2}`: "manifest: abi 2", `{`: "manifest: "} {
		if _, err := Embed(readGuest(t, "command"), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Embed([]byte("\x00asm\x0d\x00\x01\x00"), []byte(small)); err == nil || !strings.Contains(err.Error(), "component") {
		t.Errorf("a component: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	d := Describe(readGuest(t, "reactor"))
	want := &Description{Imports: []string{"engine_v1.read", "engine_v1.write", "wasi_snapshot_preview1.fd_close", "wasi_snapshot_preview1.fd_seek", "wasi_snapshot_preview1.fd_write"}, Exports: []string{"memory", "_initialize", "step_run"}, Memory: d.Memory, Size: d.Size}
	if diff := cmp.Diff(want, d); diff != "" || d.Memory < memoryPage || d.Size == 0 {
		t.Error(diff, d)
	}
	if d := Describe(readGuest(t, "command")); !d.Command || d.Refused != nil {
		t.Errorf("%+v", d)
	}
	b, err := os.ReadFile("testdata/hostile/23_ungranted_import.wasm")
	if err != nil {
		t.Fatal(err)
	}
	if d := Describe(b); d.Refused == nil || len(d.Imports) == 0 {
		t.Errorf("a refused module is described as %+v", d)
	}
	for i := range b { // any bytes are described without harm
		Describe(b[:i])
	}
}

func readGuest(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/guests", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

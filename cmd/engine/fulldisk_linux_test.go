package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk that is full in the middle of a run ends it with one message that
// names file, cause and what to do; with room again the same command goes on,
// and nothing that was persisted runs twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk, dir := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=14m"); err != nil {
		t.Skip("a small disk needs the right to mount one: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	guest, err := os.ReadFile("../../host/wasm/testdata/guests/reactor.wasm")
	if err != nil {
		t.Fatal(err)
	}
	flow := "workflow \"big\" {}\nplugin \"p\" { source = \"./upper.wasm\" }\n"
	const steps = 200
	for i := range steps {
		flow += fmt.Sprintf("step \"s%d\" {\n  uses  = plugin.p.upper\n  input = { text = \"%d%s\" }\n}\n", i, i, strings.Repeat("x", 60_000))
	}
	for name, text := range map[string][]byte{"flow.hcl": []byte(flow), "upper.wasm": guest} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	engine := func(args ...string) (code int, stderr string) {
		var out, err bytes.Buffer
		code = run(t.Context(), append(args, "--state", filepath.Join(disk, "state")), streams{in: strings.NewReader(""), out: &out, err: &err})
		return code, err.String()
	}
	for range 2 { // the second finds no room either
		code, stderr := engine("apply", dir, "--progress", "quiet", "--min-free", "0")
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != exitStore || len(lines) != 1 || !strings.Contains(lines[0], "no space left on device") ||
			!strings.Contains(lines[0], filepath.Join(disk, "state")) || !strings.Contains(lines[0], "run the same command again") {
			t.Fatalf("exit %d, stderr:\n%s", code, stderr)
		}
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=200m"); err != nil {
		t.Fatal(err)
	}
	if code, stderr := engine("apply", dir); code != exitOK || !strings.Contains(stderr, ", continued") || strings.Contains(stderr, fmt.Sprintf(": %d ran", steps)) {
		t.Fatalf("with room again: exit %d, stderr:\n%s", code, stderr)
	}
	if code, stderr := engine("store", "check"); code != exitOK {
		t.Fatalf("check: exit %d, stderr:\n%s", code, stderr)
	}
}

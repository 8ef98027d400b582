package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
)

// TestHostileMemory: an attempt takes no more of this process's memory than its
// limit and 64 MiB, whatever its module does.
func TestHostileMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	peak := filepath.Join(dir, "peak")
	build := exec.Command("go", "build", "-o", peak, "./testdata/peak") // without the race detector's shadow
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runs := [][2]string{}
	for name, b := range hostileModules(t) {
		if hostile[name].refused != "" {
			continue
		}
		path := filepath.Join(dir, name+".wasm")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		speaks(t, path)
		runs = append(runs, [2]string{path, `{}`})
	}
	for _, do := range []string{"memory", "fill", "recurse", "stderr flood", "calls without end"} {
		runs = append(runs, [2]string{"testdata/guests/probe.wasm", `{"do":"` + do + `"}`})
	}
	for _, r := range runs {
		out, err := exec.Command(peak, r[0], r[1]).CombinedOutput()
		grew, bad := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil || bad != nil {
			t.Errorf("%s %s: %v, %s", filepath.Base(r[0]), r[1], err, out)
		}
		if most := (loader.DefaultMemory + 64<<20) >> 10; grew > most {
			t.Errorf("%s %s: the process grew by %d KiB, want at most %d", filepath.Base(r[0]), r[1], grew, most)
		}
		t.Logf("%s %s: %d MiB", filepath.Base(r[0]), r[1], grew>>10)
	}
}

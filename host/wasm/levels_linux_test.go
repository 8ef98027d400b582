package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess"
)

// buildWorker builds the executable of workers, without cgo.
var buildWorker = sync.OnceValues(func() (string, error) {
	exe := filepath.Join(buildDir, "worker")
	c := exec.Command("go", "build", "-o", exe, "../subprocess/testdata/worker")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return string(out), err
	}
	return exe, nil
})

// workers are processes for modules.
func workers(t testing.TB, o subprocess.Options) loader.Workers {
	t.Helper()
	exe, err := buildWorker()
	if err != nil {
		t.Fatal(exe, err)
	}
	tmp, err := os.MkdirTemp("", "e") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		_ = os.RemoveAll(tmp)
	})
	o.Self, o.TempDir = exe, tmp
	return subprocess.New(o)
}

// eachLevel runs a test on both levels of isolation.
func eachLevel(t *testing.T, test func(t *testing.T, o Options)) {
	t.Helper()
	for _, level := range []loader.Isolation{loader.InProcess, loader.Process} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			o := Options{Isolation: level}
			if level == loader.Process {
				o.Workers = workers(t, subprocess.Options{})
			}
			test(t, o)
		})
	}
}

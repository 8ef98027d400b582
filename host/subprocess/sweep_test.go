//go:build unix

package subprocess

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What a killed engine left in the temporary directory is removed by the next
// one; what a live one uses, and what is not ours, stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	left := filepath.Join(dir, fmt.Sprintf("engine-%d-1", dead.Process.Pid))
	keep := []string{filepath.Join(dir, fmt.Sprintf("engine-%d-1", os.Getpid())), filepath.Join(dir, "engine-x-1"), filepath.Join(dir, "engineering")}
	for _, d := range append(keep, left) {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir)
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
	for _, d := range keep {
		if _, err := os.Stat(d); err != nil {
			t.Error(err)
		}
	}
}

package rust

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCrate builds and runs the crate's own tests.
func TestCrate(t *testing.T) {
	t.Parallel()
	for _, rustc := range []string{"/usr/bin/rustc", "rustc"} { // Debian's is the oldest that is supported
		if _, err := exec.LookPath(rustc); err != nil {
			continue
		}
		exe := filepath.Join(t.TempDir(), "crate")
		if out, err := exec.Command(rustc, "--edition", "2021", "-D", "warnings", "--test", "-o", exe, "src/lib.rs").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := exec.Command(exe).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	t.Skip("rustc is not installed")
}

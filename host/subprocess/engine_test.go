//go:build unix

package subprocess

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
)

// engineEnv makes the test binary play the engine: it loads the plugin named
// there, has it start a grandchild, prints the process numbers and waits.
const engineEnv = "SUBPROCESS_TEST_ENGINE"

func playEngine(path string) {
	self, err := os.Executable()
	if err == nil {
		err = func() error {
			l := New(Options{Self: self, TempDir: os.Getenv("SUBPROCESS_TEST_DIR")})
			a, err := l.Open(path)
			if err != nil {
				return err
			}
			p, err := l.Load(context.Background(), a)
			if err != nil {
				return err
			}
			s, err := p.Step("probe", loader.Limits{})
			if err != nil {
				return err
			}
			r, err := s.Run(context.Background(), request(`{"do":"grandchild"}`), &recorder{})
			if err != nil {
				return err
			}
			fmt.Printf("%s\n", r.Output)
			select {}
		}()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startEngine runs the test binary as an engine and returns the numbers of the
// plugin, its runner and its grandchild.
func startEngine(t *testing.T, path string) (*exec.Cmd, []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a killed engine leaves its files
	c := exec.Command(self)
	c.Env = append(os.Environ(), engineEnv+"="+path, "SUBPROCESS_TEST_DIR="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var pids []int
	if err != nil || json.Unmarshal(line, &pids) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return c, pids
}

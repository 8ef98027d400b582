//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProjects: in each language and kind, what "plugin new" makes builds,
// passes its tests and runs in its flow, untouched.
func TestProjects(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for lang, l := range languages {
		for _, kind := range l.kinds {
			t.Run(lang+" "+kind, func(t *testing.T) {
				t.Parallel()
				tmp := t.TempDir()
				dir := filepath.Join(tmp, "my_step")
				args := []string{"plugin", "new", lang, dir, "--kind", kind}
				if lang == "go" {
					args = append(args, "--sdk", root)
				}
				engine(t, args...)
				build := exec.Command("sh", filepath.Join(dir, "build.sh"))
				build.Env = append(os.Environ(), "ENGINE="+asEngine(t, tmp), "GOFLAGS=-mod=mod", "GOPROXY=off")
				if asc := filepath.Join(root, ".ci/node/node_modules/assemblyscript/bin/asc.js"); lang == "assemblyscript" {
					if _, err := os.Stat(asc); err != nil {
						t.Skip("the AssemblyScript compiler is not installed; make toolchains installs it")
					}
					build.Env = append(build.Env, "ASC="+asc)
				}
				out, err := build.CombinedOutput()
				var status *exec.ExitError
				if errors.As(err, &status) && status.ExitCode() == 69 {
					t.Skipf("no toolchain: %s", out)
				}
				if err != nil {
					t.Fatalf("build.sh: %v\n%s", err, out)
				}
				built := filepath.Join(dir, artifact("my_step", kind))
				tested := engine(t, "plugin", "test", built, filepath.Join(dir, "cases/least.json"), filepath.Join(dir, "cases/no_text.json"))
				if !strings.HasSuffix(tested, "9 checks, 0 failed\n") {
					t.Errorf("plugin test: %s", tested)
				}
				if got := engine(t, "plugin", "inspect", built); !strings.Contains(got, "my_step 0.1.0") || !strings.Contains(got, kind) {
					t.Errorf("plugin inspect: %s", got)
				}
				want := `words = [{"word":"to","count":2},{"word":"be","count":2}]` + "\n"
				if got := strings.ReplaceAll(strings.ReplaceAll(engine(t, "apply", dir), `": `, `":`), `, "`, `,"`); strings.ReplaceAll(got, "}, {", "},{") != want {
					t.Errorf("apply: %s", got)
				}
			})
		}
	}
}

// engine runs the program and returns its stdout.
func engine(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, streams{strings.NewReader(""), &stdout, &stderr}); code != exitOK {
		t.Fatalf("engine %s exits %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// asEngine makes a file that is the engine when a script runs it: testscript
// looks at the name under which this test is started.
func asEngine(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "engine")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

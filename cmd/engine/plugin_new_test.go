//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	for lang, l := range languages {
		for _, kind := range l.kinds {
			t.Run(lang+" "+kind, func(t *testing.T) {
				t.Parallel()
				dir := newProject(t, lang, kind, "my_step")
				built := buildProject(t, lang, kind, dir)
				tested := engine(t, "plugin", "test", built, filepath.Join(dir, "cases/least.json"), filepath.Join(dir, "cases/no_text.json"))
				if !strings.HasSuffix(tested, "9 checks, 0 failed\n") {
					t.Errorf("plugin test: %s", tested)
				}
				if got := engine(t, "plugin", "inspect", built); !strings.Contains(got, "my_step 0.1.0") || !strings.Contains(got, kind) {
					t.Errorf("plugin inspect: %s", got)
				}
				var words []struct {
					Word  string
					Count int
				}
				name, value, _ := strings.Cut(engine(t, "apply", dir), " = ")
				if err := json.Unmarshal([]byte(value), &words); err != nil || name != "words" || len(words) != 2 || words[1].Word != "be" || words[1].Count != 2 {
					t.Errorf("apply: %s %s, %v", name, value, err)
				}
			})
		}
	}
}

// newProject lays out a project of the given name.
func newProject(t *testing.T, lang, kind, name string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	args := []string{"plugin", "new", lang, dir, "--kind", kind}
	if lang == "go" {
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--sdk", root)
	}
	engine(t, args...)
	return dir
}

// buildProject runs a project's build script and returns what it built. Without
// the toolchain the test is skipped.
func buildProject(t *testing.T, lang, kind, dir string) string {
	t.Helper()
	build := exec.Command("sh", filepath.Join(dir, "build.sh"))
	build.Env = append(os.Environ(), "ENGINE="+asEngine(t), "GOFLAGS=-mod=mod", "GOPROXY=off")
	if lang == "assemblyscript" {
		asc, err := filepath.Abs("../../.ci/node/node_modules/assemblyscript/bin/asc.js")
		if err != nil {
			t.Fatal(err)
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
	return filepath.Join(dir, artifact(filepath.Base(dir), kind))
}

// engine runs the program and returns its stdout.
func engine(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, streams{in: strings.NewReader(""), out: &stdout, err: &stderr}); code != exitOK {
		t.Fatalf("engine %s exits %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// asEngine makes a file that is the engine when a script runs it: testscript
// looks at the name under which this test is started.
func asEngine(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

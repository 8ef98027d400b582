package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A state directory of another user is named with what the system says, by each
// verb that needs it, and stays as it is.
func TestForeignState(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("another user can only be taken by root")
	}
	dir, err := os.MkdirTemp("", "engine-foreign-") // where every user may enter, unlike in that of a test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin, state := filepath.Join(dir, "engine"), filepath.Join(dir, "state")
	build(t, ".", bin)
	guest, err := os.ReadFile("../../host/wasm/testdata/guests/reactor.wasm")
	if err != nil {
		t.Fatal(err)
	}
	flow := "workflow \"w\" {}\nplugin \"p\" { source = \"./upper.wasm\" }\nstep \"a\" {\n  uses = plugin.p.upper\n  input = { text = \"a\" }\n}\n"
	for name, text := range map[string][]byte{"flow.hcl": []byte(flow), "upper.wasm": guest} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	engine := func(user uint32, args ...string) (int, string) {
		t.Helper()
		cmd := exec.Command(bin, append(args, "--state", state)...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "HOME=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := engine(0, "apply", dir); code != exitOK {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	const nobody = 65534
	for _, args := range [][]string{{"apply", dir}, {"plan", dir}, {"explain", dir, "step.a"}, {"checkpoints", "ls"}, {"runs"}, {"show"}, {"store", "check"}, {"gc"}} {
		code, out := engine(nobody, args...)
		if code != exitStore || !strings.Contains(out, state) || !strings.Contains(out, "permission denied") || strings.Contains(out, "in use by") {
			t.Errorf("%v: exit %d, want %d and a message that names %s and its cause:\n%s", args, code, exitStore, state, out)
		}
	}
	if code, out := engine(0, "apply", dir); code != exitOK || !strings.Contains(out, "nothing to run") {
		t.Errorf("its owner, afterwards: exit %d:\n%s", code, out)
	}
}

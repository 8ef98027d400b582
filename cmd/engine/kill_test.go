package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host"
)

// build makes an executable of a package of this module as releases are built.
func build(t testing.TB, pkg, out string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, b)
	}
}

// killFlow is fifteen steps: a pure chain and side branches in a sandbox, and
// two effects of a native plugin in the middle and at the end.
func killFlow(dir string) string {
	var b strings.Builder
	b.WriteString(`workflow "kill" { concurrency = 3 }
variable "text" { type = string }
plugin "up" { source = "./upper.wasm" }
plugin "log" { source = "./note" }
step "s0" {
  uses  = plugin.up.upper
  input = { text = var.text }
}
`)
	for i := 1; i <= 5; i++ {
		fmt.Fprintf(&b, "step \"s%d\" {\n  uses = plugin.up.upper\n  input = { text = \"%d ${step.s%d.output.upper}\" }\n}\n", i, i, i-1)
		fmt.Fprintf(&b, "step \"side%d\" {\n  uses = plugin.up.upper\n  input = { text = \"side ${step.s%d.output.words} ${var.text}\" }\n}\n", i, i)
	}
	for _, n := range []struct{ name, after string }{{"first", "${step.s2.output.words}"}, {"last", "${step.s5.output.words + step.side3.output.words}"}} {
		fmt.Fprintf(&b, "step %q {\n  uses = plugin.log.note\n  input = { file = %q, text = \"n %s\" }\n}\n", n.name, filepath.Join(dir, "notes"), n.after)
	}
	b.WriteString(`step "end" {
  uses  = plugin.up.upper
  input = { text = "done ${step.first.output.noted} ${step.last.output.noted}" }
}
output "all" { value = [step.end.output, step.s5.output, step.side1.output.words, step.side5.output.words] }
`)
	return b.String()
}

type killRig struct {
	t      *testing.T
	engine string
	dir    string
	keys   []string // files of the keys of an encrypted state, the one in use last
	kills  int      // of any verb
}

func newKillRig(t *testing.T, engine, note, upper string) *killRig {
	k := &killRig{t: t, engine: engine, dir: t.TempDir()}
	for from, to := range map[string]string{note: "note", upper: "upper.wasm"} {
		if err := os.Symlink(from, filepath.Join(k.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat("the quick brown fox jumps over the lazy dog 你好 ", 2000)
	manifest := `{"abi":1,"name":"note","version":"1.0.0","steps":{"note":{"effects":"write"}}}`
	for name, s := range map[string]string{"flow.hcl": killFlow(k.dir), "text.txt": text, "note.step.json": manifest} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// encrypt makes the state an encrypted one.
func (k *killRig) encrypt() { k.newKey() }

func (k *killRig) newKey() (file string) {
	file = filepath.Join(k.dir, fmt.Sprint("key", len(k.keys)))
	if err := os.WriteFile(file, fmt.Appendf(nil, "%064x", len(k.keys)+1), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.keys = append(k.keys, file)
	return file
}

// verb is the engine with a verb on the state of the rig.
func (k *killRig) verb(args ...string) *exec.Cmd {
	cmd := exec.Command(k.engine, append(args, "--state", filepath.Join(k.dir, ".engine"))...)
	cmd.Env = append(os.Environ(), "ENGINE_STATE=", "ENGINE_KEY_FROM=")
	if n := len(k.keys); n > 0 {
		cmd.Args = append(cmd.Args, "--key-from", k.keys[n-1])
	}
	return cmd
}

func (k *killRig) command() *exec.Cmd {
	args := []string{"apply", k.dir, "--var", "text=@" + filepath.Join(k.dir, "text.txt")}
	if len(k.keys) > 0 {
		args = append(args, "--encrypt")
	}
	return k.verb(args...)
}

// kill starts apply and kills it after a while, unless it has ended by then.
func (k *killRig) kill(after time.Duration) (ended bool) {
	return k.killed(k.command(), after)
}

// rotate gives the state another key, and kills the engine while it does: one of
// the two keys opens it, and asked again it has the new one.
func (k *killRig) rotate(after time.Duration) {
	if _, err := os.Stat(filepath.Join(k.dir, ".engine", "store", "KEYS")); err != nil {
		return // it was killed before there was one
	}
	old := k.verb()
	next := k.newKey()
	cmd := exec.Command(k.engine, append([]string{"store", "rotate", "--new-key-from", next}, old.Args[1:]...)...)
	cmd.Env = old.Env
	again := exec.Command(cmd.Path, cmd.Args[1:]...)
	again.Env = cmd.Env
	k.killed(cmd, after)
	if out, err := again.CombinedOutput(); err != nil {
		k.t.Fatalf("rotate after a kill: %v\n%s", err, out)
	}
}

func (k *killRig) killed(cmd *exec.Cmd, after time.Duration) (ended bool) {
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Sys().(syscall.WaitStatus).Signaled() {
		k.t.Fatalf("%v ended by itself: %v", cmd.Args[1:], err)
	}
	if err != nil {
		k.kills++
	}
	return err == nil
}

func (k *killRig) apply() (stdout, stderr string) {
	cmd := k.command()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		k.t.Fatalf("apply: %v\n%s", err, errs.String())
	}
	return out.String(), errs.String()
}

// events are those of the only run, of all its continuations.
func (k *killRig) events() []host.Event {
	at := place{dir: filepath.Join(k.dir, ".engine")}
	if n := len(k.keys); n > 0 {
		at.keyFrom = k.keys[n-1]
	}
	ss, err := stories(at)
	if err != nil {
		k.t.Fatal(err)
	}
	if len(ss) > 1 {
		k.t.Fatalf("%d runs, although each apply continues the one before", len(ss))
	}
	if len(ss) == 0 {
		return nil
	}
	return ss[0].Events
}

// killRounds is how many rounds the tests that kill have together: $KILL_ROUNDS.
func killRounds(t *testing.T) int {
	n := os.Getenv("KILL_ROUNDS")
	switch {
	case n == "" && testing.Short():
		return 10
	case n == "":
		return 200
	}
	rounds, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	return rounds
}

// TestKill starts the real binary, kills it with SIGKILL at random moments (in
// every other round again while it recovers), and applies again: the outputs
// are those of an undisturbed run, no step whose persisted event went out ran
// twice, each of them is reused as a recovery point, and an effect that was
// repeated has the key it had before. Between the kills engines that collect, or
// give the state another key, are killed too; every other state is encrypted.
func TestKill(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	engine, note := filepath.Join(bin, "engine"), filepath.Join(bin, "note")
	build(t, ".", engine)
	build(t, "./testdata/note", note)
	upper, err := filepath.Abs("../../host/wasm/testdata/guests/reactor.wasm")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := newKillRig(t, engine, note, upper).apply() // compiles the modules
	undisturbed := newKillRig(t, engine, note, upper)
	begin := time.Now()
	if got, _ := undisturbed.apply(); got != want {
		t.Fatalf("outputs differ\n got %.300s\nwant %.300s", got, want)
	}
	took := time.Since(begin)

	keyed := newKillRig(t, engine, note, upper)
	keyed.encrypt()
	keyed.apply()
	begin = time.Now()
	keyed.rotate(time.Hour)
	rotating := time.Since(begin) / 2 // it was asked for twice

	rounds := killRounds(t) * 4 / 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, an undisturbed run takes %s", seed, took)
	r := rand.New(rand.NewPCG(seed, 1))
	kills, others, recovered := 0, 0, 0
	for round := range rounds {
		k := newKillRig(t, engine, note, upper)
		if round%2 == 1 {
			k.encrypt()
		}
		for range 1 + round%3 {
			if k.kill(time.Duration(r.Int64N(int64(took)))) {
				break
			}
			kills++
			others--
			if len(k.keys) > 0 {
				k.rotate(time.Duration(r.Int64N(int64(rotating))))
			}
			if _, err := os.Stat(filepath.Join(k.dir, ".engine", "store", "HEAD")); round%4 < 2 && err == nil {
				k.killed(k.verb("gc", "--keep", "1"), time.Duration(r.Int64N(int64(rotating)))) // of a run that goes on
			}
		}
		others += k.kills
		persisted := map[string]bool{}
		for _, e := range k.events() {
			switch e.Type {
			case host.EventPersisted:
				persisted[e.Step] = true
			case host.EventStarted:
				if persisted[e.Step] {
					t.Fatalf("round %d: %s was persisted and started again", round, e.Step)
				}
			}
		}
		before := len(k.events())
		got, story := k.apply()
		if got != want {
			t.Fatalf("round %d: outputs differ\n got %.300s\nwant %.300s", round, got, want)
		}
		reused := map[string]bool{}
		for _, e := range k.events()[before:] {
			switch e.Type {
			case host.EventStarted:
				if persisted[e.Step] {
					t.Fatalf("round %d: %s was persisted and started again", round, e.Step)
				}
			case host.EventReused:
				reused[e.Step] = true
				recovered++
				if e.Saved <= 0 {
					t.Fatalf("round %d: the reuse of %s saved nothing: %+v", round, e.Step, e)
				}
				if e.Taken && !strings.Contains(story, fmt.Sprintf("%s (%s): recovery point, reused checkpoint, skipped", e.Step, e.Checkpoint)) {
					t.Fatalf("round %d: no recovery point for %s in\n%s", round, e.Step, story)
				}
			}
		}
		if len(k.events()) > before { // else everything had ended before the kill
			for s := range persisted {
				if !reused[s] {
					t.Fatalf("round %d: %s was persisted and not reused", round, s)
				}
			}
		}
		notes, err := os.ReadFile(filepath.Join(k.dir, "notes"))
		if err != nil {
			t.Fatal(err)
		}
		keys := map[string]string{}
		for line := range strings.Lines(string(notes)) {
			step, key, _ := strings.Cut(strings.TrimSpace(line), " ")
			if old, ok := keys[step]; ok && old != key {
				t.Fatalf("round %d: the effect of %s happened under two keys:\n%s", round, step, notes)
			}
			keys[step] = key
		}
		if len(keys) != 2 {
			t.Fatalf("round %d: effects %v", round, keys)
		}
		if out, err := k.verb("store", "check").CombinedOutput(); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
	}
	t.Logf("%d kills of apply, %d of gc and rotate, %d recoveries of single steps", kills, others, recovered)
	if kills < rounds/4 {
		t.Errorf("only %d of %d rounds were killed in time; the test exercises too little", kills, rounds)
	}
}

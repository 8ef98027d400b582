package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host"
)

// fanFlow is a fan-out over 300 elements, another chained to it, and one answer
// of both.
const fanFlow = `workflow "kill" { concurrency = 3 }
variable "text" { type = string }
plugin "up" { source = "./upper.wasm" }
step "x" {
  uses     = plugin.up.upper
  for_each = [for i in range(300) : "章 ${i}"]
  input    = { text = "${each.value} ${substr(var.text, 0, 2000)}" }
}
step "y" {
  uses     = plugin.up.upper
  for_each = step.x.output
  input    = { text = "${each.key} ${each.value.upper}" }
}
output "all" { value = [for y in step.y.output : [y.words, sha256(y.upper)]] }
`

// killed is the engine, built to be killed, and the module of its flows.
func killed(t *testing.T) (engine, upper string) {
	t.Helper()
	engine = filepath.Join(t.TempDir(), "engine")
	build(t, ".", engine)
	upper, err := filepath.Abs("../../host/wasm/testdata/guests/reactor.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return engine, upper
}

// TestKillFanOut kills the real binary with SIGKILL three times in the middle
// of a chained fan-out, each time further on. The run that goes on starts no
// instance again whose record was durable, and ends as an undisturbed one.
func TestKillFanOut(t *testing.T) {
	t.Parallel()
	engine, upper := killed(t)
	rig := func() *killRig {
		k := newKillRig(t, engine, engine, upper)
		if err := os.WriteFile(filepath.Join(k.dir, "flow.hcl"), []byte(fanFlow), 0o644); err != nil {
			t.Fatal(err)
		}
		return k
	}
	want, _ := rig().apply()
	k := rig()
	kills := 0
	for _, n := range []int{20, 150, 400} {
		cmd := k.command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // killed, or done
		}()
	watch:
		for {
			select {
			case <-ended:
				break watch
			case <-time.After(5 * time.Millisecond):
			}
			if k.persisted() >= n {
				_ = cmd.Process.Signal(syscall.SIGKILL)
				<-ended
				kills++
				break watch
			}
		}
		k.check()
	}
	if got, _ := k.apply(); got != want {
		t.Fatalf("outputs differ\n got %.300s\nwant %.300s", got, want)
	}
	k.check()
	if kills == 0 {
		t.Error("nothing was killed in time")
	}
}

// persisted counts the durable records so far, from the journal.
func (k *killRig) persisted() (n int) {
	files, _ := filepath.Glob(filepath.Join(k.dir, ".engine", "runs", "*.jsonl"))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			n += strings.Count(string(b), `"type":"persisted"`)
		}
	}
	return n
}

// check: nothing was started after its persisted event.
func (k *killRig) check() {
	k.t.Helper()
	durable := map[string]bool{}
	for _, e := range k.events() {
		switch e.Type {
		case host.EventPersisted:
			durable[e.Step] = true
		case host.EventStarted:
			if durable[e.Step] {
				k.t.Fatalf("%s was persisted and started again", e.Step)
			}
		}
	}
}

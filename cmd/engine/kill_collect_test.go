package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// collectFlow has a small and a large output, which is a file of its own.
const collectFlow = `workflow "kill" {}
variable "text" { type = string }
variable "topic" { default = "0" }
plugin "up" { source = "./upper.wasm" }
step "small" {
  uses  = plugin.up.upper
  input = { text = "edit 0 ${var.topic}" }
}
step "large" {
  uses  = plugin.up.upper
  input = { text = "${step.small.output.upper} ${var.text}" }
}
output "small" { value = step.small.output.upper }
output "large" { value = sha256(step.large.output.upper) }
`

// TestKillCollect kills the real binary with SIGKILL while it collects, in a state with
// superseded records, outputs beyond a budget and forgotten runs. Whenever that is,
// everything that is named is there and verifies; asked again gc comes to the end it
// would have come to; and what must stay is reused. Every other state is encrypted.
func TestKillCollect(t *testing.T) {
	t.Parallel()
	engine, upper := killed(t)
	run := func(cmd *exec.Cmd) string {
		t.Helper()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args[1:], err, out)
		}
		return string(out)
	}
	var full [2]*killRig // states to be collected; the second is encrypted
	for i := range full {
		k := newKillRig(t, engine, engine, upper)
		if i == 1 {
			k.encrypt()
		}
		flow := collectFlow
		for _, edit := range []string{"edit 1", "edit 2", "edit 3"} {
			flow = strings.Replace(flow, flow[strings.Index(flow, "edit "):][:6], edit, 1)
			if err := os.WriteFile(filepath.Join(k.dir, "flow.hcl"), []byte(flow), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, topic := range []string{"0", "1", "2"} {
				cmd := k.command()
				cmd.Args = append(cmd.Args, "--var", "topic="+topic)
				run(cmd)
			}
		}
		full[i] = k
	}
	// copied is a state like full[i], in a directory of its own.
	copied := func(i int) *killRig {
		k := *full[i]
		k.dir = filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(k.dir, os.DirFS(full[i].dir)); err != nil {
			t.Fatal(err)
		}
		return &k
	}
	verbs := [][]string{{"gc", "--keep", "1", "--max-size", "1"}, {"gc", "--older-than", "1ms"}}
	listed := func(k *killRig) string { return run(k.verb("checkpoints", "ls", "--json")) }
	var want [2][2]string
	var took time.Duration
	for v, verb := range verbs {
		for i := range full {
			k := copied(i)
			begin := time.Now()
			run(k.verb(verb...))
			took = max(took, time.Since(begin))
			if want[v][i] = listed(k); want[v][i] == listed(full[i]) {
				t.Fatalf("%q removes nothing", verb)
			}
		}
	}
	outputs := run(full[0].command())

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, to collect takes up to %s", seed, took)
	r := rand.New(rand.NewPCG(seed, 1))
	rounds, kills, partly := killRounds(t)/5, 0, 0
	for round := range rounds {
		i, v := round%2, round/2%2
		k := copied(i)
		before := listed(k)
		for range 1 + round%3 {
			if k.killed(k.verb(verbs[v]...), time.Duration(r.Int64N(int64(took)))) {
				break
			}
			kills++
			if listed(k) != before {
				partly++
			}
			run(k.verb("store", "check"))
		}
		run(k.verb(verbs[v]...))
		if got := listed(k); got != want[v][i] {
			t.Fatalf("round %d: after a kill %q leaves\n%s\nwant\n%s", round, verbs[v], got, want[v][i])
		}
		if out := run(k.verb("store", "check")); strings.Contains(out, "leftover") {
			t.Fatalf("round %d: %s", round, out)
		}
		cmd := k.command()
		var story strings.Builder
		cmd.Stderr = &story
		if got := run(cmd); got != outputs {
			t.Fatalf("round %d: outputs differ\n got %.300s\nwant %.300s", round, got, outputs)
		}
		if stays := v == 0; stays != strings.Contains(story.String(), "nothing to run") {
			t.Fatalf("round %d: what the newest run of these values uses was to stay: %v\n%s", round, stays, story.String())
		}
	}
	t.Logf("%d kills, %d of them after the records were gone", kills, partly)
	if kills < rounds/4 {
		t.Errorf("only %d of %d rounds were killed in time; the test exercises too little", kills, rounds)
	}
}

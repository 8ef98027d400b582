package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recoverySteps is the size of the flow of BenchmarkRecovery1200, and failedStep
// the step that fails.
const (
	recoverySteps = 1200
	failedStep    = 900
)

// recoveryFlow is a flow of which each step needs those one and seven places
// before it. The failed step is not given what its plugin asks for, unless fixed.
func recoveryFlow(fixed bool) string {
	var b strings.Builder
	b.WriteString("workflow \"recovery\" {}\nplugin \"up\" { source = \"./upper.wasm\" }\n")
	for i := range recoverySteps {
		text := fmt.Sprint("step ", i)
		for _, back := range []int{1, 7} {
			if i >= back {
				text += fmt.Sprintf(" ${step.s%d.output.words}", i-back)
			}
		}
		name := "text"
		if i == failedStep && !fixed {
			name = "txet"
		}
		fmt.Fprintf(&b, "step \"s%d\" {\n  uses  = plugin.up.upper\n  input = { %s = %q }\n}\n", i, name, text)
	}
	fmt.Fprintf(&b, "output \"last\" { value = step.s%d.output.upper }\n", recoverySteps-1)
	return b.String()
}

// BenchmarkRecovery1200 is the recovery of the README, with the engine as it is
// shipped, from one process to the next: 1,200 steps that do nothing in a
// sandbox, step 900 fails, the flow is mended and applied again. The claim: half
// a second in all after the fix, 300 steps run in it and made durable. It reports
// the first run, which compiles the module too, the second, and what a third
// takes, for which nothing is to be run.
func BenchmarkRecovery1200(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "engine")
	build(b, ".", bin)
	module, err := filepath.Abs("../../host/wasm/testdata/guests/reactor.wasm")
	if err != nil {
		b.Fatal(err)
	}
	cache := b.TempDir()
	var first, fixed, nothing time.Duration
	for b.Loop() {
		dir := b.TempDir()
		if err := os.Symlink(module, filepath.Join(dir, "upper.wasm")); err != nil {
			b.Fatal(err)
		}
		apply := func(mended bool, code int, says string) time.Duration {
			if err := os.WriteFile(filepath.Join(dir, "flow.hcl"), []byte(recoveryFlow(mended)), 0o600); err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command(bin, "apply", dir)
			cmd.Env = append(os.Environ(), "ENGINE_STATE=", "ENGINE_KEY_FROM=", "ENGINE_PROGRESS=plain", "XDG_CACHE_HOME="+cache)
			begin := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(begin)
			if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
				b.Fatalf("apply: %v, want exit %d and %q:\n%.3000s", err, code, says, out)
			}
			return took
		}
		first += apply(false, exitFailed, fmt.Sprintf("%d ran, 0 reused, %d skipped, 1 failed", failedStep, recoverySteps-failedStep-1))
		fixed += apply(true, exitOK, fmt.Sprintf("%d ran, %d reused", recoverySteps-failedStep, failedStep))
		nothing += apply(true, exitOK, "nothing to run")
	}
	for what, took := range map[string]time.Duration{"ms-first": first, "ms-after-fix": fixed, "ms-nothing": nothing} {
		b.ReportMetric(took.Seconds()*1000/float64(b.N), what)
	}
	b.ReportMetric(0, "ns/op") // the sum says nothing
}

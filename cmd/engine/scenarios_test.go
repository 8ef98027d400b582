package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// lastScenario is the highest number in testdata/scenarios.md; all are odd.
const lastScenario = 77

// TestScenarios: testdata/scenarios.md has every scenario once, and the tests that it
// names exist.
func TestScenarios(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../testdata/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("grep", "-rohE", "--include=*_test.go", `^func (Test|Benchmark)[A-Za-z0-9]+`, "../..").Output()
	if err != nil {
		t.Fatalf("grep: %v", err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		have[strings.TrimSpace(strings.TrimPrefix(line, "func "))] = true
	}
	times := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \|`).FindAllStringSubmatch(string(page), -1) {
		for n := range strings.SplitSeq(row[1], ",") {
			times[strings.TrimSpace(n)]++
		}
	}
	for n := 1; n <= lastScenario; n += 2 {
		if c := times[strconv.Itoa(n)]; c != 1 {
			t.Errorf("testdata/scenarios.md has scenario %d %d times", n, c)
		}
	}
	for _, name := range regexp.MustCompile(`\b(Test|Benchmark)[A-Z][A-Za-z0-9]+`).FindAllString(string(page), -1) {
		if !have[name] {
			t.Errorf("testdata/scenarios.md names %s, which does not exist", name)
		}
	}
	for _, name := range regexp.MustCompile(`[a-z_/]+\.txtar`).FindAllString(string(page), -1) {
		if !strings.Contains(name, "/") {
			name = "testdata/script/" + name
		}
		if _, err := os.Stat("../../" + name); err != nil {
			t.Errorf("testdata/scenarios.md names %s: %v", name, err)
		}
	}
}

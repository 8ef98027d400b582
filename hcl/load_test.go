package hcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/retrace-dev/engine/sdk"
)

func TestLoadDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "b.hcl", "step \"b\" { uses = plugin.p.run }\n")
	write(t, dir, "a.hcl", header+"step \"报告\" {\n uses = plugin.p.run\n input = { x = step.b.output }\n}\n")
	for _, other := range []string{"a.test.hcl", "b.vars.hcl", "x.auto.vars.hcl", "engine.lock.hcl", ".hidden.hcl", "readme.md", "sub/c.hcl"} {
		write(t, dir, other, "this is { no flow")
	}
	w, ds := Load(dir)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	var files, steps []string
	for _, f := range w.Files {
		files = append(files, filepath.Base(f.Path))
		if f.Digest != sdk.Sum(f.Bytes) || !strings.HasPrefix(f.Path, dir) {
			t.Errorf("file %s: %s", f.Path, f.Digest)
		}
	}
	for _, s := range w.Steps {
		steps = append(steps, s.Address())
	}
	if diff := cmp.Diff([][]string{{"a.hcl", "b.hcl"}, {"step.报告", "step.b"}}, [][]string{files, steps}); diff != "" {
		t.Errorf("files and steps (-want +got):\n%s", diff)
	}
	if w, ds := Load(filepath.Join(dir, "a.hcl")); w == nil || !hasCode(ds, "unknown-step") {
		t.Errorf("one file alone: %s", explain(ds))
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "empty/readme.md", "")
	write(t, dir, "json/flow.hcl.json", "{")
	write(t, dir, "large/flow.hcl", header+"# "+strings.Repeat("x", maxFile))
	write(t, dir, "secret.hcl", header)
	if err := os.Mkdir(filepath.Join(dir, "link"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret.hcl", filepath.Join(dir, "link", "flow.hcl")); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]string{"none": "unreadable-file", "empty": "unreadable-file", "json": "invalid-json", "large": "unreadable-file", "link": "unreadable-file"} {
		if w, ds := Load(filepath.Join(dir, path)); w != nil || !hasCode(ds, code) || strings.Contains(explain(ds), "statat") {
			t.Errorf("%s: %v %s", path, w, explain(ds))
		}
	}
	for _, files := range [][]File{nil, {{Path: "a.hcl"}}, {{Path: "a.hcl", Bytes: []byte("workflow \"w\" {\n")}}} {
		if _, ds := Parse(files); !ds.HasErrors() {
			t.Errorf("%v has no mistakes", files)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	w, ds := Parse([]File{{Path: "flow.hcl", Bytes: []byte(`
workflow "daily-报告" {
  description = "d"
  version     = "1.2"
  timeout     = "1d12h"
  concurrency = 4
  fail_fast   = true
  checkpoint {
    mode = volatile
  }
}
variable "v" {
  type        = object({ b = list(number), a = optional(string) })
  description = "what"
  default     = null
  nullable    = true
}
plugin "p" { source = "./p.wasm" }
step "a" {
  uses    = plugin.p.summarise
  timeout = "1m30s"
  effects = write
  retry {
    on             = [quota, "timeout"]
    max_attempts   = 5
    delay          = "2s"
    delay_function = constant
    max_delay      = "1m"
    jitter         = 0.5
    max_duration   = "1h"
  }
  retry {}
  checkpoint {
    mode  = "persistent"
    reuse = never
    ttl   = "7d"
  }
}
step "b" { uses = plugin.p.run }
output "o" {
  value       = step.a.output
  description = "the answer"
}
`)}})
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	anywhere := cmp.Comparer(func(a, b Range) bool { return true })
	got := *w
	got.impl, got.Files = nil, nil
	want := Workflow{
		Name: "daily-报告", Description: "d", Version: "1.2", Timeout: 36 * time.Hour, Concurrency: 4, FailFast: true, Volatile: true, MaxInstances: 10_000,
		Variables: []Variable{{Name: "v", Description: "what", Type: "object({ a = optional(string), b = list(number) })"}},
		Plugins:   []Plugin{{Name: "p", Source: "./p.wasm"}},
		Steps: []Step{
			{
				Name: "a", StepType: "summarise", Timeout: 90 * time.Second, Effects: sdk.EffectsWrite, Reuse: ReuseNever, TTL: 7 * 24 * time.Hour,
				Retry: []Retry{
					{On: []sdk.Class{"quota", "timeout"}, MaxAttempts: 5, Delay: 2 * time.Second, MaxDelay: time.Minute, Jitter: 0.5, MaxDuration: time.Hour, Before: -1},
					{On: []sdk.Class{"timeout", "unavailable", "rate_limited", "api_error", "plugin_crash"}, MaxAttempts: 3, Delay: time.Second, Exponential: true, Before: -1},
				},
			},
			{Name: "b", StepType: "run", Volatile: true},
		},
		Outputs: []Output{{Name: "o", Description: "the answer", Facets: []FacetRef{{Step: 0, Kind: Hard}}}},
	}
	if diff := cmp.Diff(want, got, anywhere, cmpopts.IgnoreUnexported(Workflow{})); diff != "" {
		t.Errorf("workflow (-want +got):\n%s", diff)
	}
	if r := w.Steps[0].Uses; r.String() != "flow.hcl:20:13" {
		t.Errorf("uses is at %s", r)
	}
}

// TestFileFunctions: what a flow may read, relative to its directory.
func TestFileFunctions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "prompts/a.txt", "Ünïcode 中文\n")
	write(t, dir, "prompts/deep/b.txt", "b")
	write(t, dir, "prompts/c.md", "c")
	write(t, dir, "bin", "\xff\xfe")
	write(t, dir, "list.tmpl", "%{ for x in items ~}\n- ${upper(x)}\n%{ endfor ~}\n")
	write(t, dir, "bad.tmpl", "${missing} ${items")
	write(t, dir, "vars.tmpl", "${itmes}")
	write(t, dir, "self.tmpl", `${templatefile("self.tmpl", {})}`)
	if err := os.Symlink("prompts/a.txt", filepath.Join(dir, "inside")); err != nil {
		t.Fatal(err)
	}
	eval := func(expr string) (string, Diagnostics) {
		flow := t.TempDir()
		if err := os.CopyFS(flow, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		write(t, flow, "flow.hcl", header+"step \"a\" {\n uses = plugin.p.run\n input = { v = "+expr+" }\n}\n")
		w, ds := Load(flow)
		if ds.HasErrors() {
			return "", ds
		}
		b, ds := w.Evaluator(mustBind(t, w), testRun).Input(0, Scope{})
		return string(b), ds
	}
	for expr, want := range map[string]string{
		`file("prompts/a.txt")`:              `{"v":"Ünïcode 中文\n"}`,
		`file("./prompts/../prompts/a.txt")`: "invalid-function-argument",
		`file("inside")`:                     `{"v":"Ünïcode 中文\n"}`,
		`file("none.txt")`:                   "invalid-function-argument",
		`file("prompts")`:                    "invalid-function-argument",
		`file("bin")`:                        "invalid-function-argument",
		`fileblob("bin")`:                    `{"v":{"$blob":"` + sdk.Sum([]byte("\xff\xfe")).String() + `","size":2,"type":"text/plain; charset=utf-8"}}`,
		`filesha256("bin")`:                  `{"v":"` + strings.TrimPrefix(sdk.Sum([]byte("\xff\xfe")).String(), "sha256:") + `"}`,
		`fileexists("none.txt")`:             `{"v":false}`,
		`fileexists("bin")`:                  `{"v":true}`,
		`fileexists("../x")`:                 "invalid-function-argument",
		`fileset("prompts", "*.txt")`:        `{"v":["a.txt"]}`,
		`fileset("prompts", "**/*.txt")`:     `{"v":["a.txt","deep/b.txt"]}`,
		`fileset(".", "prompts/**")`:         `{"v":["prompts/a.txt","prompts/c.md","prompts/deep/b.txt"]}`,
		`fileset(".", "[")`:                  "invalid-function-argument",
		`[for f in fileset("prompts", "*.txt") : file("prompts/${f}")]`: `{"v":["Ünïcode 中文\n"]}`,
		`templatefile("list.tmpl", { items = ["a", "é"] })`:             `{"v":"- A\n- É\n"}`,
		`templatefile("list.tmpl", { itms = [] })`:                      "invalid-function-argument",
		`templatefile("vars.tmpl", { items = [] })`:                     "invalid-function-argument",
		`templatefile("self.tmpl", {})`:                                 "invalid-function-argument",
		`templatefile("list.tmpl", ["x"])`:                              "invalid-function-argument",
	} {
		got, ds := eval(expr)
		if got != want && !hasCode(ds, want) {
			t.Errorf("%s gives %s %s", expr, got, explain(ds))
		}
	}
	if _, ds := eval(`templatefile("bad.tmpl", {})`); !ds.HasErrors() || !strings.Contains(explain(ds), "bad.tmpl:1:") {
		t.Errorf("a mistake in a template names %s", explain(ds))
	}
	if _, ds := parse1("step \"a\" {\n uses = plugin.p.run\n input = { v = file(\"x\") }\n}\n"); !hasCode(ds, "invalid-function-argument") {
		t.Errorf("file() without a directory: %s", explain(ds))
	}
}

// TestFilesAreReadOnce: a file that changes during a run does not change it.
func TestFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.txt", "one")
	write(t, dir, "flow.hcl", header+"step \"a\" {\n uses = plugin.p.run\n input = { v = file(\"a.txt\"), w = file(\"./a.txt\") }\n}\n")
	w, ds := Load(dir)
	if ds.HasErrors() {
		t.Fatal(explain(ds))
	}
	e := w.Evaluator(mustBind(t, w), testRun)
	first, _ := e.Input(0, Scope{})
	write(t, dir, "a.txt", "two")
	second, _ := e.Input(0, Scope{})
	other, _ := w.Evaluator(mustBind(t, w), testRun).Input(0, Scope{})
	if string(first) != `{"v":"one","w":"one"}` || string(second) != string(first) || string(other) != `{"v":"two","w":"two"}` {
		t.Errorf("%s, %s, another run %s", first, second, other)
	}
}

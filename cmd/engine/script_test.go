package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrace-dev/engine/host/subprocess"
)

func TestMain(m *testing.M) {
	subprocess.Worker(modules) // this binary may have been re-executed as a plugin's parent
	serveStd()                 // or as a plugin that ships inside the engine
	testscript.Main(m, map[string]func(){"engine": scripted})
}

// scripted is main for scripts: whatever it prints with --json must be as the
// published schema says.
func scripted() {
	ctx, stop := interruptible()
	std := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	var lines bytes.Buffer
	if slices.ContainsFunc(os.Args, func(a string) bool { return a == "--json" || a == "-json" }) {
		std.out = io.MultiWriter(os.Stdout, &lines)
	}
	code := run(ctx, os.Args[1:], std)
	stop()
	if lines.Len() > 0 {
		if err := checkLines(lines.Bytes()); err != nil {
			fmt.Fprintf(os.Stderr, "engine %q does not keep its contract: %v\n", os.Args[1:], err)
			code = exitInternal
		}
	}
	os.Exit(code)
}

// TestScripts runs testdata/script: each file is what a person types, and what
// must be seen. $GUESTS holds small modules; $STATIC is an engine as it is
// shipped, which worker processes need.
func TestScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir() // one for all: a module is compiled once
	static := warm(t, cache)
	goEnv, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	goCaches := strings.Split(strings.TrimSpace(string(goEnv)), "\n") // what a script builds need not compile the standard library again
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			e.Setenv("GUESTS", filepath.Join(root, "host/wasm/testdata/guests"))
			e.Setenv("ENGINE_STATE", "")
			e.Setenv("XDG_CACHE_HOME", cache)
			e.Setenv("STATIC", static)
			e.Setenv("GOCACHE", goCaches[0])
			e.Setenv("GOMODCACHE", goCaches[1])
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"replace": replace, "await": await, "models": models, "asked": asked, "recorded": recorded, "news": news},
	})
}

// warm compiles the plugins that ship inside the engine, with an engine built as
// it is shipped: under the race detector each takes minutes. It returns that
// engine's path.
func warm(t *testing.T, cache string) string {
	t.Helper()
	dir := t.TempDir()
	engine := filepath.Join(dir, "engine")
	build(t, ".", engine)
	flow := `workflow "warm" {}
plugin "http" {
  source = "std/http"
  sandbox { allow_hosts = ["http://127.0.0.1:9"] }
}
plugin "llm" {
  source = "std/llm"
  config = { api = "openai", base_url = "http://127.0.0.1:9", model = "m" }
  sandbox { allow_hosts = ["http://127.0.0.1:9"] }
}
plugin "json" { source = "std/json" }
plugin "text" { source = "std/text" }
plugin "template" { source = "std/template" }
step "http" {
  uses  = plugin.http.get
  input = { url = "http://127.0.0.1:9" }
}
step "llm" {
  uses  = plugin.llm.models
  input = {}
}
step "json" {
  uses  = plugin.json.jq
  input = { filter = ".", data = 1 }
}
step "text" {
  uses  = plugin.text.sentiment
  input = { text = "x" }
}
step "template" {
  uses  = plugin.template.render
  input = { template = "x" }
}
`
	if err := os.WriteFile(filepath.Join(dir, "flow.hcl"), []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(engine, "apply", dir)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "ENGINE_STATE=")
	out, _ := cmd.CombinedOutput() // the two that call nobody fail
	if made, err := filepath.Glob(filepath.Join(cache, "engine", "modules", "*")); err != nil || len(made) < 5 {
		t.Fatalf("compiled are %v (%v):\n%s", made, err, out)
	}
	return engine
}

// replace OLD NEW FILE: OLD must be there.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace OLD NEW FILE")
	}
	file := ts.MkAbs(args[2])
	text := ts.ReadFile(file)
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("%s does not contain %q", args[2], args[0])
	}
	ts.Check(os.WriteFile(file, []byte(strings.ReplaceAll(text, args[0], args[1])), 0o644))
}

// await STATE TEXT waits until a journal of a run holds TEXT.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await STATE TEXT")
	}
	for range 600 {
		files, _ := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "runs", "*.jsonl"))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), args[1]) {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("no journal in %s says %q", args[0], args[1])
}

// TestEveryVerbHasJSON, but for those whose result is a text of another kind, and
// every verb shows how it is used.
func TestEveryVerbHasJSON(t *testing.T) {
	t.Parallel()
	other := map[string]bool{"engine checkpoints export": true, "engine completion": true}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, s := range c.Commands() {
			visit(s)
		}
		if !c.Runnable() || c.Hidden || c.Name() == "help" {
			return
		}
		if (c.Flags().Lookup("json") == nil) != other[c.CommandPath()] {
			t.Errorf("%s: --json is there: %v", c.CommandPath(), !other[c.CommandPath()])
		}
		if c.Example == "" {
			t.Errorf("%s shows no example", c.CommandPath())
		}
	}
	visit(newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard, debug: new(bool)}))
}

// TestBothSpellings: every long flag of every verb may be written with one
// dash, alone and with =value.
func TestBothSpellings(t *testing.T) {
	t.Parallel()
	discard := streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard, debug: new(bool)}
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, tail := range []string{"", "=v"} {
				in := append(append([]string(nil), path...), "-"+f.Name+tail)
				got := longFlags(newRoot(discard), in)
				if want := "--" + f.Name + tail; got[len(got)-1] != want {
					t.Errorf("%v became %v", in, got)
				}
			}
		})
		for _, s := range c.Commands() {
			visit(s, append(path, s.Name()))
		}
	}
	visit(newRoot(discard), nil)
	for _, keep := range [][]string{{"-h"}, {"apply", "--", "-var"}, {"apply", "-unknown"}} {
		if got := longFlags(newRoot(discard), keep); strings.Join(got, " ") != strings.Join(keep, " ") {
			t.Errorf("%v became %v", keep, got)
		}
	}
	if code := run(context.Background(), []string{"apply", "-no-such-flag"}, discard); code != exitUsage {
		t.Errorf("an unknown flag exits %d", code)
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext": "plain\n\ttext",
		"中文 🏴󠁧󠁢󠁳󠁣󠁴󠁿 עברית ": "中文 🏴󠁧󠁢󠁳󠁣󠁴󠁿 עברית ",
		"\x1b[31mred\a": `\x1b[31mred\x07`,
		"\u009b31m":     `\u009b31m`,
		"a\u202eb":      `a\u202eb`,
		"\r\x00":        `\x0d\x00`,
	} {
		if got := escape(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

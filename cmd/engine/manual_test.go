package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualMark ends what is written by hand in README.md.
const manualMark = "go test ./cmd/engine -run TestManual -update -->\n"

// TestManual: README.md lists every verb and flag, and no others, and every
// exit code.
func TestManual(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	hand, made, ok := strings.Cut(string(b), manualMark)
	if !ok {
		t.Fatal("README.md has no mark")
	}
	for _, code := range []int{exitOK, exitFailed, exitChanges, exitBudget, exitUsage, exitInvalid, exitInternal, exitStore, exitLocked, exitTimeout, exitCancel} {
		if !strings.Contains(hand, fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("README.md does not explain exit code %d", code)
		}
	}
	want := manual(newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard, debug: new(bool)}))
	if *update {
		if err := os.WriteFile("README.md", []byte(hand+manualMark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, made); d != "" {
		t.Errorf("README.md is not what the command tree says; run with -update (-want +got):\n%s", d)
	}
}

// manual describes every command that can be run.
func manual(root *cobra.Command) string {
	var b strings.Builder
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	flags := func(fs *pflag.FlagSet) {
		rows := ""
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden {
				return
			}
			name, usage := pflag.UnquoteUsage(f)
			flag := "--" + f.Name
			if f.Shorthand != "" {
				flag = "-" + f.Shorthand + ", " + flag
			}
			if name != "" {
				flag += " " + strings.ToUpper(name)
			}
			rows += fmt.Sprintf("| `%s` | %s |\n", cell.Replace(flag), cell.Replace(usage))
		})
		if rows != "" {
			b.WriteString("\n| flag | |\n|---|---|\n" + rows)
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, s := range c.Commands() {
			visit(s)
		}
		if !c.Runnable() || c.Hidden || c.Name() == "help" || c == root {
			return
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s.\n", c.UseLine(), strings.TrimSuffix(c.Short, "."))
		flags(c.LocalNonPersistentFlags())
	}
	b.WriteString("\nEvery verb knows these:\n")
	flags(root.PersistentFlags())
	visit(root)
	return b.String()
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// stepDir is the folder of the step that init makes, beside the flow.
const stepDir = "words"

// firstFlow is what init makes without a language: it needs nothing but the
// engine.
const firstFlow = `# What "engine apply" runs here. Change the text and apply again: only what that
# changes runs.
workflow "first" {}

variable "text" {
  type    = string
  default = "To be, or not to be, that is the question. It is a lovely day. 生存还是毁灭，这是个问题。"
}

plugin "text" {
  source = "std/text" # ships inside the engine; "./my.wasm" would be your own
}

step "keywords" {
  uses  = plugin.text.keywords
  input = { text = var.text, limit = 3 }
}

step "mood" {
  uses  = plugin.text.sentiment
  input = { text = var.text }
}

output "about" {
  value = [for k in step.keywords.output.keywords : k.phrase]
}

output "mood" {
  value = step.mood.output.overall.label
}
`

// languageFlow uses the step of a project.
const languageFlow = `# Counts words with the step in ./%[1]s, then looks at how the most frequent one is
# written. Change anything and apply again: only what that changes runs.
workflow "first" {}

variable "text" {
  type    = string
  default = "to be or not to be 生存还是毁灭"
}

plugin "%[1]s" {
  source = "./%[1]s/%[2]s"
}

plugin "template" {
  source = "std/template" # ships inside the engine
}

step "count" {
  uses  = plugin.%[1]s.count
  input = { text = var.text, least = 2 }
}

step "say" {
  uses = plugin.template.render
  input = {
    template = "{{range .}}{{.word}} ({{.count}}) {{end}}"
    data     = step.count.output.words
  }
}

output "words" {
  value = trimspace(step.say.output.text)
}
`

func newInit(io streams) *cobra.Command {
	var dir, sdk string
	var asJSON bool
	names := slices.Sorted(maps.Keys(languages))
	c := &cobra.Command{
		Use:   "init [LANG]",
		Short: "Make a small flow that runs, with a step in the language asked for",
		Long: `Without LANG the flow uses steps that ship inside the engine, so engine apply runs
it at once. LANG is ` + strings.Join(names, ", ") + `: then ./` + stepDir + ` is a
project of a step of your own, as engine plugin new makes it, and the flow uses it.
Nothing that is there is overwritten.`,
		Example: `  engine init
  engine init rust --dir hello`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			flow := filepath.Join(dir, "flow.hcl")
			if _, err := os.Lstat(flow); err == nil {
				return exit(exitUsage, "%s is there already; choose another folder with --dir", flow)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return exit(exitUsage, "%s: %w", flow, cause(err))
			}
			text, files := firstFlow, []string{"flow.hcl"}
			var next []string
			if dir != "." {
				next = append(next, "cd "+dir)
			}
			if len(args) > 0 {
				line, err := createProject(args[0], project{dir: filepath.Join(dir, stepDir), name: stepDir, sdk: sdk})
				if err != nil {
					return err
				}
				text = fmt.Sprintf(languageFlow, stepDir, artifact(stepDir, line.Kind))
				for _, f := range line.Files {
					files = append(files, filepath.Join(stepDir, f))
				}
				next = append(next, "(cd "+stepDir+" && sh build.sh)")
			} else if sdk != "" {
				return exit(exitUsage, "--sdk is for go; without a language no step is built")
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return exit(exitStore, "%s: %w", dir, cause(err))
			}
			if err := os.WriteFile(flow, []byte(text), 0o644); err != nil {
				return exit(exitStore, "%s: %w", flow, cause(err))
			}
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, createdLine{Type: "created", Dir: dir, Files: files})
				return nil
			}
			for _, f := range files {
				fmt.Fprintln(io.out, escape(filepath.Join(dir, f)))
			}
			fmt.Fprintf(io.err, "\nnext:\n")
			for _, n := range append(next, "engine apply") {
				fmt.Fprintf(io.err, "  %s\n", escape(n))
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "the `folder` of the flow; made if it is not there")
	c.Flags().StringVar(&sdk, "sdk", "", "for go: a `directory` with the engine's source to build with, in place of the released module")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

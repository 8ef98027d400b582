package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/steptest"
)

// checkLine is one check of a step.
type checkLine struct {
	Type  string `json:"type"`           // "check"
	Step  string `json:"step"`           // the step type
	Case  string `json:"case,omitempty"` // the file of a case
	Check string `json:"check,omitempty"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// testedLine is the last line of a test.
type testedLine struct {
	Type   string `json:"type"` // "tested"
	OK     bool   `json:"ok"`
	Checks int    `json:"checks"`
	Failed int    `json:"failed"`
}

func newPluginTest(io streams) *cobra.Command {
	v := &checkView{io: io}
	var level string
	c := &cobra.Command{
		Use:   "test FILE [CASE...]",
		Short: "Run the conformance suite on a plugin, and cases with recorded http",
		Long: `For every step type of the manifest: its examples give their outputs, outputs fit
their schema, input that is no object is refused, attempts without effects
repeat, the end of an attempt is obeyed. A CASE is a JSON file with a request,
the http requests it makes and the response it must give; nothing goes out to a
network. Exit 1 if a check fails.

  {"request":  {"step_type": "chat", "input": {"prompt": "hi"}},
   "http":     [{"match": {"method": "POST", "url": "https://api.example/chat"},
                 "reply": {"status": 200, "body": {"text": "hello"}}}],
   "response": {"output": {"text": "hello"}}}

"stops": true in place of the response wants the step to run until its deadline,
and until it is cancelled.`,
		Example: `  engine plugin test words.wasm
  engine plugin test chat.wasm cases/*.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			isolation, err := isolationOf(level)
			if err != nil {
				return err
			}
			return testPlugin(c.Context(), v, args[0], isolation, args[1:])
		},
	}
	addIsolation(c, &level)
	c.Flags().BoolVar(&v.json, "json", false, "print JSON to stdout, one object a line")
	return c
}

func testPlugin(ctx context.Context, v *checkView, path string, isolation loader.Isolation, caseFiles []string) error {
	cases, err := readCases(caseFiles)
	if err != nil {
		return err
	}
	l, a, err := openPlugin(v.io, path, isolation)
	if err != nil {
		return err
	}
	p, err := l.Load(ctx, a)
	if err != nil {
		return exit(exitInvalid, "%s: %w", path, err)
	}
	defer p.Close()

	v.begin()
	types := map[string]sdk.StepType{"run": {Effects: sdk.EffectsRead}}
	names := []string{"run"}
	if a.Manifest != nil {
		types, names = a.Manifest.Steps, a.Manifest.StepNames()
	}
	for _, name := range names {
		s, err := p.Step(name, loader.Limits{})
		if err != nil {
			return exit(exitInvalid, "%w", err)
		}
		o := options(name, types[name])
		if a.Manifest == nil {
			o.Bad = []json.RawMessage{} // it has not said what it takes
		}
		for _, r := range steptest.Check(ctx, s, o) {
			v.show(checkLine{Step: name, Check: r.Name}, r.Err)
		}
	}
	for i, c := range cases {
		name := c.Request.StepType
		if name == "" && len(names) == 1 {
			name = names[0]
		}
		s, err := p.Step(name, loader.Limits{})
		if err == nil {
			err = steptest.CheckCase(ctx, s, c, options(name, types[name]))
		}
		v.show(checkLine{Step: name, Case: caseFiles[i]}, err)
	}
	return v.end()
}

// options are those of a suite whose host has every operation but the
// network's; it serves many attempts, so that it does not count for one.
func options(name string, spec sdk.StepType) steptest.Options {
	return steptest.Options{Type: name, Spec: spec, Host: operation.New(operation.Options{MaxCalls: math.MaxInt})}
}

func readCases(files []string) ([]*steptest.Case, error) {
	var cases []*steptest.Case
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, exit(exitUsage, "case %s: %w", f, cause(err))
		}
		c, err := steptest.ParseCase(b)
		if err != nil {
			return nil, exit(exitUsage, "case %s: %w", f, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// checkView shows checks as they are made.
type checkView struct {
	io     streams
	json   bool
	checks int
	failed int
}

func (v *checkView) begin() {
	if v.json {
		writeVersion(v.io.out)
	}
}

func (v *checkView) show(line checkLine, err error) {
	line.Type, line.OK = "check", err == nil
	v.checks++
	word, text := "ok", ""
	if err != nil {
		v.failed++
		line.Error = err.Error()
		word, text = "failed", ": "+strings.ReplaceAll(escape(err.Error()), "\n", "\n            ")
	}
	if v.json {
		writeJSON(v.io.out, line)
		return
	}
	what := line.Check
	if line.Case != "" {
		what = "case " + line.Case
	}
	fmt.Fprintf(v.io.out, "  %-6s  %s, %s%s\n", word, escape(line.Step), escape(what), text)
}

func (v *checkView) end() error {
	if v.json {
		writeJSON(v.io.out, testedLine{"tested", v.failed == 0, v.checks, v.failed})
	} else {
		fmt.Fprintf(v.io.out, "%s, %d failed\n", count(v.checks, "check"), v.failed)
	}
	if v.failed > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

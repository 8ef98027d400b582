package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/loader"
)

func newTest(io streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "test [DIR]",
		Short: "Run the tests of a flow: its *.test.hcl files",
		Long: `Makes every run that the *.test.hcl files of a flow's directory describe, and
judges what they assert of it. Steps may be told what to answer instead of being
run (override_step, mock_plugin); the others run, without network. Each run has a
store of its own, unless it resumes an earlier one, and no delay of a retry is
waited for. Values, and those of secrets, come from the tests and from defaults,
never from outside.`,
		Example: `  engine test
  engine test flows/review
  engine test --json | jq -r 'select(.status=="fail").run'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON {
				writeVersion(io.out)
			}
			t := &tester{io: io, json: asJSON, dir: flowPath(args)}
			if err := t.load(); err != nil {
				return err
			}
			for _, f := range t.files {
				if err := t.file(c.Context(), f); err != nil {
					return err
				}
			}
			return t.end()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// tester makes the runs of the tests of one flow, one after the other.
type tester struct {
	io     streams
	json   bool
	dir    string
	wf     *hcl.Workflow
	flow   *host.Flow
	files  []*hcl.TestFile
	cast   cast
	passed int
	failed int
}

// load reads the flow and its tests. What is wrong with them is reported.
func (t *tester) load() error {
	wf, diags := readFlow(t.dir)
	shown := files(wf)
	if !diags.HasErrors() {
		var more hcl.Diagnostics
		t.files, more = wf.LoadTests(flowDir(t.dir))
		for _, f := range t.files {
			shown = append(shown, f.File)
		}
		diags = append(diags, more...)
	}
	if !diags.HasErrors() {
		ls, err := loaders(cacheDir(stateDir(place{}, flowDir(t.dir)).dir), loader.InProcess, logger(t.io))
		if err != nil {
			return exit(exitInternal, "%w", err)
		}
		for i := range ls {
			ls[i] = &castLoader{ls[i], &t.cast}
		}
		var more hcl.Diagnostics
		t.flow, more = host.Compile(wf, flowDir(t.dir), ls)
		diags = append(diags, more...)
	}
	if diags.HasErrors() {
		return newDiagView(t.io, t.json).report(&hcl.Workflow{Files: shown}, diags)
	}
	t.wf = wf
	if len(t.files) == 0 {
		return exit(exitUsage, "%s has no *.test.hcl file; write one beside the flow", escape(flowDir(t.dir)))
	}
	return nil
}

func (t *tester) file(ctx context.Context, f *hcl.TestFile) error {
	if !t.json {
		fmt.Fprintln(t.io.out, escape(filepath.ToSlash(f.File.Path)))
	}
	stores := make([]*checkpoint.MemoryStore, len(f.Runs))
	for i, run := range f.Runs {
		stores[i] = checkpoint.NewMemoryStore()
		if run.Resume >= 0 {
			stores[i] = stores[run.Resume]
		}
		diags, err := t.run(ctx, run, stores[i])
		if err != nil {
			return failure(err, t.wf, newDiagView(t.io, t.json))
		}
		t.told(f, run, diags)
	}
	return nil
}

// run makes one run. The diagnostics say what was not as the test wants it.
func (t *tester) run(ctx context.Context, run *hcl.TestRun, store *checkpoint.MemoryStore) (hcl.Diagnostics, error) {
	values, invalid, diags := run.Bind()
	if diags.HasErrors() {
		for _, name := range invalid {
			if !slices.Contains(run.ExpectFailures, "var."+name) {
				return diags, nil
			}
		}
		if len(invalid) == 0 {
			return diags, nil
		}
		return unmet(run, func(what string) bool { return slices.Contains(invalid, strings.TrimPrefix(what, "var.")) }), nil
	}
	answers, diags := run.Answers(values)
	if diags.HasErrors() {
		return diags, nil
	}
	t.cast.play(t.flow, answers)
	h, err := host.New(host.Options{Secrets: run.Secrets, Store: store, Logger: logger(t.io), Version: version, Key: make([]byte, 32), NoWait: true})
	if err != nil {
		return nil, err
	}
	var asserted hcl.Diagnostics
	res, err := h.Apply(ctx, t.flow, values, host.RunOptions{Ended: func(up hcl.Upstream) {
		asserted = run.Assert(values, hcl.RunInfo{}, up)
	}})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, exit(exitCancel, "cancelled in run %q", run.Name)
	}
	return append(outcomes(run, res), asserted...), nil
}

// outcomes are the failures that were not expected, and those that were and did
// not come.
func outcomes(run *hcl.TestRun, res *host.Result) (diags hcl.Diagnostics) {
	var failed []string
	for _, f := range append(slices.Clip(res.Failures), res.Skipped...) {
		failed = append(failed, f.Step)
	}
	for _, f := range res.Failures {
		if !slices.ContainsFunc(run.ExpectFailures, func(what string) bool { return hcl.Covers(what, f.Step) }) {
			step, _, _ := strings.Cut(stepOf(f.Step), "/") // what can be expected
			step = strings.TrimSuffix(step, hcl.AllInstances)
			diags = append(diags, hcl.Diagnostic{Code: "unexpected-failure", Summary: "Step failed", Subject: run.Range,
				Detail: fmt.Sprintf("%s failed after %s: %v. If that is meant, write expect_failures = [%s].", f.Step, count(f.Attempts, "attempt"), f.Error, step)})
		}
	}
	for _, o := range res.Outputs {
		if o.Unavailable != "" {
			failed = append(failed, "output."+o.Name)
		}
	}
	return append(diags, unmet(run, func(what string) bool {
		return slices.ContainsFunc(failed, func(step string) bool { return hcl.Covers(what, step) })
	})...)
}

// unmet are the expected failures that did not come.
func unmet(run *hcl.TestRun, came func(string) bool) (diags hcl.Diagnostics) {
	for _, what := range run.ExpectFailures {
		if !came(what) {
			diags = append(diags, hcl.Diagnostic{Code: "missing-failure", Summary: "Failure did not come", Subject: run.Range,
				Detail: fmt.Sprintf("%s was expected to fail, and did not.", what)})
		}
	}
	return diags
}

// told says how one run came out.
func (t *tester) told(f *hcl.TestFile, run *hcl.TestRun, diags hcl.Diagnostics) {
	status := "pass"
	if diags.HasErrors() {
		status = "fail"
		t.failed++
	} else {
		t.passed++
	}
	shown := append(slices.Clip(files(t.wf)), f.File)
	if t.json {
		writeJSON(t.io.out, map[string]any{"type": "test", "file": f.File.Path, "run": run.Name, "status": status, "diagnostics": diags.JSON(shown)})
		return
	}
	fmt.Fprintf(t.io.out, "  %s  %s\n", status, escape(run.Name))
	if diags.HasErrors() {
		_ = diags.WriteText(t.io.err, shown, 0)
	}
}

func (t *tester) end() error {
	if t.json {
		writeJSON(t.io.out, map[string]any{"type": "tests", "passed": t.passed, "failed": t.failed})
	} else {
		fmt.Fprintf(t.io.out, "%d passed, %d failed\n", t.passed, t.failed)
	}
	if t.failed > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

var _ loader.Loader = (*castLoader)(nil)

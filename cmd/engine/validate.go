package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/loader"
)

func newValidate(io streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate [FLOW]",
		Short: "Check a flow and its plugins' manifests; needs no values and runs nothing",
		Example: `  engine validate
  engine validate flow.hcl --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := flowPath(args)
			wf, diags := readFlow(path)
			if !diags.HasErrors() {
				ls, err := loaders("", loader.InProcess, logger(io))
				if err != nil {
					return exit(exitInternal, "%w", err)
				}
				_, more := host.Compile(wf, flowDir(path), ls)
				diags = append(diags, more...)
			}
			v := newDiagView(io, asJSON)
			if asJSON {
				writeVersion(io.out)
				return v.report(wf, diags)
			}
			if err := v.report(wf, diags); err != nil {
				return err
			}
			fmt.Fprintf(io.out, "%s is valid: workflow %q, %s\n", escape(path), wf.Name, count(len(wf.Steps), "step"))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

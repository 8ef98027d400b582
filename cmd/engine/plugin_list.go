package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/plugins"
)

func newPluginList(io streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that ship inside the engine, with their step types",
		Example: `  engine plugin list
  engine plugin inspect std/text`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var lines []*pluginLine
			for _, name := range plugins.Names() {
				line, err := inspect(io, loader.Std+name)
				if err != nil {
					return err
				}
				lines = append(lines, line)
			}
			if asJSON {
				writeVersion(io.out)
				for _, line := range lines {
					writeJSON(io.out, line)
				}
				return nil
			}
			w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
			for _, line := range lines {
				kind := "sandboxed"
				if line.Kind == string(loader.Native) {
					kind = "native"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", line.Path, line.Manifest.Version, kind, strings.Join(line.Manifest.StepNames(), " "))
			}
			_ = w.Flush() // stdout remembers its errors itself
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

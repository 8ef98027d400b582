package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/loader"
)

func newPlugin(io streams) *cobra.Command {
	c := &cobra.Command{
		Use: "plugin", Short: "Write, look at and test steps", Args: cobra.NoArgs,
		Long: `For authors of steps: new makes a project, pack adds its manifest, test runs the
conformance suite. sdk/README.md says how to write a step in each language.`,
	}
	c.AddCommand(newPluginNew(io), newPluginPack(io), newPluginInspect(io), newPluginTest(io), newPluginList(io))
	return c
}

// openPlugin finds the loader of a file, or of std/NAME, and opens it there.
func openPlugin(io streams, path string, isolation loader.Isolation) (loader.Loader, *loader.Artifact, error) {
	ls, err := loaders("", isolation, logger(io))
	if err != nil {
		return nil, nil, exit(exitInternal, "%w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(path, loader.Std) {
		return nil, nil, exit(exitUsage, "there is no file %s", path)
	}
	for _, l := range ls {
		a, err := l.Open(path)
		switch {
		case errors.Is(err, loader.ErrForeign):
			continue
		case err != nil:
			return nil, nil, &exitError{exitInvalid, err}
		}
		return l, a, nil
	}
	return nil, nil, exit(exitInvalid, "%s is neither a Wasm module nor an executable", path)
}

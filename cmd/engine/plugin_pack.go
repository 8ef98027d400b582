package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/sdk"
)

// packedLine is what pack did.
type packedLine struct {
	Type   string     `json:"type"` // "packed"
	Path   string     `json:"path"` // the file that was written
	Kind   string     `json:"kind"`
	Name   string     `json:"name"` // the plugin's
	Digest sdk.Digest `json:"digest"`
}

func newPluginPack(io streams) *cobra.Command {
	var from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "pack FILE",
		Short: "Put a manifest into a module, or beside a native plugin",
		Long: `A module gets the manifest as its custom section engine.step, in place of one it
has. A native plugin gets the file NAME.step.json beside it; where there is no
manifest to take, the plugin is asked for one (--engine-manifest), which is a
start: it names the step types and nothing more.`,
		Example: `  engine plugin pack words.wasm                        with step.json beside it
  engine plugin pack words.wasm --manifest words.json
  engine plugin pack bin/words                         writes bin/words.step.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if strings.HasPrefix(args[0], loader.Std) {
				return exit(exitUsage, "%s ships inside the engine with its manifest", args[0])
			}
			_, a, err := openPlugin(io, args[0], loader.InProcess)
			if err != nil {
				return err
			}
			manifest, err := manifestFor(c, a, from)
			if err != nil {
				return err
			}
			line, err := pack(io, a, manifest)
			if err != nil {
				return err
			}
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, line)
				return nil
			}
			fmt.Fprintf(io.out, "%s has the manifest of %s; %s\n", escape(line.Path), line.Name, line.Digest)
			return nil
		},
	}
	c.Flags().StringVar(&from, "manifest", "", "the manifest's `file`; default step.json beside FILE")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// manifestFor reads the manifest to pack: the named file, else step.json beside
// the artifact, else what a native plugin says of itself.
func manifestFor(c *cobra.Command, a *loader.Artifact, from string) ([]byte, error) {
	path := from
	if path == "" {
		path = filepath.Join(filepath.Dir(a.Path), "step.json")
	}
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
	case from != "" || !errors.Is(err, fs.ErrNotExist):
		return nil, exit(exitUsage, "manifest: %w", err)
	case a.Kind == loader.Wasm:
		return nil, exit(exitUsage, "there is no %s; name the manifest with --manifest", path)
	default:
		if b, err = askManifest(c, a.Path); err != nil {
			return nil, err
		}
	}
	if _, err := sdk.ParseManifest(b); err != nil {
		return nil, exit(exitInvalid, "%s: %w", path, err)
	}
	return b, nil
}

func askManifest(c *cobra.Command, path string) ([]byte, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, exit(exitInternal, "%w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(c.Context(), abs, "--engine-manifest")
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, exit(exitInvalid, "%s has no manifest to tell (--engine-manifest: %w%s); write one and name it with --manifest", path, err, sdk.Seen(stderr.Bytes()))
	}
	return b, nil
}

// pack writes the manifest where the artifact's loader looks for it, and opens
// the result.
func pack(io streams, a *loader.Artifact, manifest []byte) (*packedLine, error) {
	path, content := sdk.SidecarPath(a.Path), manifest
	if a.Kind == loader.Wasm {
		if side, err := os.Stat(path); err == nil && side.Mode().IsRegular() {
			return nil, exit(exitUsage, "%s would count before the manifest in the module; remove it first", path)
		}
		packed, err := wasm.Embed(a.Bytes, manifest)
		if err != nil {
			return nil, &exitError{exitInvalid, err}
		}
		path, content = a.Path, packed
	}
	write := replaceFile
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		write = func(path string, b []byte) error { return os.WriteFile(path, b, 0o644) }
	}
	if err := write(path, content); err != nil {
		return nil, exit(exitStore, "%s: %w", path, cause(err))
	}
	_, packed, err := openPlugin(io, a.Path, loader.InProcess)
	if err != nil {
		return nil, err
	}
	return &packedLine{"packed", path, string(packed.Kind), packed.Manifest.Name, packed.Digest}, nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/plugins"
	"github.com/retrace-dev/engine/sdk"
)

// pluginLine is what can be told of a plugin without running it.
type pluginLine struct {
	Type     string        `json:"type"` // "plugin"
	Path     string        `json:"path"`
	Kind     string        `json:"kind"`           // "wasm", "native"; "" if it is neither
	Form     string        `json:"form,omitempty"` // of a module: "command" or "reactor"
	Size     int64         `json:"size,omitempty"`
	Digest   sdk.Digest    `json:"digest,omitzero"`
	Source   string        `json:"manifest_source,omitempty"` // "module", "engine" or the sidecar's path; "" without a manifest
	Manifest *sdk.Manifest `json:"manifest,omitempty"`
	Imports  []string      `json:"imports,omitempty"`
	Exports  []string      `json:"exports,omitempty"`
	Memory   int64         `json:"memory,omitempty"` // bytes a module begins with
	Limits   *limitsLine   `json:"limits,omitempty"`
	Refused  string        `json:"refused,omitempty"` // why the engine does not run it
}

// limitsLine are the limits of an attempt where a flow says nothing else.
type limitsLine struct {
	Memory    int64 `json:"memory,omitempty"` // of a module
	Request   int64 `json:"request"`
	Response  int64 `json:"response"`
	Stderr    int64 `json:"stderr"`
	HostCalls int   `json:"host_calls"`
}

func newPluginInspect(io streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Tell what a plugin is, without running it: kind, digest, manifest, imports, limits",
		Long: `A plugin that the engine would refuse is described as far as it can be read, with
the reason and what to do: exit 65.`,
		Example: `  engine plugin inspect words.wasm
  engine plugin inspect std/text
  engine plugin inspect words.wasm --json | jq -r 'select(.type=="plugin").digest'`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			line, err := inspect(io, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, line)
			} else {
				line.write(io)
			}
			if line.Refused != "" {
				return exit(exitInvalid, "the engine would refuse it: %s", line.Refused)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// inspect describes the file at path. The error says that it cannot be read.
func inspect(io streams, path string) (*pluginLine, error) {
	line := &pluginLine{Type: "plugin", Path: path}
	_, a, err := openPlugin(io, path, loader.InProcess)
	var e *exitError
	switch {
	case err == nil:
	case errors.As(err, &e) && e.code == exitInvalid && !strings.HasPrefix(path, loader.Std):
		line.Refused = e.Error()
	default:
		return nil, err
	}
	if a == nil {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, exit(exitUsage, "%s: %w", path, cause(err))
		}
		line.Size = int64(len(b))
		if strings.HasPrefix(string(b), "\x00asm") {
			line.Kind, line.Digest = string(loader.Wasm), sdk.Sum(b)
			line.describe(wasm.Describe(b))
		}
		return line, nil
	}
	line.Kind, line.Digest, line.Size = string(a.Kind), a.Digest, int64(len(a.Bytes))
	if a.Manifest != nil && a.Manifest.Name != "" { // that of a raw program is the engine's
		line.Manifest = a.Manifest
	}
	l := loader.Limits{}.WithDefaults()
	line.Limits = &limitsLine{l.Memory, l.Request, l.Response, l.Stderr, l.HostCalls}
	if line.Manifest != nil {
		line.Source = "module"
		if strings.HasPrefix(path, loader.Std) {
			line.Source = "engine"
			return line, line.describeStd()
		}
		if _, err := os.Stat(sdk.SidecarPath(path)); err == nil {
			line.Source = sdk.SidecarPath(path)
		}
	}
	if a.Kind == loader.Wasm {
		line.describe(wasm.Describe(a.Bytes))
		return line, nil
	}
	line.Limits.Memory = 0
	st, err := os.Stat(path)
	if err != nil {
		return nil, exit(exitUsage, "%s: %w", path, cause(err))
	}
	line.Size = st.Size()
	return line, nil
}

func (l *pluginLine) describe(d *wasm.Description) {
	l.Form = "reactor"
	if d.Command {
		l.Form = "command"
	}
	l.Size, l.Imports, l.Exports, l.Memory = d.Size, d.Imports, d.Exports, d.Memory
}

// describeStd describes the module of a plugin that ships inside the engine.
func (l *pluginLine) describeStd() error {
	p, err := plugins.Open(strings.TrimPrefix(l.Path, loader.Std))
	if err != nil || p.Native() {
		l.Limits.Memory = 0
		return err
	}
	b, err := p.Module()
	if err != nil {
		return exit(exitInternal, "%w", err)
	}
	l.describe(wasm.Describe(b))
	return nil
}

// write prints the description for a person.
func (l *pluginLine) write(io streams) {
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	switch {
	case l.Form != "":
		row("kind", "Wasm module, %s", l.Form)
	case l.Kind != "":
		row("kind", "%s plugin", l.Kind)
	}
	if !l.Digest.IsZero() {
		row("digest", "%s", l.Digest)
	}
	if l.Size > 0 {
		row("size", "%s", formatSize(l.Size))
	}
	switch {
	case l.Manifest != nil:
		where := l.Source
		if where == "module" || where == "engine" {
			where = "the " + where
		}
		row("manifest", "%s %s, in %s", l.Manifest.Name, l.Manifest.Version, where)
		for _, n := range l.Manifest.StepNames() {
			t := l.Manifest.Steps[n]
			row("step", "%s, effects %s, %s: %s", n, t.Effects, count(len(t.Examples), "example"), t.Description)
		}
		for _, c := range l.Manifest.Capabilities {
			row("asks for", "%s: %s", c, c.Reason)
		}
	case l.Refused == "" && l.Form == "command":
		row("manifest", `none: a raw program, its step type is "run"; engine plugin pack adds one`)
	case l.Refused == "":
		row("manifest", `none: untyped, its step type is "run"; engine plugin pack adds one`)
	}
	if l.Imports != nil {
		row("imports", "%s", strings.Join(l.Imports, " "))
	}
	if l.Exports != nil {
		row("exports", "%s", strings.Join(l.Exports, " "))
	}
	if l.Form != "" {
		row("memory", "begins with %s", formatSize(l.Memory))
	}
	if m := l.Limits; m != nil {
		text := fmt.Sprintf("request %s, response %s, stderr %s, %d host calls", formatSize(m.Request), formatSize(m.Response), formatSize(m.Stderr), m.HostCalls)
		if m.Memory > 0 {
			text = fmt.Sprintf("memory %s, ", formatSize(m.Memory)) + text
		}
		row("limits", "%s", text)
	}
	_ = w.Flush() // stdout remembers its errors itself
}

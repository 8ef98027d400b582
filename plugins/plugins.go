package plugins

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

//go:embed dist/*.wasm.gz dist/digests */step.json
var files embed.FS

// Plugin is one that ships inside the engine.
type Plugin struct {
	Name     string
	Manifest []byte            // step.json; it belongs to the caller
	Digest   [sha256.Size]byte // of the module's bytes; zero for a native plugin, which has none
}

// Native reports whether the engine serves the plugin itself, outside of any
// sandbox.
func (p *Plugin) Native() bool { return p.Digest == [sha256.Size]byte{} }

// Names lists the plugins, sorted.
func Names() []string {
	var names []string
	manifests, err := fs.Glob(files, "*/step.json")
	if err != nil {
		panic("plugins: " + err.Error()) // the pattern is a constant
	}
	for _, m := range manifests {
		names = append(names, strings.TrimSuffix(m, "/step.json"))
	}
	slices.Sort(names)
	return names
}

// Open describes a plugin, without unpacking its module. A name that is not in
// Names is an error that lists them.
func Open(name string) (*Plugin, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("the engine ships no plugin %q; it has %s", name, strings.Join(Names(), ", "))
	}
	p := &Plugin{Name: name}
	var err error
	if p.Manifest, err = files.ReadFile(name + "/step.json"); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	digests, err := files.ReadFile("dist/digests")
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	for line := range strings.Lines(string(digests)) {
		if text, file, _ := strings.Cut(strings.TrimSpace(line), "  "); file == name+".wasm" {
			if n, err := hex.Decode(p.Digest[:], []byte(text)); err != nil || n != sha256.Size {
				return nil, fmt.Errorf("plugin %s: its digest %q is none", name, text)
			}
		}
	}
	return p, nil
}

// Module unpacks the module and checks its digest. It belongs to the caller.
func (p *Plugin) Module() ([]byte, error) {
	packed, err := files.ReadFile("dist/" + p.Name + ".wasm.gz")
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	module, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	if sha256.Sum256(module) != p.Digest {
		return nil, fmt.Errorf("plugin %s: its module is not the one that dist/digests names", p.Name)
	}
	return module, nil
}

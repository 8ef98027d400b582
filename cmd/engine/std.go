package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/plugins"
	"github.com/retrace-dev/engine/plugins/exec"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

// std loads the plugins that ship inside the engine: modules by the Wasm
// loader, native ones as this executable under another name.
type std struct {
	wasm   *wasm.Loader
	native *subprocess.Loader
}

var _ loader.Loader = (*std)(nil)

// execSource is the native plugin that ships inside the engine.
const execSource = loader.Std + "exec"

func (s *std) Open(path string) (*loader.Artifact, error) {
	name, ok := strings.CutPrefix(path, loader.Std)
	if !ok {
		return nil, loader.ErrForeign
	}
	p, err := plugins.Open(name)
	if err != nil {
		return nil, err
	}
	m, err := sdk.ParseManifest(p.Manifest)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	// The module is unpacked at Load: a plan needs no more than its digest. A
	// native plugin is identified by its manifest; the executable changes with
	// every build of the engine, what the steps do does not.
	a := &loader.Artifact{Kind: loader.Wasm, Path: path, Digest: sdk.Sum(fmt.Appendf(nil, "%x\n%s", p.Digest, p.Manifest)), Manifest: m}
	if p.Native() {
		a.Kind = loader.Native
	}
	return a, nil
}

func (s *std) Load(ctx context.Context, a *loader.Artifact) (loader.Plugin, error) {
	if a.Kind == loader.Native {
		return s.native.LoadSelf(ctx, a)
	}
	p, err := plugins.Open(strings.TrimPrefix(a.Path, loader.Std))
	if err != nil {
		return nil, err
	}
	module, err := p.Module()
	if err != nil {
		return nil, err
	}
	whole := *a
	whole.Bytes = module
	return s.wasm.Load(ctx, &whole)
}

// serveStd must be called early in main: in a process that was started as a
// native plugin of the engine it serves that and does not return.
func serveStd() {
	if os.Args[0] == execSource {
		serve.Main(exec.Steps())
	}
}

package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// spec is what a worker process is told about its module. Its files are the
// rewritten module and the directory of what wazero compiled.
type spec struct {
	Path     string        `json:"path"`
	Manifest *sdk.Manifest `json:"manifest,omitempty"`
	Facts    facts         `json:"facts"`
	Limits   loader.Limits `json:"limits"`
}

// isolated are the workers of a plugin under one set of limits.
type isolated struct {
	loader.Isolated
	files []*os.File
}

func (i isolated) close() error {
	err := i.Close()
	closeAll(i.files)
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing was written
	}
}

// isolate returns a step type whose attempts run in worker processes. Step types
// under equal limits share them.
func (p *plugin) isolate(stepType string, limits loader.Limits) (sdk.Step, error) {
	if p.workers == nil {
		return nil, &sdk.Error{Class: sdk.ClassSandbox, Code: "isolation", Message: fmt.Sprintf("module %s is to run in processes of its own, and this engine has none for it; use isolation = \"inprocess\"", p.path)}
	}
	limits.Isolation = loader.Process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	w, ok := p.isolated[limits]
	if !ok {
		var err error
		if w, err = p.start(limits); err != nil {
			return nil, loadError(p.path, err)
		}
		if p.isolated == nil {
			p.isolated = map[loader.Limits]isolated{}
		}
		p.isolated[limits] = w
	}
	return isolatedStep{w, stepType}, nil
}

// isolatedStep is one step type of what workers run.
type isolatedStep struct {
	loader.Isolated
	stepType string
}

func (s isolatedStep) Run(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	own := *req
	own.StepType = s.stepType
	return s.Isolated.Run(ctx, &own, host)
}

func (p *plugin) start(limits loader.Limits) (isolated, error) {
	in := limits
	in.Isolation = loader.InProcess // as the worker sees it
	b, err := sdk.Marshal(spec{Path: p.path, Manifest: p.manifest, Facts: p.shared.facts, Limits: in})
	if err != nil {
		return isolated{}, sdk.AsError(err)
	}
	files, err := p.shared.open()
	if err != nil {
		return isolated{}, err
	}
	w, err := p.workers.Isolate(loader.Job{Path: p.path, Limits: limits, Spec: b, Files: files})
	if err != nil {
		closeAll(files)
		return isolated{}, err
	}
	return isolated{w, files}, nil
}

// open opens what a worker process needs of an entry.
func (e entry) open() ([]*os.File, error) {
	var files []*os.File
	for _, name := range []string{fileModule, dirNative} {
		f, err := os.Open(filepath.Join(e.dir, name))
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Serve makes the step of a worker process out of what the loader gave it
// (loader.Job). It loads what is compiled and compiles nothing.
func Serve(description []byte, files []*os.File) (sdk.Step, error) {
	var s spec
	if err := sdk.Unmarshal(description, &s); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if len(files) != 2 {
		return nil, fmt.Errorf("worker: %d files", len(files))
	}
	st, err := files[0].Stat()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	code := make([]byte, st.Size())
	if _, err := files[0].ReadAt(code, 0); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	native := fmt.Sprintf("/proc/self/fd/%d", files[1].Fd())
	if !compiledIn(native) {
		return nil, errors.New("worker: the module is not compiled")
	}
	program, err := compileIn(context.Background(), code, s.Facts, native)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	p := &plugin{shared: &shared{facts: s.Facts}, program: program, manifest: s.Manifest, path: s.Path, isolation: loader.InProcess}
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		step, err := p.Step(req.StepType, s.Limits)
		if err != nil {
			return nil, err
		}
		return step.Run(ctx, req, host)
	}), nil
}

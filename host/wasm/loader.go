package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// Options of New. The zero value keeps nothing on disk and logs nothing.
type Options struct {
	// CacheDir keeps compiled modules between processes. It is made with mode
	// 0700 and must not be writable for others: what lies there runs as native
	// code. "" compiles at every first Load.
	CacheDir string
	// Workers compile modules, and run them under loader.Process. nil compiles in
	// this process, bounded by the pre-scan's limits alone, and refuses
	// loader.Process.
	Workers loader.Workers
	// Isolation is the least that steps get; their limits may name more. Defaults
	// to loader.InProcess.
	Isolation loader.Isolation
	Logger    hclog.Logger // Defaults to none
}

// Loader loads Wasm modules. It is safe for concurrent use; there is nothing to
// close but the plugins it has loaded.
type Loader struct {
	cache     *cache
	workers   loader.Workers
	isolation loader.Isolation
	logger    hclog.Logger

	mu     sync.Mutex
	shared map[sdk.Digest]*shared // by digest of the module's bytes
}

var _ loader.Loader = (*Loader)(nil)

// New makes a Loader. The error says what is wrong with the options.
func New(o Options) (*Loader, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	l := &Loader{logger: o.Logger.Named("wasm"), workers: o.Workers, isolation: o.Isolation, shared: map[sdk.Digest]*shared{}}
	switch {
	case l.isolation == "":
		l.isolation = loader.InProcess
	case l.isolation == loader.Process && o.Workers == nil:
		return nil, errors.New("isolation by processes without workers")
	}
	c, err := openCache(o.CacheDir, l.logger)
	if err != nil {
		return nil, fmt.Errorf("wasm cache: %w", err)
	}
	l.cache = c
	return l, nil
}

// Open reads the module at path and checks everything that can be told without
// compiling it. A manifest NAME.step.json beside NAME.wasm counts before the one
// in the module. A command without one is a raw program with the step type "run".
func (l *Loader) Open(path string) (*loader.Artifact, error) {
	if strings.HasPrefix(path, loader.Std) {
		return nil, loader.ErrForeign
	}
	b, err := readModule(path)
	if err != nil {
		return nil, err
	}
	m, err := parseModule(b)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	a := &loader.Artifact{Kind: loader.Wasm, Path: path, Bytes: b, Digest: sdk.Sum(b)}
	manifest := m.manifest
	sidecar, err := sdk.ReadSidecar(path)
	if err != nil {
		return nil, err
	}
	if sidecar != nil {
		manifest, a.Digest = sidecar, pairDigest(b, sidecar)
	}
	_, command := m.exports["_start"]
	if manifest == nil {
		if command {
			a.Manifest = rawManifest()
		}
		return a, nil
	}
	if a.Manifest, err = sdk.ParseManifest(manifest); err != nil {
		return nil, fmt.Errorf("module %s: %w", path, err)
	}
	if a.Manifest.IO == ioRaw {
		if !command {
			return nil, fmt.Errorf(`module %s: manifest: io "raw" is for programs, and the module exports no _start; leave io out`, path)
		}
		rawDefaults(a.Manifest)
	}
	return a, nil
}

func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	defer f.Close()
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, magic) {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("module: %w", err)
		}
		return nil, loader.ErrForeign
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxModule+1))
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	b := append(head, rest...)
	if len(b) > maxModule {
		return nil, fmt.Errorf("module %s is larger than %d MiB; build with -Os and strip it", path, maxModule>>20)
	}
	return b, nil
}

// parseModule is the pre-scan, and what makes a module a step.
func parseModule(b []byte) (*module, error) {
	m, err := parse(b)
	if err != nil {
		return nil, err
	}
	return m, m.checkStep()
}

// pairDigest covers the module and its sidecar, each with its length before it.
func pairDigest(module, sidecar []byte) sdk.Digest {
	return sdk.Sum(fmt.Appendf(nil, "%d:%s%d:%s", len(module), module, len(sidecar), sidecar))
}

// Load compiles the module, or finds it compiled. Artifacts with equal bytes
// share one compiled module.
func (l *Loader) Load(ctx context.Context, a *loader.Artifact) (loader.Plugin, error) {
	if a.Kind != loader.Wasm {
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("artifact %s is %s, not wasm", a.Path, a.Kind)}
	}
	digest := sdk.Sum(a.Bytes)
	s, err := l.acquire(ctx, digest, a.Bytes)
	if err != nil {
		return nil, loadError(a.Path, err)
	}
	p := &plugin{shared: s, manifest: a.Manifest, path: a.Path, workers: l.workers, isolation: l.isolation, release: func() { l.release(digest, s) }}
	if l.isolation == loader.InProcess {
		if p.program, err = s.load(ctx); err != nil {
			p.release()
			return nil, loadError(a.Path, err)
		}
	}
	return p, nil
}

// acquire takes a use of the compiled module. The first one who needs it builds
// it; others wait, and build it themselves if that one was cancelled.
func (l *Loader) acquire(ctx context.Context, digest sdk.Digest, b []byte) (*shared, error) {
	for {
		if ctx.Err() != nil {
			return nil, sdk.Ended(ctx)
		}
		l.mu.Lock()
		s := l.shared[digest]
		if s == nil {
			s = &shared{refs: 1, ready: make(chan struct{})}
			l.shared[digest] = s
			l.mu.Unlock()
			s.err = l.build(ctx, s, digest, b)
			close(s.ready)
			if s.err != nil {
				l.release(digest, s)
			}
			return s, s.err
		}
		s.refs++
		l.mu.Unlock()
		select {
		case <-s.ready:
			if s.err == nil {
				return s, nil
			}
			l.release(digest, s)
			if c := sdk.AsError(s.err).Class; c != sdk.ClassCancelled && c != sdk.ClassTimeout {
				return nil, s.err
			}
		case <-ctx.Done():
			l.release(digest, s)
			return nil, sdk.Ended(ctx)
		}
	}
}

func loadError(path string, err error) *sdk.Error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return refusal(path, err)
	}
	if e.Code == loader.CodeCompileTime || e.Code == loader.CodeCompileMemory {
		own := *e
		own.Message = fmt.Sprintf("module %s: %s", path, e.Message)
		return &own
	}
	return e
}

// release gives up one use of a compiled module and frees it after the last.
func (l *Loader) release(digest sdk.Digest, s *shared) {
	l.mu.Lock()
	s.refs--
	last := s.refs == 0
	if l.shared[digest] == s && (last || s.failed()) { // the next Load tries again
		delete(l.shared, digest)
	}
	l.mu.Unlock()
	if last {
		s.close()
	}
}

package wasm

import (
	"context"
	"os"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// shared is a compiled module in use by some plugins. ready is closed when it is
// compiled or err is set.
type shared struct {
	refs  int
	ready chan struct{}
	err   error
	facts facts
	entry entry
	anew  func(ctx context.Context, useless error) error // makes the entry again; nil without one

	mu      sync.Mutex
	program *program // nil until it is needed in this process
}

// failed reports whether building has ended in an error.
func (s *shared) failed() bool {
	select {
	case <-s.ready:
		return s.err != nil
	default:
		return false
	}
}

// build compiles a module that nobody has loaded yet. Without workers and a cache
// nothing is written.
func (l *Loader) build(ctx context.Context, s *shared, digest sdk.Digest, b []byte) error {
	if l.cache.dir == "" && l.workers == nil {
		m, err := parseModule(b)
		if err != nil {
			return err
		}
		code, err := m.prepare(ctx)
		if err != nil {
			return err
		}
		s.facts = m.facts()
		s.program, err = compile(ctx, code, s.facts, nil)
		return err
	}
	work := func(ctx context.Context, dir string) error { return compileTo(ctx, b, dir) }
	if l.workers != nil {
		work = func(ctx context.Context, dir string) error { return l.workers.Compile(ctx, b, dir) }
	}
	s.anew = func(ctx context.Context, useless error) (err error) {
		l.logger.Warn("a compiled module in the cache is of no use, compiling again", "entry", s.entry.dir, "error", useless)
		l.cache.discard(s.entry)
		s.entry, err = l.cache.make(ctx, digest, work)
		return err
	}
	found := false
	var err error
	if s.entry, found = l.cache.get(digest); !found {
		if s.entry, err = l.cache.make(ctx, digest, work); err != nil {
			return err
		}
	}
	if s.facts, err = s.entry.readFacts(); err == nil {
		return nil
	}
	if err = s.anew(ctx, err); err == nil {
		s.facts, err = s.entry.readFacts()
	}
	return err
}

// load returns the program in this process. An entry that verifies and is of no
// use all the same is made again, once.
func (s *shared) load(ctx context.Context) (*program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.program != nil {
		return s.program, nil
	}
	var err error
	if s.program, err = s.entry.load(ctx, s.facts); err == nil {
		return s.program, nil
	}
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	if err = s.anew(ctx, err); err == nil {
		s.program, err = s.entry.load(ctx, s.facts)
	}
	return s.program, err
}

// open opens the entry for worker processes.
func (s *shared) open() (files []*os.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if files, err = s.entry.open(); err == nil {
		return files, nil
	}
	if err = s.anew(context.Background(), err); err != nil {
		return nil, err
	}
	return s.entry.open()
}

// close frees what is left after the last use.
func (s *shared) close() {
	if s.program != nil {
		s.program.close()
	}
	s.entry.free()
}

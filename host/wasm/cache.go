package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/cpu"

	"github.com/retrace-dev/engine/sdk"
)

// cache keeps one directory per module: what Compile leaves, and the digest of
// it. An entry is made in a directory of its own and renamed into place, so
// there are no half ones; one that does not verify is made again.
type cache struct {
	dir    string
	logger hclog.Logger

	mu      sync.Mutex
	sums    map[string]string // by entry: what it was when this process made it or first read it
	cleaned bool
}

// entry is a compiled module on disk.
type entry struct {
	dir  string
	once bool // belongs to whoever has it: the cache could not keep it
}

const (
	cacheSum   = "sum"
	newEntries = "new-" // begins the names of entries that are being made
)

// openCache checks the directory if there is one; the first entry makes it, so
// that reading a flow leaves nothing behind. Without a directory nothing is kept.
func openCache(dir string, logger hclog.Logger) (*cache, error) {
	c := &cache{dir: dir, logger: logger, sums: map[string]string{}}
	if dir == "" {
		return c, nil
	}
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others (mode %o), and what lies there runs as native code; chmod go-w it", dir, st.Mode().Perm())
	}
	return c, nil
}

// entryDir is where the entry of a module lies. Its name holds everything that
// decides what is compiled of the module, and what can run it.
func (c *cache) entryDir(digest sdk.Digest) string {
	return filepath.Join(c.dir, hex.EncodeToString(digest[:])+"-"+compilerVersion())
}

// compilerVersion names the rewriter, the compiler and the processor.
var compilerVersion = sync.OnceValue(func() string {
	features := sha256.Sum256(fmt.Appendf(nil, "%s %v %v", wazeroVersion(), cpu.X86, cpu.ARM64))
	return fmt.Sprintf("%s-%s-%x", meterVersion, runtime.GOARCH, features[:8])
})

// wazeroVersion is what wazero takes for its version.
var wazeroVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/tetratelabs/wazero" {
				return m.Version
			}
		}
	}
	return "dev"
})

// get finds the entry of a module.
func (c *cache) get(digest sdk.Digest) (entry, bool) {
	if c.dir == "" {
		return entry{}, false
	}
	dir := c.entryDir(digest)
	err := c.verify(dir)
	if err == nil {
		stamp(dir)
		return entry{dir: dir}, true
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.logger.Warn("a compiled module in the cache does not verify, compiling again", "entry", dir, "error", err)
		c.discard(entry{dir: dir})
	}
	return entry{}, false
}

// make makes the entry of a module. A cache that cannot be written costs time
// only: the entry then is for once.
func (c *cache) make(ctx context.Context, digest sdk.Digest, compile func(ctx context.Context, dir string) error) (entry, error) {
	if c.dir != "" {
		e, err := c.keep(ctx, digest, compile)
		if err == nil || ctx.Err() != nil || sdk.AsError(err).Code != codeUnwritten {
			return e, err
		}
		c.logger.Warn("the compiled module is not kept", "error", err)
	}
	// The name is that of other temporary files of engines, which are removed
	// after an engine that was killed.
	dir, err := os.MkdirTemp("", fmt.Sprintf("engine-%d-module-*", os.Getpid()))
	if err != nil {
		return entry{}, unwritten(err)
	}
	e := entry{dir: dir, once: true}
	if err := compile(ctx, dir); err != nil {
		e.free()
		return entry{}, err
	}
	return e, nil
}

// keep makes the entry in the cache.
func (c *cache) keep(ctx context.Context, digest sdk.Digest, compile func(ctx context.Context, dir string) error) (entry, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return entry{}, unwritten(err)
	}
	c.clean()
	staging, err := os.MkdirTemp(c.dir, newEntries+"*")
	if err != nil {
		return entry{}, unwritten(err)
	}
	defer os.RemoveAll(staging) // it is in place, or of no use
	if err := compile(ctx, staging); err != nil {
		return entry{}, err
	}
	dir := c.entryDir(digest)
	if err := c.promote(staging, dir); err != nil {
		return entry{}, unwritten(err)
	}
	return entry{dir: dir}, nil
}

const (
	abandoned = time.Hour           // the age of an entry that nobody is making any more
	unused    = 30 * 24 * time.Hour // how long an entry stays that nobody loads
	stamped   = 24 * time.Hour      // how exactly its last use is known
)

// stamp notes that an entry is used: its sum is as old as its last use.
func stamp(dir string) {
	sum := filepath.Join(dir, cacheSum)
	if st, err := os.Stat(sum); err == nil && time.Since(st.ModTime()) > stamped {
		now := time.Now()
		_ = os.Chtimes(sum, now, now) // at worst it is compiled again some day
	}
}

// clean removes what engines that were killed have left half made, and what
// nobody has used for long: modules that have since been changed, mostly.
func (c *cache) clean() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleaned {
		return
	}
	c.cleaned = true
	dirs, _ := os.ReadDir(c.dir) // none is none to clean
	for _, d := range dirs {
		dir := filepath.Join(c.dir, d.Name())
		known, age := dir, abandoned
		if !strings.HasPrefix(d.Name(), newEntries) {
			known, age = filepath.Join(dir, cacheSum), unused
		}
		if st, err := os.Stat(known); err == nil && time.Since(st.ModTime()) > age {
			_ = os.RemoveAll(dir)
		}
	}
}

// promote completes a staged entry and puts it in place. The digest is taken
// here and not by who compiled, who is not to be trusted with it. Another
// process may have been faster; then its entry is used.
func (c *cache) promote(staging, dir string) error {
	sum, err := treeSum(staging)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(staging, cacheSum), []byte(sum), 0o600); err != nil {
		return err
	}
	c.remember(dir, sum)
	if err := os.Rename(staging, dir); err != nil {
		c.forget(dir)
		if c.verify(dir) != nil {
			return err
		}
	}
	return nil
}

// verify reports whether the files of an entry are those that were promoted.
func (c *cache) verify(dir string) error {
	want, err := os.ReadFile(filepath.Join(dir, cacheSum))
	if err != nil {
		return err
	}
	sum, err := treeSum(dir)
	if err != nil {
		return err
	}
	if sum != string(want) {
		return errors.New("its files changed after they were written")
	}
	if known := c.remember(dir, sum); known != sum {
		return errors.New("it is not the one that was written")
	}
	return nil
}

// remember returns the sum that the entry has in this process's memory, which is
// the given one if it had none.
func (c *cache) remember(dir, sum string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.sums[dir]; ok {
		return known
	}
	c.sums[dir] = sum
	return sum
}

func (c *cache) forget(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sums, dir)
}

// discard removes an entry.
func (c *cache) discard(e entry) {
	c.forget(e.dir)
	if err := os.RemoveAll(e.dir); err != nil {
		c.logger.Warn("an entry of the cache cannot be removed", "error", err)
	}
}

// free gives an entry up that nobody uses any more.
func (e entry) free() {
	if e.once {
		_ = os.RemoveAll(e.dir) // what stays is swept like other temporary files
	}
}

// treeSum digests the names and contents of an entry's files but the sum.
func treeSum(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == cacheSum {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%d:%s%d:", len(rel), filepath.ToSlash(rel), len(b))
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

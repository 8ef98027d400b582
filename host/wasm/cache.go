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

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"

	"github.com/retrace-dev/engine/sdk"
)

// cache keeps one directory per module: the rewritten module, what wazero
// compiled of it, and the digest of both. An entry is made in a directory of
// its own and renamed into place, so there are no half ones; one that does not
// verify is made again.
type cache struct{ dir string }

const (
	cacheModule = "module.wasm"
	cacheNative = "native"
	cacheSum    = "sum"
)

// openCache checks the directory if there is one; the first entry makes it, so
// that reading a flow leaves nothing behind.
func openCache(dir string) (*cache, error) {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &cache{dir: dir}, nil
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others (mode %o), and what lies there runs as native code; chmod go-w it", dir, st.Mode().Perm())
	}
	return &cache{dir: dir}, nil
}

func (c *cache) entry(digest sdk.Digest) string {
	return filepath.Join(c.dir, hex.EncodeToString(digest[:])+"-"+meterVersion+"-"+runtime.GOARCH)
}

// build makes the program out of the entry, or makes the entry. A cache that
// cannot be written costs time only.
func (c *cache) build(ctx context.Context, logger hclog.Logger, digest sdk.Digest, m *module) (*program, error) {
	entry := c.entry(digest)
	code, err := verified(entry)
	if err == nil {
		p, err := c.compile(ctx, m, code, entry)
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		logger.Warn("a compiled module in the cache is of no use, compiling again", "entry", entry, "error", err)
	} else if !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("a compiled module in the cache does not verify, compiling again", "entry", entry, "error", err)
	}
	if err := os.RemoveAll(entry); err != nil {
		logger.Warn("an entry of the cache cannot be removed", "error", err)
	}

	if code, err = m.prepare(ctx); err != nil {
		return nil, err
	}
	staging, err := "", os.MkdirAll(c.dir, 0o700)
	if err == nil {
		staging, err = os.MkdirTemp(c.dir, "new-*")
	}
	if err != nil {
		logger.Warn("the compiled module is not kept", "error", err)
		return m.compile(ctx, code, nil)
	}
	defer os.RemoveAll(staging)
	p, err := c.compile(ctx, m, code, staging)
	if err != nil {
		return nil, err
	}
	if err := promote(staging, entry, code); err != nil {
		logger.Warn("the compiled module is not kept", "error", err)
	}
	return p, nil
}

func (c *cache) compile(ctx context.Context, m *module, code []byte, entry string) (*program, error) {
	files, err := wazero.NewCompilationCacheWithDir(filepath.Join(entry, cacheNative))
	if err != nil {
		return nil, err
	}
	p, err := m.compile(ctx, code, files)
	if err != nil {
		return nil, errors.Join(err, files.Close(context.WithoutCancel(ctx)))
	}
	p.files = files
	return p, nil
}

// promote completes a staged entry and puts it in place. Another process may
// have been faster; its entry is as good.
func promote(staging, entry string, code []byte) error {
	if err := os.WriteFile(filepath.Join(staging, cacheModule), code, 0o600); err != nil {
		return err
	}
	sum, err := treeSum(staging)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(staging, cacheSum), []byte(sum), 0o600); err != nil {
		return err
	}
	if err := os.Rename(staging, entry); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, statErr := os.Stat(filepath.Join(entry, cacheSum)); statErr != nil {
			return err
		}
	}
	return nil
}

// verified reads the rewritten module of an entry whose files are those that
// were promoted.
func verified(entry string) ([]byte, error) {
	want, err := os.ReadFile(filepath.Join(entry, cacheSum))
	if err != nil {
		return nil, err
	}
	sum, err := treeSum(entry)
	if err != nil {
		return nil, err
	}
	if sum != string(want) {
		return nil, errors.New("its files changed after they were written")
	}
	return os.ReadFile(filepath.Join(entry, cacheModule))
}

// treeSum digests the names and contents of an entry's files but the sum.
func treeSum(entry string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(entry, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == cacheSum {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(entry, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%d:%s%d:", len(rel), filepath.ToSlash(rel), len(b))
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

package host

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Limits of a directory that is mounted for reading: all of it is read to make
// the keys of the steps that see it.
const (
	maxTreeEntries = 100_000
	maxTreeBytes   = 4 << 30
)

// trees are digests of directories, each made once. They are safe for concurrent
// use.
type trees struct {
	log hclog.Logger

	mu sync.Mutex
	by map[string]treeResult
}

type treeResult struct {
	digest sdk.Digest
	err    error
}

// digest is that of the names and contents of all regular files and directories
// below dir: what a module sees of it. Links and special files are neither seen
// nor counted.
func (t *trees) digest(dir string) (sdk.Digest, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.by[dir]; ok {
		return r.digest, r.err
	}
	slow := time.AfterFunc(time.Second, func() {
		t.log.Warn("reading a mounted directory, to see whether it changed, takes a while", "directory", dir)
	})
	d, err := treeDigest(dir, maxTreeEntries, maxTreeBytes)
	slow.Stop()
	if t.by == nil {
		t.by = map[string]treeResult{}
	}
	t.by[dir] = treeResult{d, err}
	return d, err
}

func treeDigest(dir string, maxEntries int, maxBytes int64) (sdk.Digest, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() { // to open a pipe would wait for its writer
		err = syscall.ENOTDIR
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(dir)
	}
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return sdk.Digest{}, fmt.Errorf("%s: %w; a mount's source is an existing directory, relative to the flow's", dir, err)
	}
	defer root.Close()
	h := checkpoint.NewHasher("engine/tree/1")
	entries, left := 0, maxBytes
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			h.String("directory")
			h.String(path)
		case d.Type().IsRegular():
			sum, n, err := fileDigest(root, path, left)
			if err != nil {
				return err
			}
			if left -= n; left < 0 {
				return fmt.Errorf("%s holds more than %d MiB, and all of it is read to make the keys; mount a smaller directory", dir, maxBytes>>20)
			}
			h.String("file")
			h.String(path)
			h.Digest(sum)
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("%s holds more than %d files and directories, and all of it is read to make the keys; mount a smaller directory", dir, maxEntries)
		}
		return nil
	})
	return sdk.Digest(h.Sum()), err
}

// fileDigest reads at most one byte more than limit.
func fileDigest(root *os.Root, path string, limit int64) (d sdk.Digest, n int64, err error) {
	f, err := root.Open(path)
	if err != nil {
		return d, 0, err
	}
	defer f.Close()
	h := sha256.New()
	if n, err = io.Copy(h, io.LimitReader(f, limit+1)); err != nil {
		return d, n, fmt.Errorf("%s: %w", path, err)
	}
	return sdk.Digest(h.Sum(nil)), n, nil
}

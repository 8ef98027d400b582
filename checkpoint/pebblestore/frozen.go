package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// frozenFS passes everything to the file system below until a write fails.
// From then on it changes nothing there any more and tells its caller that all
// went well: new files live in memory, writes to old ones are dropped. So
// Pebble, which treats most of these failures as the end of the process, can
// be closed in order, and the disk stays as the failure left it. Errors of
// reads pass unchanged.
type frozenFS struct {
	vfs.FS
	failure *failure
	after   *vfs.MemFS // files made since the failure, by their base name
}

// failure is the first thing that went wrong.
type failure struct {
	once sync.Once
	err  atomic.Pointer[error]
	c    chan struct{} // closed when err is set
}

func newFailure() *failure { return &failure{c: make(chan struct{})} }

func (f *failure) set(err error) {
	f.once.Do(func() {
		f.err.Store(&err)
		close(f.c)
	})
}

func (f *failure) cause() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}

func newFrozenFS(base vfs.FS, f *failure) *frozenFS {
	return &frozenFS{FS: base, failure: f, after: vfs.NewMem()}
}

func (f *frozenFS) frozen() bool { return f.failure.cause() != nil }

// failed freezes the file system if err is not nil, and reports whether it is
// frozen now.
func (f *frozenFS) failed(op, name string, err error) bool {
	if err != nil {
		var pe *fs.PathError
		if !errors.As(err, &pe) { // which names operation and file itself
			err = fmt.Errorf("%s %s: %w", op, name, err)
		}
		f.failure.set(err)
	}
	return f.frozen()
}

// file opens a file below, or one in memory if frozen.
func (f *frozenFS) file(op, name string, c vfs.DiskWriteCategory, open func() (vfs.File, error)) (vfs.File, error) {
	if !f.frozen() {
		file, err := open()
		if err == nil {
			return &frozenFile{File: file, fs: f, name: name}, nil
		}
		f.failed(op, name, err)
	}
	return f.after.OpenReadWrite(f.FS.PathBase(name), c)
}

// change does something below, or nothing if frozen.
func (f *frozenFS) change(op, name string, do func() error) error {
	if !f.frozen() {
		f.failed(op, name, do())
	}
	return nil
}

// Create syncs the directory before it makes one of Pebble's markers. A marker
// names a manifest that was just made, and Pebble syncs the directory once for
// both: a crash may keep the marker alone, and the database does not open.
func (f *frozenFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(f.FS.PathBase(name), "marker.") {
		dir := f.FS.PathDir(name)
		_ = f.change("sync", dir, func() error { return syncDir(f.FS, dir) })
	}
	return f.file("create", name, c, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *frozenFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("open", name, c, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *frozenFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("reuse", newname, c, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

func (f *frozenFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if f.frozen() {
		if file, err := f.after.Open(f.FS.PathBase(name), o...); err == nil {
			return file, nil
		}
	}
	return f.FS.Open(name, o...)
}

func (f *frozenFS) Stat(name string) (vfs.FileInfo, error) {
	if f.frozen() {
		if info, err := f.after.Stat(f.FS.PathBase(name)); err == nil {
			return info, nil
		}
	}
	return f.FS.Stat(name)
}

func (f *frozenFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &frozenFile{File: file, fs: f, name: name}, nil
}

func (f *frozenFS) Link(oldname, newname string) error {
	return f.change("link", newname, func() error { return f.FS.Link(oldname, newname) })
}

func (f *frozenFS) Rename(oldname, newname string) error {
	return f.change("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

func (f *frozenFS) MkdirAll(dir string, perm os.FileMode) error {
	return f.change("mkdir", dir, func() error { return f.FS.MkdirAll(dir, perm) })
}

// Remove that fails loses nothing, so it freezes nothing.
func (f *frozenFS) Remove(name string) error {
	if f.frozen() {
		return nil
	}
	return f.FS.Remove(name)
}

func (f *frozenFS) RemoveAll(name string) error {
	if f.frozen() {
		return nil
	}
	return f.FS.RemoveAll(name)
}

// GetDiskUsage only paces Pebble's deletions. An error would be reported as
// one of a flush.
func (f *frozenFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := f.FS.GetDiskUsage(path)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

func (f *frozenFS) Unwrap() vfs.FS { return f.FS }

// frozenFile is a file below, opened before the failure.
type frozenFile struct {
	vfs.File
	fs   *frozenFS
	name string
}

var _ io.WriterAt = (*frozenFile)(nil)

func (f *frozenFile) change(op string, do func() error) error {
	return f.fs.change(op, f.name, do)
}

func (f *frozenFile) Write(p []byte) (int, error) {
	return len(p), f.change("write", func() error { _, err := f.File.Write(p); return err })
}

func (f *frozenFile) WriteAt(p []byte, off int64) (int, error) {
	return len(p), f.change("write", func() error { _, err := f.File.WriteAt(p, off); return err })
}

func (f *frozenFile) Sync() error     { return f.change("sync", f.File.Sync) }
func (f *frozenFile) SyncData() error { return f.change("sync", f.File.SyncData) }

func (f *frozenFile) SyncTo(length int64) (full bool, err error) {
	err = f.change("sync", func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close frees the descriptor also after the failure.
func (f *frozenFile) Close() error {
	f.fs.failed("close", f.name, f.File.Close())
	return nil
}

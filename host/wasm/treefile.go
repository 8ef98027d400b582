package wasm

import (
	"errors"
	"io"
	"os"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// treeFile is an open regular file. What it reads and writes at once is kept
// small, so that the end of the attempt is seen in time.
type treeFile struct {
	esys.UnimplementedFile
	tree   *tree
	file   *os.File
	rel    string
	append bool
}

func (f *treeFile) Dev() (uint64, esys.Errno) { return 1, 0 }
func (f *treeFile) Ino() (sys.Inode, esys.Errno) {
	return f.tree.inode(f.rel), 0
}
func (f *treeFile) IsDir() (bool, esys.Errno) { return false, 0 }
func (f *treeFile) IsAppend() bool            { return f.append }
func (f *treeFile) SetAppend(on bool) esys.Errno {
	f.append = on
	return 0
}

func (f *treeFile) Stat() (sys.Stat_t, esys.Errno) {
	info, err := f.file.Stat()
	if err != nil {
		return sys.Stat_t{}, errnoOf(err)
	}
	return f.tree.stat(f.rel, info), 0
}

func (f *treeFile) Read(b []byte) (int, esys.Errno) {
	f.tree.files.attempt.check()
	return ended(f.file.Read(b[:min(len(b), piece)]))
}

func (f *treeFile) Pread(b []byte, at int64) (int, esys.Errno) {
	f.tree.files.attempt.check()
	if at < 0 {
		return 0, esys.EINVAL
	}
	return ended(f.file.ReadAt(b[:min(len(b), piece)], at))
}

// ended is the result of a read: the end of a file is no error.
func ended(n int, err error) (int, esys.Errno) {
	if n > 0 || errors.Is(err, io.EOF) {
		return n, 0
	}
	return n, errnoOf(err)
}

func (f *treeFile) Seek(to offset, whence int) (int64, esys.Errno) {
	if whence < io.SeekStart || whence > io.SeekEnd {
		return 0, esys.EINVAL
	}
	n, err := f.file.Seek(to, whence)
	return n, errnoOf(err)
}

func (f *treeFile) Write(b []byte) (n int, errno esys.Errno) {
	whence := io.SeekCurrent
	if f.append {
		whence = io.SeekEnd
	}
	at, err := f.file.Seek(0, whence)
	if err != nil {
		return 0, errnoOf(err)
	}
	return f.write(b, at, f.file.Write)
}

func (f *treeFile) Pwrite(b []byte, at int64) (n int, errno esys.Errno) {
	if at < 0 {
		return 0, esys.EINVAL
	}
	from := at
	return f.write(b, at, func(b []byte) (int, error) {
		n, err := f.file.WriteAt(b, from)
		from += int64(n)
		return n, err
	})
}

func (f *treeFile) write(b []byte, at int64, write func([]byte) (int, error)) (n int, errno esys.Errno) {
	for n < len(b) {
		part := b[n:min(n+piece, len(b))]
		f.tree.files.write(len(part), at+int64(n+len(part)))
		k, err := write(part)
		n += k
		if err != nil {
			return n, errnoOf(err)
		}
	}
	return n, 0
}

func (f *treeFile) Truncate(size int64) esys.Errno {
	if size < 0 {
		return esys.EINVAL
	}
	f.tree.files.write(0, size)
	return errnoOf(f.file.Truncate(size))
}

func (f *treeFile) Utimens(atim, mtim int64) esys.Errno {
	return f.tree.utimens(f.rel, atim, mtim)
}

// Sync does nothing: what an attempt wrote counts when its answer does, and
// after a crash it runs again.
func (f *treeFile) Sync() esys.Errno     { return 0 }
func (f *treeFile) Datasync() esys.Errno { return 0 }

func (f *treeFile) Close() esys.Errno { return errnoOf(f.file.Close()) }

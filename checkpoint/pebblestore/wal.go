package pebblestore

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log grows by what it has, between these bounds.
const (
	leastGrowth = 32 << 10
	mostGrowth  = 512 << 10
)

// walFS fills the files of the database's log with zeros ahead of where they are
// written. A sync of bytes that lie within a file writes them and nothing else;
// one of bytes by which it grows changes the file system's own records too, which
// takes as long again (BenchmarkEffects). What a file has when it is used again
// is not filled a second time. Pebble takes zeros for the end of a log.
type walFS struct{ vfs.FS }

func (w walFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &walFile{File: f}, nil
}

func (w walFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &walFile{File: f, size: info.Size()}, nil
}

func (w walFS) Unwrap() vfs.FS { return w.FS }

// walFile is one file of the log. It is written from its beginning, by one
// goroutine at a time.
type walFile struct {
	vfs.File
	end  int64 // of what was written
	size int64 // of the file
}

func (f *walFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.end += int64(n)
	if err != nil || f.end <= f.size {
		return n, err
	}
	f.size = f.end
	more := make([]byte, min(max(f.end, leastGrowth), mostGrowth))
	if _, err := f.File.WriteAt(more, f.size); err != nil {
		return n, err
	}
	f.size += int64(len(more))
	return n, nil
}

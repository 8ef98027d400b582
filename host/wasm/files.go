package wasm

import (
	"io/fs"
	"path"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// The one file a guest sees, under the one preopened directory "/". Paths come
// without the leading slash.
const (
	dirEngine = "engine"
	fileCall  = "engine/call"
)

// files is the file system of one attempt: a root that holds /engine/call and
// nothing else. Nothing can be made, removed or linked.
type files struct {
	esys.UnimplementedFS
	attempt *attempt
}

func (f *files) OpenFile(name string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	switch path.Clean(name) {
	case ".":
		return openDir(flag, dirEngine)
	case dirEngine:
		return openDir(flag, path.Base(fileCall))
	case fileCall:
		if flag&esys.O_DIRECTORY != 0 {
			return nil, esys.ENOTDIR
		}
		return &callFile{attempt: f.attempt}, 0
	}
	if flag&esys.O_CREAT != 0 {
		return nil, esys.EROFS
	}
	return nil, esys.ENOENT
}

func openDir(flag esys.Oflag, child string) (esys.File, esys.Errno) {
	if flag&(esys.O_RDWR|esys.O_WRONLY|esys.O_TRUNC) != 0 {
		return nil, esys.EISDIR
	}
	typ := fs.ModeDir
	if child != dirEngine {
		typ = 0
	}
	return &dir{entries: []esys.Dirent{{Name: child, Type: typ}}}, 0
}

func (f *files) Stat(name string) (sys.Stat_t, esys.Errno) {
	switch path.Clean(name) {
	case ".", dirEngine:
		return dirStat, 0
	case fileCall:
		return callStat, 0
	}
	return sys.Stat_t{}, esys.ENOENT
}

func (f *files) Lstat(name string) (sys.Stat_t, esys.Errno) { return f.Stat(name) }

var (
	dirStat  = sys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}
	callStat = sys.Stat_t{Mode: 0o666, Nlink: 1}
)

// offset is an alias because vet takes any method Seek(int64, int) for
// io.Seeker's, and the interface of wazero wants an Errno.
type offset = int64

// dir is an open directory with a fixed content.
type dir struct {
	esys.UnimplementedFile
	entries []esys.Dirent
	pos     int
}

func (d *dir) IsDir() (bool, esys.Errno)      { return true, 0 }
func (d *dir) Stat() (sys.Stat_t, esys.Errno) { return dirStat, 0 }
func (d *dir) Close() esys.Errno              { return 0 }
func (d *dir) Read([]byte) (int, esys.Errno)  { return 0, esys.EISDIR }
func (d *dir) Write([]byte) (int, esys.Errno) { return 0, esys.EISDIR }
func (d *dir) Seek(to offset, whence int) (int64, esys.Errno) {
	if to != 0 || whence != 0 {
		return 0, esys.EINVAL
	}
	d.pos = 0
	return 0, 0
}

func (d *dir) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	rest := d.entries[d.pos:]
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	d.pos += len(rest)
	return rest, 0
}

// callFile is one open handle of /engine/call. All bytes written since the last
// reply are a request; the first read runs it and reads the reply to its end;
// the next write begins the next request.
type callFile struct {
	esys.UnimplementedFile
	attempt *attempt
	request []byte
	reply   []byte
	pos     int
	replied bool
}

func (c *callFile) IsDir() (bool, esys.Errno)      { return false, 0 }
func (c *callFile) IsAppend() bool                 { return false }
func (c *callFile) SetAppend(bool) esys.Errno      { return 0 }
func (c *callFile) Stat() (sys.Stat_t, esys.Errno) { return callStat, 0 }
func (c *callFile) Truncate(int64) esys.Errno      { return 0 }
func (c *callFile) Sync() esys.Errno               { return 0 }
func (c *callFile) Datasync() esys.Errno           { return 0 }

func (c *callFile) Write(b []byte) (int, esys.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	if n := int64(len(c.request) + len(b)); !c.replied && n > c.attempt.limits.Request {
		c.attempt.messageTooLarge(n)
	}
	if c.replied {
		c.request, c.reply, c.pos, c.replied = nil, nil, 0, false
	}
	c.request = append(c.request, b...)
	return len(b), 0
}

func (c *callFile) Read(b []byte) (int, esys.Errno) {
	if !c.replied {
		if len(c.request) == 0 {
			return 0, esys.EINVAL
		}
		c.run()
	}
	n := copy(b, c.reply[c.pos:])
	c.pos += n
	return n, 0
}

func (c *callFile) run() {
	c.reply = c.attempt.operate(c.request)
	c.request, c.replied = nil, true
}

// Seek to the start does nothing (C's fclose and Rust do it); any other is
// refused.
func (c *callFile) Seek(to offset, whence int) (int64, esys.Errno) {
	if to != 0 || whence != 0 {
		return 0, esys.EINVAL
	}
	return 0, 0
}

// Close runs a request that nobody has read the reply of.
func (c *callFile) Close() esys.Errno {
	if len(c.request) > 0 && !c.attempt.over {
		c.run()
	}
	return 0
}

package wasm

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/retrace-dev/engine/host/loader"
)

// What is always there below the one preopened directory "/". Paths come without
// the leading slash. Where nothing is mounted lies the attempt's scratch
// directory, of which dirTmp is a part.
const (
	dirEngine = "engine"
	fileCall  = "engine/call"
	dirTmp    = "tmp"
)

// Limits of the files of one attempt, beside loader.Limits.
const (
	maxOpen    = 64        // descriptors
	maxWritten = 256 << 20 // bytes, and the end of a file
	maxMade    = 10_000    // files and directories
	maxElement = 128       // elements of a path: a tree is removed one descriptor a level
)

// Codes of ClassResourceExhausted.
const (
	codeDescriptors  = "descriptors"
	codeFileTooLarge = "file_too_large"
	codeFiles        = "files"
)

// files is the file system of one attempt: /engine/call, the mounts, and a
// scratch directory that is made when something is to be put there. It counts
// what is opened, made and written. Links do not exist in it: none can be made,
// and those of a mount are not seen.
type files struct {
	esys.UnimplementedFS
	attempt *attempt
	pure    bool // what is seen of a file follows from its name and content alone
	mounts  []*tree
	scratch *tree

	open    int
	made    int
	written int64
}

func newFiles(a *attempt, pure bool) *files {
	f := &files{attempt: a, pure: pure}
	if w := a.limits.World; w != nil {
		for _, m := range w.Mounts {
			f.mounts = append(f.mounts, &tree{files: f, mount: m})
		}
		slices.SortFunc(f.mounts, func(a, b *tree) int { return cmp.Compare(a.mount.Name, b.mount.Name) })
	}
	f.scratch = &tree{files: f, mount: loader.Mount{ReadWrite: true}, temporary: true}
	return f
}

// close gives back what the attempt used of the machine.
func (f *files) close() error {
	for _, t := range f.mounts {
		t.close()
	}
	return f.scratch.close()
}

// place is what a path leads to.
type place struct {
	virtual string // "." or a constant of this file, of what is not on disk
	tree    *tree
	rel     string // from the root of tree
}

// at finds what name leads to. A name that ends in a slash is a directory.
func (f *files) at(name string) (place, esys.Errno) {
	clean := path.Clean(name)
	switch {
	case clean == "..", strings.HasPrefix(clean, "../"), path.IsAbs(clean):
		return place{}, esys.EPERM
	case strings.ContainsRune(clean, 0):
		return place{}, esys.EINVAL
	case strings.Count(clean, "/") >= maxElement:
		return place{}, esys.ENAMETOOLONG
	case clean == ".", clean == dirEngine, clean == fileCall:
		return place{virtual: clean}, 0
	case strings.HasPrefix(clean, dirEngine+"/"):
		return place{}, esys.ENOENT
	}
	first, rest, _ := strings.Cut(clean, "/")
	for _, t := range f.mounts {
		if t.mount.Name == first {
			return place{tree: t, rel: cmp.Or(rest, ".")}, 0
		}
	}
	if clean == dirTmp && f.scratch.root == nil {
		return place{virtual: dirTmp}, 0
	}
	return place{tree: f.scratch, rel: clean}, 0
}

// changeable is at for what is to be made, changed or removed: not a root.
func (f *files) changeable(name string) (place, esys.Errno) {
	p, errno := f.at(name)
	switch {
	case errno == esys.ENOENT:
		return p, esys.EROFS // below /engine
	case errno != 0:
		return p, errno
	case p.virtual != "", p.rel == ".", p.tree.temporary && p.rel == dirTmp:
		return p, esys.EPERM
	case !p.tree.mount.ReadWrite:
		return p, esys.EROFS
	}
	return p, p.tree.ready()
}

const changing = esys.O_WRONLY | esys.O_RDWR | esys.O_CREAT | esys.O_TRUNC | esys.O_APPEND

func (f *files) OpenFile(name string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	p, errno := f.at(name)
	if errno != 0 {
		if errno == esys.ENOENT && flag&esys.O_CREAT != 0 {
			errno = esys.EROFS
		}
		return nil, errno
	}
	var file esys.File
	switch {
	case p.virtual == fileCall && flag&esys.O_DIRECTORY != 0:
		return nil, esys.ENOTDIR
	case p.virtual == fileCall:
		file = &callFile{attempt: f.attempt}
	case p.virtual != "":
		file, errno = openDir(flag, f.lister(p.virtual), f.stat(p.virtual, dirInfo))
	default:
		file, errno = p.tree.open(p.rel, flag, strings.HasSuffix(name, "/"))
	}
	if errno != 0 {
		return nil, errno
	}
	if f.open++; f.open > maxOpen {
		_ = file.Close()
		f.attempt.end(exhausted(codeDescriptors, "the step has more than %d files open", maxOpen))
	}
	return &counted{file, f}, 0
}

// counted gives its descriptor back when it is closed.
type counted struct {
	esys.File
	files *files
}

func (c *counted) Close() esys.Errno {
	c.files.open--
	return c.File.Close()
}

// make counts one more file or directory.
func (f *files) make() {
	if f.made++; f.made > maxMade {
		f.attempt.end(exhausted(codeFiles, "the step made more than %d files and directories", maxMade))
	}
}

// write counts n bytes that go before end, in pieces that the caller keeps
// small.
func (f *files) write(n int, end int64) {
	f.attempt.check()
	if f.written += int64(n); f.written > maxWritten || end > maxWritten {
		f.attempt.end(exhausted(codeFileTooLarge, "the step wrote more than %d MiB to files", maxWritten>>20))
	}
}

// lister lists a directory that is not on disk, or not only.
func (f *files) lister(name string) func() ([]esys.Dirent, esys.Errno) {
	return func() ([]esys.Dirent, esys.Errno) {
		switch name {
		case dirEngine:
			return []esys.Dirent{{Name: path.Base(fileCall), Ino: f.inode(fileCall)}}, 0
		case dirTmp:
			return nil, 0
		}
		var list []esys.Dirent
		if f.scratch.root != nil {
			var errno esys.Errno
			if list, errno = f.scratch.list("."); errno != 0 {
				return nil, errno
			}
		}
		own := []string{dirEngine, dirTmp}
		for _, t := range f.mounts {
			own = append(own, t.mount.Name)
		}
		list = slices.DeleteFunc(list, func(d esys.Dirent) bool { return slices.Contains(own, d.Name) })
		for _, name := range own {
			list = append(list, esys.Dirent{Name: name, Ino: f.inode(name), Type: fs.ModeDir})
		}
		slices.SortFunc(list, func(a, b esys.Dirent) int { return cmp.Compare(a.Name, b.Name) })
		return list, 0
	}
}

func (f *files) Stat(name string) (sys.Stat_t, esys.Errno) {
	p, errno := f.at(name)
	switch {
	case errno != 0:
		return sys.Stat_t{}, errno
	case p.virtual == fileCall:
		return f.stat(fileCall, callInfo), 0
	case p.virtual != "":
		return f.stat(p.virtual, dirInfo), 0
	}
	info, errno := p.tree.look(p.rel)
	switch {
	case errno != 0:
		return sys.Stat_t{}, errno
	case strings.HasSuffix(name, "/") && !info.IsDir():
		return sys.Stat_t{}, esys.ENOTDIR
	}
	return p.tree.stat(p.rel, info), 0
}

func (f *files) Lstat(name string) (sys.Stat_t, esys.Errno) { return f.Stat(name) }

// Readlink says that what is there is no link: realpath asks.
func (f *files) Readlink(name string) (string, esys.Errno) {
	if _, errno := f.Stat(name); errno != 0 {
		return "", errno
	}
	return "", esys.EINVAL
}

func (f *files) Mkdir(name string, _ fs.FileMode) esys.Errno {
	if _, errno := f.Stat(name); errno == 0 { // a root among others
		return esys.EEXIST
	}
	p, errno := f.changeable(name)
	if errno != 0 {
		return errno
	}
	return p.tree.mkdir(p.rel)
}

func (f *files) Rmdir(name string) esys.Errno {
	return f.remove(name, true)
}

func (f *files) Unlink(name string) esys.Errno {
	return f.remove(name, false)
}

func (f *files) remove(name string, dir bool) esys.Errno {
	p, errno := f.changeable(name)
	if errno != 0 {
		return errno
	}
	return p.tree.remove(p.rel, dir)
}

func (f *files) Rename(from, to string) esys.Errno {
	p, errno := f.changeable(from)
	if errno != 0 {
		return errno
	}
	q, errno := f.changeable(to)
	if errno != 0 {
		return errno
	}
	if p.tree != q.tree {
		return esys.EPERM
	}
	return p.tree.rename(p.rel, q.rel)
}

func (f *files) Utimens(name string, atim, mtim int64) esys.Errno {
	p, errno := f.changeable(name)
	if errno != 0 {
		return errno
	}
	return p.tree.utimens(p.rel, atim, mtim)
}

// offset is an alias because vet takes any method Seek(int64, int) for
// io.Seeker's, and the interface of wazero wants an Errno.
type offset = int64

// dir is an open directory. Its content is listed at the first read, and again
// after a return to its start.
type dir struct {
	esys.UnimplementedFile
	list    func() ([]esys.Dirent, esys.Errno)
	stat    sys.Stat_t
	entries []esys.Dirent
	pos     int
	listed  bool
}

func openDir(flag esys.Oflag, list func() ([]esys.Dirent, esys.Errno), stat sys.Stat_t) (esys.File, esys.Errno) {
	if flag&(esys.O_RDWR|esys.O_WRONLY|esys.O_TRUNC) != 0 && flag&esys.O_DIRECTORY == 0 {
		return nil, esys.EISDIR
	}
	return &dir{list: list, stat: stat}, 0
}

func (d *dir) Dev() (uint64, esys.Errno)      { return d.stat.Dev, 0 }
func (d *dir) Ino() (sys.Inode, esys.Errno)   { return d.stat.Ino, 0 }
func (d *dir) IsDir() (bool, esys.Errno)      { return true, 0 }
func (d *dir) Stat() (sys.Stat_t, esys.Errno) { return d.stat, 0 }
func (d *dir) Sync() esys.Errno               { return 0 }
func (d *dir) Close() esys.Errno              { return 0 }
func (d *dir) Read([]byte) (int, esys.Errno)  { return 0, esys.EISDIR }
func (d *dir) Write([]byte) (int, esys.Errno) { return 0, esys.EISDIR }
func (d *dir) Seek(to offset, whence int) (int64, esys.Errno) {
	if to != 0 || whence != 0 {
		return 0, esys.EINVAL
	}
	d.pos, d.listed, d.entries = 0, false, nil
	return 0, 0
}

func (d *dir) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	if !d.listed {
		entries, errno := d.list()
		if errno != 0 {
			return nil, errno
		}
		d.entries, d.listed = entries, true
	}
	rest := d.entries[d.pos:]
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	d.pos += len(rest)
	return rest, 0
}

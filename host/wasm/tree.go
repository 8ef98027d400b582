package wasm

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// maxListed is how many entries of one directory can be listed.
const maxListed = 100_000

// tree is a directory of the machine and what lies below it, as an attempt sees
// it: directories and regular files. All access goes through an os.Root, which
// nothing escapes, whatever others do to the directory meanwhile.
type tree struct {
	files     *files
	mount     loader.Mount
	temporary bool // the scratch directory: made at its first use, removed at the end
	root      *os.Root
}

// ready opens the root. Of a mount whose directory is gone the attempt ends.
func (t *tree) ready() esys.Errno {
	if t.root != nil {
		return 0
	}
	dir := t.mount.Path
	if t.temporary {
		var err error
		if dir, err = os.MkdirTemp("", "engine-step-"); err != nil {
			t.files.attempt.end(&sdk.Error{Class: sdk.ClassInternal, Message: "no scratch directory: " + err.Error()})
		}
	}
	var root *os.Root
	info, err := os.Stat(dir)
	switch {
	case err != nil:
	case !info.IsDir(): // to open a pipe would wait for its writer
		err = syscall.ENOTDIR
	default:
		root, err = os.OpenRoot(dir)
	}
	if err == nil && t.temporary {
		err = root.Mkdir(dirTmp, 0o700)
	}
	if err != nil {
		t.files.attempt.end(&sdk.Error{Class: sdk.ClassInternal, Code: "mount", Message: fmt.Sprintf("the directory mounted as /%s cannot be used: %v", t.mount.Name, err)})
	}
	t.root = root
	return 0
}

func (t *tree) close() error {
	if t.root == nil {
		return nil
	}
	err := t.root.Close()
	if t.temporary {
		err = errors.Join(err, os.RemoveAll(t.root.Name()))
	}
	t.root = nil
	return err
}

// look finds what is at rel, if no link leads to it.
func (t *tree) look(rel string) (info fs.FileInfo, errno esys.Errno) {
	if t.temporary && t.root == nil {
		return nil, esys.ENOENT
	}
	if errno := t.ready(); errno != 0 {
		return nil, errno
	}
	for end := 0; end < len(rel); end++ { // every directory on the way
		if rel[end] != '/' {
			continue
		}
		info, err := t.root.Lstat(rel[:end])
		switch {
		case err != nil:
			return nil, errnoOf(err)
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, esys.ENOENT
		case !info.IsDir():
			return nil, esys.ENOTDIR
		}
	}
	info, err := t.root.Lstat(rel)
	switch {
	case err != nil:
		return nil, errnoOf(err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil, esys.ENOENT
	}
	return info, 0
}

func (t *tree) open(rel string, flag esys.Oflag, asDir bool) (esys.File, esys.Errno) {
	if flag&changing != 0 && !t.mount.ReadWrite && flag&esys.O_DIRECTORY == 0 {
		return nil, esys.EROFS
	}
	if flag&esys.O_CREAT != 0 {
		if errno := t.ready(); errno != 0 {
			return nil, errno
		}
	}
	info, errno := t.look(rel)
	switch {
	case errno == esys.ENOENT && flag&esys.O_CREAT != 0 && !asDir:
		if _, errno := t.look(path.Dir(rel)); errno != 0 {
			return nil, errno
		}
		t.files.make()
		flag |= esys.O_EXCL // what came there meanwhile is not ours
	case errno != 0:
		return nil, errno
	case flag&esys.O_CREAT != 0 && flag&esys.O_EXCL != 0:
		return nil, esys.EEXIST
	case info.IsDir():
		return openDir(flag, func() ([]esys.Dirent, esys.Errno) { return t.list(rel) }, t.stat(rel, info))
	case flag&esys.O_DIRECTORY != 0 || asDir:
		return nil, esys.ENOTDIR
	}
	f, err := t.root.OpenFile(rel, osFlag(flag), 0o666)
	if err != nil {
		return nil, errnoOf(err)
	}
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() { // it was another when it was looked at
		_ = f.Close()
		return nil, cmp.Or(errnoOf(err), esys.ENOENT)
	}
	return &treeFile{tree: t, file: f, rel: rel, append: flag&esys.O_APPEND != 0}, 0
}

// osFlag are the flags for opening a file on disk. A named pipe that has come to
// its place does not make the open wait.
func osFlag(flag esys.Oflag) int {
	n := openNonblock
	switch flag & (esys.O_RDWR | esys.O_WRONLY) {
	case esys.O_RDWR:
		n |= os.O_RDWR
	case esys.O_WRONLY:
		n |= os.O_WRONLY
	}
	if flag&esys.O_CREAT != 0 {
		n |= os.O_CREATE
	}
	if flag&esys.O_EXCL != 0 {
		n |= os.O_EXCL
	}
	if flag&esys.O_TRUNC != 0 {
		n |= os.O_TRUNC
	}
	return n
}

// list is the content of a directory, in the order of the names.
func (t *tree) list(rel string) ([]esys.Dirent, esys.Errno) {
	d, err := t.root.Open(rel)
	if err != nil {
		return nil, errnoOf(err)
	}
	defer d.Close()
	var list []esys.Dirent
	for {
		t.files.attempt.check()
		entries, err := d.ReadDir(1000)
		for _, e := range entries {
			if e.IsDir() || e.Type().IsRegular() {
				list = append(list, esys.Dirent{Name: e.Name(), Ino: t.inode(path.Join(rel, e.Name())), Type: e.Type()})
			}
		}
		if len(list) > maxListed {
			t.files.attempt.end(exhausted(codeFiles, "a directory has more than %d entries", maxListed))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errnoOf(err)
		}
	}
	slices.SortFunc(list, func(a, b esys.Dirent) int { return cmp.Compare(a.Name, b.Name) })
	return list, 0
}

func (t *tree) mkdir(rel string) esys.Errno {
	if _, errno := t.look(rel); errno != esys.ENOENT {
		return cmp.Or(errno, esys.EEXIST)
	}
	if _, errno := t.look(path.Dir(rel)); errno != 0 {
		return errno
	}
	t.files.make()
	return errnoOf(t.root.Mkdir(rel, 0o777))
}

func (t *tree) remove(rel string, dir bool) esys.Errno {
	info, errno := t.look(rel)
	switch {
	case errno != 0:
		return errno
	case dir && !info.IsDir():
		return esys.ENOTDIR
	case !dir && info.IsDir():
		return esys.EISDIR
	}
	return errnoOf(t.root.Remove(rel))
}

func (t *tree) rename(from, to string) esys.Errno {
	if _, errno := t.look(from); errno != 0 {
		return errno
	}
	if _, errno := t.look(path.Dir(to)); errno != 0 {
		return errno
	}
	return errnoOf(t.root.Rename(from, to))
}

// utimens sets times, which an attempt without effects does not see.
func (t *tree) utimens(rel string, atim, mtim int64) esys.Errno {
	if _, errno := t.look(rel); errno != 0 || t.files.pure {
		return errno
	}
	at := func(ns int64) time.Time {
		if ns == esys.UTIME_OMIT {
			return time.Time{} // leaves it as it is
		}
		return time.Unix(0, ns)
	}
	return errnoOf(t.root.Chtimes(rel, at(atim), at(mtim)))
}

func (t *tree) stat(rel string, info fs.FileInfo) sys.Stat_t {
	return t.files.stat(path.Join(t.mount.Name, rel), info)
}

func (t *tree) inode(rel string) sys.Inode { return t.files.inode(path.Join(t.mount.Name, rel)) }

// inode tells files apart; it follows from the name, so that it is the same in
// every attempt.
func (f *files) inode(name string) sys.Inode {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return max(h.Sum64(), 1)
}

// fixedInfo describes what is not on disk.
type fixedInfo struct {
	fs.FileInfo
	mode fs.FileMode
}

func (i fixedInfo) Mode() fs.FileMode  { return i.mode }
func (i fixedInfo) Size() int64        { return 0 }
func (i fixedInfo) ModTime() time.Time { return time.Unix(0, pureEpoch) }

var (
	dirInfo  = fixedInfo{mode: fs.ModeDir | 0o777}
	callInfo = fixedInfo{mode: 0o666}
)

// stat is what an attempt sees of a file: its kind and size, and, if it may
// differ from one attempt to the next, when it was changed. Permissions are
// those of the machine's user and mean nothing here.
func (f *files) stat(name string, info fs.FileInfo) sys.Stat_t {
	at := info.ModTime().UnixNano()
	if f.pure {
		at = pureEpoch
	}
	mode := info.Mode()&fs.ModeDir | 0o666
	size := info.Size()
	if mode.IsDir() {
		mode |= 0o111
		size = 0
	}
	return sys.Stat_t{Dev: 1, Ino: f.inode(name), Mode: mode, Nlink: 1, Size: size, Atim: at, Mtim: at, Ctim: at}
}

// errnoOf is what a guest is told of err.
func errnoOf(err error) esys.Errno {
	if err == nil {
		return 0
	}
	if known := esys.UnwrapOSError(err); known != esys.EIO {
		return known
	}
	switch { // errors of os.Root that come from no system call
	case errors.Is(err, fs.ErrNotExist):
		return esys.ENOENT
	case errors.Is(err, fs.ErrExist):
		return esys.EEXIST
	case errors.Is(err, fs.ErrPermission):
		return esys.EACCES
	}
	return esys.EPERM
}

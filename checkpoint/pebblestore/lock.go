package pebblestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrLocked is in the chain of the error of Open when another store, in this
// process or another, has the directory open. The error is a *LockedError.
var ErrLocked = errors.New("the store is in use")

// LockedError says who has the store open. PID is 0 if the owner has left no
// note yet or its note cannot be read.
type LockedError struct {
	Dir   string
	PID   int
	Since time.Time
	Host  string
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("store %s: %v by another process; wait for it", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("store %s: %v by pid %d on %s since %s; wait for it or end it", e.Dir, ErrLocked, e.PID, e.Host, e.Since.Format(time.RFC3339))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// owner is the note beside the lock. The lock itself belongs to the process and
// ends with it, so a note that is left behind means nothing.
type owner struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Host    string    `json:"host"`
}

const ownerFile = "OWNER"

// lock takes the directory's lock. The caller closes it after the database.
func lock(fsys vfs.FS, dir, db string) (*pebble.Lock, error) {
	l, err := pebble.LockDirectory(db, fsys)
	if err == nil {
		return l, nil
	}
	if !isHeld(err) {
		return nil, fmt.Errorf("lock: %w", err)
	}
	locked := &LockedError{Dir: dir}
	if o, err := readOwner(fsys, dir); err == nil {
		locked.PID, locked.Since, locked.Host = o.PID, o.Started, o.Host
	}
	return nil, locked
}

// isHeld tells a lock that another holds from a lock file that cannot be made.
// The latter is a PathError; a held lock is the bare errno of the platform or,
// within this process, Pebble's own error.
func isHeld(err error) bool {
	var path *fs.PathError
	if errors.As(err, &path) {
		return false
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return runtime.GOOS == "windows" || errno == syscall.EAGAIN || errno == syscall.EACCES
	}
	return true
}

func readOwner(fsys vfs.FS, dir string) (o owner, err error) {
	f, err := fsys.Open(fsys.PathJoin(dir, ownerFile))
	if err != nil {
		return o, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(b, &o)
}

// writeOwner replaces the note. It is for people, so it is not synced.
func writeOwner(fsys vfs.FS, dir string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	b, err := json.Marshal(owner{PID: os.Getpid(), Started: time.Now(), Host: host})
	if err != nil {
		return err
	}
	tmp := fsys.PathJoin(dir, ownerFile+".new")
	f, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fsys.Rename(tmp, fsys.PathJoin(dir, ownerFile))
}

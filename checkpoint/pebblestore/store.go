package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"

	"github.com/retrace-dev/engine/checkpoint"
)

// Options of a store. The zero value is ready to use.
type Options struct {
	// Logger receives what the database has to say. Defaults to none.
	Logger hclog.Logger
	// FS is the file system that holds the directory. Defaults to the
	// operating system's.
	FS vfs.FS
	// MemTableBytes is how much the database gathers in memory before it
	// writes a table. Defaults to 8 MiB.
	MemTableBytes int
	// CacheBytes is the size of the cache of table blocks. Defaults to 8 MiB.
	CacheBytes int
	// Key is the key of an encrypted store; one that is not needs none. Defaults
	// to none.
	Key checkpoint.Key
	// Encrypt demands that the store is encrypted, and makes a new one so: every
	// value is sealed, names of tenants, workflows and runs are not. It is for
	// Open, and needs Key.
	Encrypt bool
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 8 << 20
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
}

func (o *Options) validate() error {
	var faults []error
	if o.MemTableBytes < 64<<10 {
		faults = append(faults, fmt.Errorf("MemTableBytes is %d, the least is %d", o.MemTableBytes, 64<<10))
	}
	if o.CacheBytes < 0 {
		faults = append(faults, fmt.Errorf("CacheBytes is %d, the least is 0", o.CacheBytes))
	}
	if o.Encrypt && o.Key.IsZero() {
		faults = append(faults, errors.New("encryption is asked for, and there is no Key"))
	}
	return errors.Join(faults...)
}

// ErrReadOnly is what Commit returns on a store of OpenReadOnly.
var ErrReadOnly = errors.New("the store is open for reading only")

// Store is a checkpoint.Store on disk.
type Store struct {
	dir        string
	log        hclog.Logger
	fs         vfs.FS
	lock       *pebble.Lock
	readOnly   bool
	failure    *failure
	behind     checkpoint.Seq
	head       *headWriter // nil if readOnly
	blobs      *blobs
	unfinished atomic.Int64 // bytes of blobs that are being made
	vault      *vault       // nil if the store is not encrypted

	// life is held for reading by everything that uses db, and for writing by
	// Close, since Pebble panics when it is used after its Close.
	life   sync.RWMutex
	db     *pebble.DB
	closed bool

	mu      sync.Mutex // commits, one after the other; guards what follows
	last    checkpoint.Seq
	durable checkpoint.Seq
	cause   error         // why nothing can be committed any more
	changed chan struct{} // closed and replaced when durable or cause changes
	buf     []byte        // for keys and heads
	sealed  []byte        // for what is sealed
	pending pending       // large outputs on their way to disk

	persisted chan checkpoint.Seq
	wake      chan struct{} // something was committed
	stop      chan struct{} // sync once more and end
	done      chan struct{} // syncing has ended
}

var _ checkpoint.Store = (*Store)(nil)

const dbDir = "pebble"

// settleBytes is what of the log Open reads within a few milliseconds.
const settleBytes = 1 << 20

// Open opens the store in dir for writing and makes it if there is none. One
// process at a time can have it open: the error is then a *LockedError. A store
// that is damaged gives an error of checkpoint.ErrCorrupt that names the file.
func Open(dir string, o Options) (*Store, error) { return open(dir, o, false) }

// OpenReadOnly opens an existing store to be read; it changes no record. The
// lock is the same as Open's, for the database has no readers beside a writer:
// while a run is live ask it, or read its event file. Without a store the error
// is fs.ErrNotExist.
func OpenReadOnly(dir string, o Options) (*Store, error) { return open(dir, o, true) }

func open(dir string, o Options, readOnly bool) (_ *Store, err error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("store %s: options: %w", dir, err)
	}
	s := &Store{
		dir: dir, log: o.Logger, fs: o.FS, readOnly: readOnly, failure: newFailure(),
		changed:   make(chan struct{}),
		persisted: make(chan checkpoint.Seq, 1),
		wake:      make(chan struct{}, 1),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
		pending:   pending{byKey: map[blobKey][]byte{}, limit: maxPending},
	}
	db := s.fs.PathJoin(dir, dbDir)
	if readOnly {
		_, err = s.fs.Stat(db)
	} else {
		err = makeDir(s.fs, db)
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	if s.lock, err = lock(s.fs, dir, db); err != nil {
		var locked *LockedError
		if errors.As(err, &locked) {
			return nil, err
		}
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			_ = s.fs.Remove(s.fs.PathJoin(dir, ownerFile)) // a note that stays means nothing
			err = fmt.Errorf("store %s: %w", dir, errors.Join(err, s.lock.Close()))
		}
	}()
	if err := writeOwner(s.fs, dir); err != nil {
		s.log.Warn("whoever waits for the store will not see by whom it is used", "error", err)
	}
	if err := s.openDB(db, o); err != nil {
		return nil, err
	}
	go s.syncLoop()
	return s, nil
}

// openDB opens the database, reads where its order ends and compares that with
// HEAD.
func (s *Store) openDB(dir string, o Options) (err error) {
	head, known, err := readHead(s.fs, s.fs.PathJoin(s.dir, headFile))
	if err != nil {
		return err
	}
	db, err := pebble.Peek(dir, s.fs)
	if err != nil {
		return err
	}
	l := logger{s.log, s.failure}
	disk := newFrozenFS(walFS{s.fs}, s.failure)
	isNew := !known && !db.Exists
	if s.vault, err = openVault(disk, s.dir, &o, isNew); err == nil && isNew && !s.readOnly {
		// Before the database, so that one without it has lost it.
		known, err = true, createHead(disk, s.dir, 0)
	}
	if cause := s.failure.cause(); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	s.blobs = &blobs{fs: disk, dir: s.dir, vault: s.vault, ready: map[string]bool{}}
	s.db, err = pebble.Open(dir, &pebble.Options{
		FS:                          disk,
		Lock:                        s.lock,
		ReadOnly:                    s.readOnly,
		ErrorIfNotExists:            head > 0,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      l,
		EventListener:               l.listener(),
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		CacheSize:                   int64(o.CacheBytes),
		MaxOpenFiles:                256,
	})
	if err == nil {
		err = s.begin()
	}
	if err == nil && !s.readOnly && known {
		err = s.cutIncomplete(head)
	}
	switch {
	case err != nil:
	case head > s.last:
		s.behind, s.last, s.durable = head, head, head // no Seq is given twice
		s.log.Error("the store has lost persisted records", "store", s.dir, "persisted", head)
	case db.Exists && !known:
		s.behind = s.last + 1
		s.log.Error("the store has lost its file HEAD, and with that perhaps persisted records", "store", s.dir)
	}
	if err == nil && !s.readOnly {
		err = s.openHead(disk, head, known)
	}
	if cause := s.failure.cause(); cause != nil {
		err = cause // the other errors follow from it
	}
	if err == nil {
		return nil
	}
	if s.head != nil {
		s.head.close()
	}
	if s.db != nil {
		_ = s.db.Close() // the first error counts
	}
	return openError(err, head > 0)
}

// openError tells a damaged store from one that cannot be reached. A store that
// was there before has all its files.
func openError(err error, known bool) error {
	err = readError(err)
	missing := known && (errors.Is(err, pebble.ErrDBDoesNotExist) || errors.Is(err, fs.ErrNotExist))
	var path *fs.PathError
	var errno syscall.Errno
	reached := !errors.As(err, &path) && !errors.As(err, &errno)
	if errors.Is(err, errNewer) || !missing && !reached {
		return err
	}
	if !errors.Is(err, checkpoint.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return damagedError(err.Error() + "; restore the directory, or move it away to start without checkpoints")
}

// damagedError is that of a damaged store. What it came from is not in its chain: a
// file that is missing would say that there is no store.
type damagedError string

func (e damagedError) Error() string { return string(e) }
func (e damagedError) Unwrap() error { return checkpoint.ErrCorrupt }

// errNewer is in the chain of the error for a store of a later engine.
var errNewer = errors.New("a later engine has written it; use that one")

// openHead begins to follow the syncs in HEAD, which goes through the same disk
// as the database: when one cannot be written, neither is.
func (s *Store) openHead(disk vfs.FS, head checkpoint.Seq, known bool) (err error) {
	if !known {
		head = s.last
		if err := createHead(disk, s.dir, head); err != nil {
			return err
		}
	}
	if s.failure.cause() == nil {
		s.head, err = startHead(disk, s.dir, head)
	}
	return err
}

// Behind is the last Seq that was reported as persisted before this Open and
// that the store no longer had, 0 if it had everything; where HEAD is gone, which
// would tell, the one after those it has. The records after those
// it still has were lost by something else than a crash, such as a deleted file
// or a disk that did not keep what it had confirmed, and so may be the intents
// of steps with effects. Commit goes on after this Seq, and from the next
// commit on later Opens report nothing.
func (s *Store) Behind() checkpoint.Seq { return s.behind }

// begin reads the layout's version and the last Seq, or writes them into a
// database that holds nothing yet.
func (s *Store) begin() error {
	v, err := s.get(keyVersion)
	layout := byte(layoutVersion)
	if s.vault != nil {
		layout = sealedLayout
	}
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		if s.readOnly {
			return nil // it died before its first record
		}
		b := s.db.NewBatch()
		defer b.Close()
		_ = b.Set(keyVersion, []byte{layout}, nil)
		_ = b.Set(keyLast, appendSeq(nil, 0), nil)
		if err := s.db.Apply(b, pebble.Sync); err != nil {
			return err
		}
		return s.failure.cause()
	case err != nil:
		return err
	case len(v) != 1 || v[0] == 0:
		return fmt.Errorf("%w: its version cannot be read", checkpoint.ErrCorrupt)
	case v[0] > sealedLayout:
		return fmt.Errorf("layout version %d, this engine knows 1 to %d: %w", v[0], sealedLayout, errNewer)
	}
	last, err := s.get(keyLast)
	if err != nil || len(last) != 8 {
		return fmt.Errorf("%w: its last record cannot be read: %w", checkpoint.ErrCorrupt, err)
	}
	s.last = checkpoint.Seq(binary.BigEndian.Uint64(last))
	s.durable = s.last // Pebble has synced what it replayed
	keyring := s.fs.PathJoin(s.dir, keyringFile)
	switch {
	case v[0] == layout:
		return nil
	case v[0] == sealedLayout:
		return fmt.Errorf("%w: the store is encrypted and its keyring %s is gone, without which nothing can be read", checkpoint.ErrCorrupt, keyring)
	case s.vault != nil && s.last > 0:
		return fmt.Errorf("%w: the store is not encrypted, so the keyring %s does not belong to it", checkpoint.ErrCorrupt, keyring)
	case s.readOnly:
		return nil
	}
	// An earlier engine would not find what is written from now on.
	return s.db.Set(keyVersion, []byte{layout}, pebble.Sync)
}

// makeDir makes dir and syncs the parent of every directory it had to make.
func makeDir(fsys vfs.FS, dir string) error {
	var made []string
	for d := dir; ; d = fsys.PathDir(d) {
		if _, err := fsys.Stat(d); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parent := fsys.PathDir(d)
		if parent == d {
			break
		}
		made = append(made, parent)
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range made {
		if err := syncDir(fsys, parent); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(fsys vfs.FS, dir string) error {
	f, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// Close implements checkpoint.Store. Its error is that of the last sync.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.stop)
	<-s.done
	if s.head != nil {
		s.head.close()
	}
	cause := s.failure.cause()
	if cause == nil {
		s.settle()
	}
	err := s.db.Close()
	switch {
	case cause != nil:
		err = cause
	case s.failure.cause() != nil:
		s.log.Warn("the next start has to read the log", "store", s.dir, "error", s.failure.cause())
		err = nil
	}
	_ = s.fs.Remove(s.fs.PathJoin(s.dir, ownerFile)) // a note that stays means nothing
	if err := errors.Join(err, s.lock.Close()); err != nil {
		return fmt.Errorf("store %s: close: %w", s.dir, err)
	}
	return nil
}

// settle writes what the database has in its log alone as a table if reading it
// instead would be felt at the next Open. What fails here, and in the closing of the
// database, loses nothing: all of it is in the log and synced.
func (s *Store) settle() {
	if !s.readOnly && s.db.Metrics().WAL.Size >= settleBytes {
		_ = s.db.Flush() // an error is in s.failure too
	}
}

// Free is how many bytes the disk of the store has for this user; known is
// false where the file system does not say.
func (s *Store) Free() (bytes int64, known bool) {
	u, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return 0, false
	}
	return int64(min(u.AvailBytes, math.MaxInt64)), true
}

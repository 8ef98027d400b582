package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// keyringFile holds the wrapped keys of a store that is encrypted; one that has
// none is not.
const keyringFile = "KEYS"

// maxKeyring bounds what is read of it.
const maxKeyring = 64 << 20

// ErrPlain is what Open returns where Options.Encrypt is asked of a store that is
// not encrypted.
var ErrPlain = errors.New("the store is not encrypted, and only a new one can be")

// vault has the keys of an encrypted store. A nil vault keeps everything as it
// is.
type vault struct {
	fs   vfs.FS // writes of which a failure ends the store
	dir  string
	ring *checkpoint.Keyring

	mu sync.Mutex // held while the file is written
}

// openVault reads the keyring of the store in dir, or makes one for a store that
// is new. Without a keyring the vault is nil.
func openVault(fsys vfs.FS, dir string, o *Options, isNew bool) (*vault, error) {
	text, err := readKeyring(fsys, dir)
	switch {
	case err == nil:
		ring, err := checkpoint.ReadKeyring(text, o.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyringFile, err)
		}
		return &vault{fs: fsys, dir: dir, ring: ring}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !o.Encrypt:
		return nil, nil
	case !isNew:
		return nil, ErrPlain
	}
	v := &vault{fs: fsys, dir: dir, ring: checkpoint.NewKeyring(o.Key)}
	return v, v.write()
}

func readKeyring(fsys vfs.FS, dir string) ([]byte, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, keyringFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKeyring))
}

// write replaces the keyring in one step, so that a crash leaves the one before
// or the new one.
func (v *vault) write() error {
	text, err := v.ring.Bytes()
	if err != nil {
		return err
	}
	path := v.fs.PathJoin(v.dir, keyringFile)
	f, err := v.fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := v.fs.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(v.fs, v.dir)
}

// sealer is that of a tenant; nil where nothing is sealed.
func (v *vault) sealer(tenant string) (*checkpoint.Sealer, error) {
	if v == nil {
		return nil, nil
	}
	s, err := v.ring.Sealer(tenant)
	if err == nil && s == nil {
		err = fmt.Errorf("%w: the keyring %s has no key of tenant %q", checkpoint.ErrCorrupt, v.fs.PathJoin(v.dir, keyringFile), tenant)
	}
	return s, err
}

// ready is sealer for who writes: a tenant without a key is given one, which is
// on disk before this returns.
func (v *vault) ready(tenant string) (*checkpoint.Sealer, error) {
	if v == nil {
		return nil, nil
	}
	if s, err := v.ring.Sealer(tenant); s != nil || err != nil {
		return s, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s, err := v.ring.Sealer(tenant); s != nil || err != nil {
		return s, err
	}
	v.ring.Add(tenant)
	if err := v.write(); err != nil {
		return nil, err
	}
	return v.ring.Sealer(tenant)
}

// name is what a digest is called in keys and names of files. A tenant without a
// key has none of either.
func (v *vault) name(tenant string, d sdk.Digest) (sdk.Digest, error) {
	if v == nil {
		return d, nil
	}
	s, err := v.ring.Sealer(tenant)
	if s == nil || err != nil {
		return d, err
	}
	return s.Name(d), nil
}

// Sealer is what the records of a tenant are sealed with, for what lies beside
// the store; nil if the store is not encrypted.
func (s *Store) Sealer(tenant string) (*checkpoint.Sealer, error) {
	if s.readOnly {
		return s.vault.sealer(tenant)
	}
	sealer, err := s.vault.ready(tenant)
	if cause := s.failure.cause(); err == nil && cause != nil {
		err = cause
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", s.dir, err)
	}
	return sealer, nil
}

// ReadSealer is Store.Sealer for who does not open the store, since a run has it.
// It is nil where there is no store, or none that is encrypted.
func ReadSealer(dir, tenant string, k checkpoint.Key) (*checkpoint.Sealer, error) {
	v, err := openVault(vfs.Default, dir, &Options{Key: k}, false)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	if v == nil {
		return nil, nil
	}
	return v.ring.Sealer(tenant)
}

// Rotate makes to the key of the encrypted store in dir, instead of o.Key. The
// data keys are wrapped anew, in one step: a crash leaves the store with the one
// or the other key. done is false if to was the key already, so that what a
// crash has interrupted can be asked for again. The lock is that of Open.
func Rotate(dir string, o Options, to checkpoint.Key) (done bool, err error) {
	o.setDefaults()
	db := o.FS.PathJoin(dir, dbDir)
	if _, err := o.FS.Stat(db); err != nil {
		return false, fmt.Errorf("store %s: %w", dir, err)
	}
	l, err := lock(o.FS, dir, db)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if v, err := openVault(o.FS, dir, &Options{Key: to}, false); err == nil && v != nil {
		return false, nil
	}
	v, err := openVault(o.FS, dir, &o, false)
	if err != nil {
		return false, fmt.Errorf("store %s: %w", dir, err)
	}
	if v == nil {
		return false, fmt.Errorf("store %s: %w", dir, ErrPlain)
	}
	v.ring.Rewrap(to)
	if err := v.write(); err != nil {
		return false, fmt.Errorf("store %s: keyring: %w", dir, err)
	}
	return true, nil
}

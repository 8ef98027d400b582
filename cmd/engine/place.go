package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
)

// place is a state directory, and where its key is if it is encrypted.
type place struct{ dir, keyFrom string }

func (p place) String() string { return p.dir }

func (p place) store() string { return filepath.Join(p.dir, "store") }

func addState(c *cobra.Command, p *place) {
	c.Flags().StringVar(&p.dir, "state", os.Getenv("ENGINE_STATE"), "state `directory`; default $ENGINE_STATE, else .engine beside the flow or above it")
	c.Flags().StringVar(&p.keyFrom, "key-from", os.Getenv("ENGINE_KEY_FROM"), "`file` that holds the key of an encrypted state, or env:NAME for an environment variable that does; default $ENGINE_KEY_FROM")
}

func addEncrypt(c *cobra.Command, encrypt *bool) {
	c.Flags().BoolVar(encrypt, "encrypt", false, "encrypt what the state keeps, with the key of --key-from; a new state is made so, and stays so")
}

// stateDir is where runs of a flow in dir are kept: an existing .engine in dir
// or above it, else one in dir.
func stateDir(p place, dir string) place {
	if p.dir != "" {
		return p
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	p.dir = filepath.Join(abs, ".engine")
	for d := abs; ; {
		found := filepath.Join(d, ".engine")
		if info, err := os.Stat(found); err == nil && info.IsDir() {
			p.dir = found
			return p
		}
		up := filepath.Dir(d)
		if up == d {
			return p
		}
		d = up
	}
}

// isBeside: the state lies in the directory itself.
func isBeside(p place, dir string) bool {
	abs, err := filepath.Abs(dir)
	return err != nil || filepath.Dir(p.dir) == abs
}

// key reads the key that was given; without one it is zero.
func (p place) key() (checkpoint.Key, error) {
	var text []byte
	name, inEnviron := strings.CutPrefix(p.keyFrom, "env:")
	switch {
	case p.keyFrom == "":
		return checkpoint.Key{}, nil
	case inEnviron:
		value, ok := os.LookupEnv(name)
		if !ok {
			return checkpoint.Key{}, exit(exitUsage, "the key of the state: the environment has no variable %s", name)
		}
		text = []byte(value)
	default:
		var err error
		if text, err = readKey(p.keyFrom); err != nil {
			return checkpoint.Key{}, exit(exitUsage, "the key of the state: %w", err)
		}
	}
	k, err := checkpoint.ParseKey(text)
	if err != nil {
		return k, exit(exitUsage, "the key of the state, %s: %w", p.keyFrom, err)
	}
	return k, nil
}

// maxKey is more than any text of a key with white space around it has.
const maxKey = 4 << 10

// readKey reads the text of a key, which may come through a pipe.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err == nil && len(text) > maxKey {
		err = fmt.Errorf("%s holds more than a key; openssl rand -hex 32 prints one", path)
	}
	return text, err
}

// sealer is what the journals of the state are sealed with, nil if it is not
// encrypted.
func (p place) sealer() (*checkpoint.Sealer, error) {
	k, err := p.key()
	if err != nil {
		return nil, err
	}
	s, err := pebblestore.ReadSealer(p.store(), tenant, k)
	if err != nil {
		return nil, storeError(err)
	}
	return s, nil
}

// storeError is the exit for a store that cannot be used.
func storeError(err error) error {
	switch {
	case errors.Is(err, checkpoint.ErrKey):
		return exit(exitUsage, "%w; --key-from or $ENGINE_KEY_FROM names the file or env:NAME that has it", err)
	case errors.Is(err, pebblestore.ErrPlain):
		return exit(exitUsage, "%w; take another --state, to which engine checkpoints export and import carry what is worth it", err)
	}
	return &exitError{exitStore, roomAgain(err)}
}

// openForReading opens the store that p has; its errors are those of
// pebblestore.OpenReadOnly, or of the key.
func (p place) openForReading(o pebblestore.Options) (_ *pebblestore.Store, err error) {
	if o.Key, err = p.key(); err != nil {
		return nil, err
	}
	return pebblestore.OpenReadOnly(p.store(), o)
}

// plainWarning says that a key was given for what is not encrypted.
func plainWarning(io streams, p place) {
	fmt.Fprintf(io.err, "Warning: a key was given (%s), and the state in %s is not encrypted; --encrypt makes a new state so.\n", p.keyFrom, p.dir)
}

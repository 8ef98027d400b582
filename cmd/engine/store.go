package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/retrace-dev/engine/checkpoint/pebblestore"
)

// tenant is whose records the command line works on.
const tenant = "default"

// hasStore is an error that says what to do if there is no store yet.
func hasStore(state string) error {
	_, err := os.Stat(filepath.Join(state, "store"))
	if errors.Is(err, fs.ErrNotExist) {
		return exit(exitUsage, "there is no store in %s; see: engine apply", state)
	}
	if err != nil {
		return exit(exitStore, "%w", err)
	}
	return nil
}

// openToRead opens the store there is, and changes nothing in it.
func openToRead(io streams, state string) (*pebblestore.Store, error) {
	if err := hasStore(state); err != nil {
		return nil, err
	}
	s, err := pebblestore.OpenReadOnly(filepath.Join(state, "store"), pebblestore.Options{Logger: logger(io)})
	if errors.Is(err, pebblestore.ErrLocked) {
		return nil, exit(exitLocked, "%w", err)
	}
	if err != nil {
		return nil, exit(exitStore, "%w", err)
	}
	return s, nil
}

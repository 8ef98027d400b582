package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
)

// keySize is that of the key, in bytes.
const keySize = 32

// stateKey is the key of the hashes by which the records of a state directory
// know sensitive values, nil for a flow that needs none. It is made when a flow
// first needs it, and that of an encrypted state follows from its data key; create says that this may be now, and else a key is given that
// fits no record, since there is none.
func stateKey(wf *hcl.Workflow, state string, sealer *checkpoint.Sealer, create bool) ([]byte, error) {
	if !wf.NeedsKey() {
		return nil, nil
	}
	if sealer != nil {
		return sealer.HashKey(), nil
	}
	path := filepath.Join(state, "key")
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		key, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || len(key) != keySize {
			return nil, exit(exitStore, "%s is not a key of %d bytes in hexadecimal; restore it, or remove it: then results that depend on sensitive values run again", path, keySize)
		}
		return key, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, exit(exitStore, "%w", err)
	}
	key := make([]byte, keySize)
	rand.Read(key) // it does not fail: the process ends if the system has none
	if !create {
		return key, nil
	}
	f, err := os.CreateTemp(state, "key.*") // of mode 0600
	if err != nil {
		return nil, exit(exitStore, "%w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, exit(exitStore, "%w", err)
	}
	return key, nil
}

package checkpoint

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// Fingerprint identifies a computation before it runs. The zero Fingerprint
// means "none".
type Fingerprint [32]byte

// IsZero reports whether f is the zero Fingerprint.
func (f *Fingerprint) IsZero() bool {
	// Word by word: a plan asks this once per step, and a call to compare
	// memory costs more than the four loads.
	le := binary.LittleEndian
	return le.Uint64(f[:])|le.Uint64(f[8:])|le.Uint64(f[16:])|le.Uint64(f[24:]) == 0
}

// String returns 64 hex digits, or "" for the zero Fingerprint.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return hex.EncodeToString(f[:])
}

// MarshalText returns String.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Fingerprint) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*f = Fingerprint{}
		return nil
	}
	if len(b) != 2*len(f) {
		return fmt.Errorf("fingerprint %q: want 64 hex digits", b)
	}
	_, err := hex.Decode(f[:], b)
	return err
}

// ID names a checkpoint: "chk_" and 16 characters. It is a handle that follows
// from the content key and the output, so equal results have equal IDs; it
// resolves to the newest record.
type ID string

// RunID names a run: "r_" and 12 characters.
type RunID string

var b32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID makes the ID of a result.
func NewID(content Fingerprint, output sdk.Digest) ID {
	h := NewHasher("engine/id/1")
	h.Fingerprint(content)
	h.Digest(output)
	f := h.Sum()
	return ID("chk_" + b32.EncodeToString(f[:10]))
}

// NewRunID makes a random RunID.
func NewRunID() RunID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return RunID("r_" + strings.ToLower(b32.EncodeToString(b[:]))[:12])
}

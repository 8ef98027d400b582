package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the SHA-256 of bytes that exist. The zero Digest stands for
// "none".
type Digest [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns "sha256:" and 64 hex digits, or "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return "sha256:" + hex.EncodeToString(d[:])
}

// Short returns the first 12 hex digits, for people.
func (d Digest) Short() string { return hex.EncodeToString(d[:6]) }

// MarshalText returns String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	h, ok := strings.CutPrefix(string(b), "sha256:")
	if !ok || len(h) != 2*sha256.Size {
		return fmt.Errorf("digest %q: want sha256: and 64 hex digits", b)
	}
	_, err := hex.Decode(d[:], []byte(h))
	return err
}

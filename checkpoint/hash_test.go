package checkpoint_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// TestHasher: a fingerprint is the SHA-256 of the parts, each with its tag and
// length, however long they are and however often it is asked for.
func TestHasher(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		domain := rapid.String().Draw(t, "domain")
		h := checkpoint.NewHasher(domain)
		var want []byte
		part := func(tag byte, n int, b string) {
			want = append(binary.AppendUvarint(append(want, tag), uint64(n)), b...)
		}
		part('s', len(domain), domain)
		for range rapid.IntRange(0, 20).Draw(t, "parts") {
			b := make([]byte, rapid.IntRange(0, 600).Draw(t, "length"))
			for i := range b {
				b[i] = byte(len(b) + i)
			}
			d := sdk.Sum(b)
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				h.String(string(b))
				part('s', len(b), string(b))
			case 1:
				h.Bytes(b)
				part('b', len(b), string(b))
			case 2:
				n := rapid.Int().Draw(t, "int")
				h.Int(n)
				part('i', n, "")
			case 3:
				h.Digest(d)
				want = append(append(want, 'd'), d[:]...)
			case 4:
				h.Fingerprint(checkpoint.Fingerprint(d))
				want = append(append(want, 'f'), d[:]...)
			case 5:
				if got := h.Sum(); got != sha256.Sum256(want) {
					t.Fatalf("after %d bytes: %s", len(want), got)
				}
			}
		}
		if got := h.Sum(); got != sha256.Sum256(want) {
			t.Fatalf("%d bytes: %s", len(want), got)
		}
	})
}

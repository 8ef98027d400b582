package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/retrace-dev/engine/sdk"
)

// Hasher makes a Fingerprint of a sequence of typed parts. Every part is
// tagged and length-prefixed, so two different sequences never give the same
// bytes. Not safe for concurrent use.
type Hasher struct {
	// Most fingerprints are of few bytes: they gather here and are hashed in
	// one go.
	buf  [256]byte
	n    int       // bytes of buf in use
	long hash.Hash // has taken what buf had no room for; nil until then
}

// NewHasher begins a fingerprint in a domain, such as "engine/plan/1". Equal
// sequences in different domains differ; the number is the format's version.
func NewHasher(domain string) *Hasher {
	h := &Hasher{}
	h.String(domain)
	return h
}

func (h *Hasher) flush() {
	if h.long == nil {
		h.long = sha256.New()
	}
	h.long.Write(slices.Clone(h.buf[:h.n])) // a copy, so that a Hasher can live on its maker's stack
	h.n = 0
}

func (h *Hasher) part(tag byte, n int) {
	if len(h.buf)-h.n < 1+binary.MaxVarintLen64 {
		h.flush()
	}
	h.buf[h.n] = tag
	h.n += 1 + binary.PutUvarint(h.buf[h.n+1:], uint64(n))
}

func (h *Hasher) fixed(tag byte, b *[32]byte) {
	if len(h.buf)-h.n < 1+len(b) {
		h.flush()
	}
	h.buf[h.n] = tag
	h.n += 1 + copy(h.buf[h.n+1:], b[:])
}

// String adds a string.
func (h *Hasher) String(s string) {
	h.part('s', len(s))
	for len(s) > len(h.buf)-h.n {
		k := copy(h.buf[h.n:], s)
		h.n, s = h.n+k, s[k:]
		h.flush()
	}
	h.n += copy(h.buf[h.n:], s)
}

// Bytes adds bytes; they differ from a String of the same content.
func (h *Hasher) Bytes(b []byte) {
	h.part('b', len(b))
	if len(b) > len(h.buf)-h.n {
		h.flush()
		h.long.Write(b)
		return
	}
	h.n += copy(h.buf[h.n:], b)
}

// Int adds a number, or the length of what follows.
func (h *Hasher) Int(n int) { h.part('i', n) }

// Digest adds a digest.
func (h *Hasher) Digest(d sdk.Digest) { h.fixed('d', (*[32]byte)(&d)) }

// Fingerprint adds another fingerprint.
func (h *Hasher) Fingerprint(f Fingerprint) { h.fixed('f', (*[32]byte)(&f)) }

// Sum returns the fingerprint of what was added so far.
func (h *Hasher) Sum() Fingerprint {
	if h.long == nil {
		return sha256.Sum256(h.buf[:h.n])
	}
	h.flush()
	return Fingerprint(h.long.Sum(nil))
}

// PlanKey is the key a plan looks a step up by: the local key (Numbered), the
// values of the `each` parts it names (zero without for_each) and the digests
// of the upstream facets in the order of the local key's holes.
func PlanKey(local Fingerprint, each sdk.Digest, lineage []sdk.Digest) Fingerprint {
	h := NewHasher("engine/plan/1")
	h.Fingerprint(local)
	h.Digest(each)
	h.Int(len(lineage))
	for _, d := range lineage {
		h.Digest(d)
	}
	return h.Sum()
}

// Numbered is a local key with its occurrence number: equal twins are distinct
// computations (five samples of one prompt are five calls). The first one, 0,
// keeps the key as it is, so that a twin that comes or goes disturbs nothing.
func Numbered(local Fingerprint, occurrence int) Fingerprint {
	if occurrence == 0 {
		return local
	}
	h := NewHasher("engine/occurrence/1")
	h.Fingerprint(local)
	h.Int(occurrence)
	return h.Sum()
}

// ContentKey is the key of a computation with its evaluated input: what runs
// (base: artifact, step type, configuration, output type, salt; the same for
// all attempts of a step), the input, the outputs of what depends_on names,
// and the occurrence number.
func ContentKey(base Fingerprint, input sdk.Digest, dependsOn []sdk.Digest, occurrence int) Fingerprint {
	h := NewHasher("engine/content/1")
	h.Fingerprint(base)
	h.Digest(input)
	h.Int(len(dependsOn))
	for _, d := range dependsOn {
		h.Digest(d)
	}
	h.Int(occurrence)
	return h.Sum()
}

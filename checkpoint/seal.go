package checkpoint

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/retrace-dev/engine/sdk"
)

// sealVersion is the first byte of everything that is sealed.
const sealVersion = 1

// sealOverhead is how much longer a text is when it is sealed.
const sealOverhead = 1 + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// sealedChunk is how much of a file is sealed at once, so that whoever reads it
// holds no more.
const sealedChunk = 64 << 10

// Sealer encrypts what a store keeps of one tenant and authenticates it
// together with its place: what is changed, or was taken from elsewhere, does
// not open. It is safe for concurrent use. A Keyring makes one.
type Sealer struct {
	aead  cipher.AEAD
	names []byte
	salt  []byte
}

func newSealer(data []byte) (*Sealer, error) {
	derive := func(use string) ([]byte, error) { return hkdf.Key(sha256.New, data, nil, "engine 1 "+use, keySize) }
	records, err := derive("records")
	if err != nil {
		return nil, err
	}
	s := new(Sealer)
	if s.names, err = derive("names"); err != nil {
		return nil, err
	}
	if s.salt, err = derive("values"); err != nil {
		return nil, err
	}
	s.aead, err = chacha20poly1305.NewX(records)
	return s, err
}

// Seal appends the sealed text to dst, which must not overlap it. place is where
// it will lie: it opens nowhere else.
func (s *Sealer) Seal(dst, text, place []byte) []byte {
	dst = append(dst, sealVersion)
	n := len(dst)
	dst = append(dst, make([]byte, s.aead.NonceSize())...)
	nonce := dst[n:]
	rand.Read(nonce) // it does not fail: the process ends if the system has none
	return s.aead.Seal(dst, nonce, text, place)
}

// Open appends the text of what Seal made for this place to dst. Its error is
// ErrCorrupt: another key cannot be the cause, since the keyring is tried first.
func (s *Sealer) Open(dst, sealed, place []byte) ([]byte, error) {
	if len(sealed) < sealOverhead || sealed[0] != sealVersion {
		return dst, fmt.Errorf("%w: it is not sealed as this engine seals", ErrCorrupt)
	}
	nonce := sealed[1 : 1+s.aead.NonceSize()]
	text, err := s.aead.Open(dst, nonce, sealed[1+len(nonce):], place)
	if err != nil {
		return dst, fmt.Errorf("%w: it was changed, or belongs in another place", ErrCorrupt)
	}
	return text, nil
}

// Name is what a digest is called outside of what is sealed. Who does not have
// the key cannot tell from it whether a text that he guesses is stored.
func (s *Sealer) Name(d sdk.Digest) (name sdk.Digest) {
	h := hmac.New(sha256.New, s.names)
	h.Write(d[:])
	h.Sum(name[:0])
	return name
}

// HashKey is the key of the hashes by which records know sensitive values.
func (s *Sealer) HashKey() []byte { return append([]byte(nil), s.salt...) }

// filePlace is that of one chunk of a file. Chunks cannot change places, and the
// end of a file cannot be cut off.
func filePlace(dst, place []byte, index uint64, last bool) []byte {
	dst = append(dst[:0], "file\x00"...)
	dst = binary.BigEndian.AppendUint64(dst, index)
	if last {
		return append(append(dst, 1), place...)
	}
	return append(append(dst, 0), place...)
}

// SealedSize is the size of a sealed file whose text has n bytes.
func SealedSize(n int64) int64 {
	chunks := max((n+sealedChunk-1)/sealedChunk, 1)
	return n + chunks*sealOverhead
}

// WriteFile writes the sealed form of a file to w.
func (s *Sealer) WriteFile(w io.Writer, text, place []byte) error {
	var at, sealed []byte
	for i := uint64(0); ; i++ {
		chunk := text[:min(len(text), sealedChunk)]
		text = text[len(chunk):]
		at = filePlace(at, place, i, len(text) == 0)
		sealed = s.Seal(sealed[:0], chunk, at)
		if _, err := w.Write(sealed); err != nil || len(text) == 0 {
			return err
		}
	}
}

// FileReader reads the text of what WriteFile wrote for this place, and holds a
// chunk of it in memory. It gives no byte that does not verify, and an end only
// where the file had its.
func (s *Sealer) FileReader(r io.Reader, place []byte) io.Reader {
	return &fileReader{s: s, r: r, place: place}
}

type fileReader struct {
	s      *Sealer
	r      io.Reader
	place  []byte
	index  uint64
	at     []byte
	sealed []byte // the chunk that comes next, and one byte that says whether another follows
	text   []byte // what is left of the chunk
	err    error
}

func (f *fileReader) Read(p []byte) (int, error) {
	for len(f.text) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.err = f.next()
	}
	n := copy(p, f.text)
	f.text = f.text[n:]
	return n, nil
}

// next opens the next chunk; at the last one it returns io.EOF.
func (f *fileReader) next() error {
	const size = sealedChunk + sealOverhead
	if f.sealed == nil {
		f.sealed = make([]byte, 0, size+1)
	}
	n, err := io.ReadFull(f.r, f.sealed[len(f.sealed):size+1])
	last := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	if err != nil && !last {
		return err
	}
	f.sealed = f.sealed[:len(f.sealed)+n]
	chunk := f.sealed[:min(len(f.sealed), size)]
	f.at = filePlace(f.at, f.place, f.index, last)
	f.index++
	if f.text, err = f.s.Open(f.text[:0], chunk, f.at); err != nil {
		f.text = nil
		return err
	}
	f.sealed = append(f.sealed[:0], f.sealed[len(chunk):]...)
	if last {
		return io.EOF
	}
	return nil
}

package checkpoint

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/retrace-dev/engine/sdk"
)

// keySize is that of every key, in bytes.
const keySize = 32

// ErrKey says that a key is not the one that a state is encrypted with.
var ErrKey = errors.New("the key does not fit")

// keyError is an ErrKey that tells both keys.
type keyError string

func (e keyError) Error() string { return string(e) }

func (keyError) Is(target error) bool { return target == ErrKey }

// Key is the key of a state: it wraps the keys of the data, and encrypts nothing
// else, so that it can be changed without touching the data. The zero Key is
// none.
type Key struct{ b [keySize]byte }

// ParseKey reads a key from its text: 32 random bytes in hexadecimal or base64,
// white space around them. A password is none.
func ParseKey(text []byte) (k Key, err error) {
	text = bytes.TrimSpace(text)
	b, err := hex.DecodeString(string(text))
	if err != nil {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if b, err = e.DecodeString(strings.TrimRight(string(text), "=")); err == nil {
				break
			}
		}
	}
	if err != nil || len(b) != keySize {
		return Key{}, fmt.Errorf("a key is %d random bytes in hexadecimal or base64, such as openssl rand -hex %d prints; this is not", keySize, keySize)
	}
	copy(k.b[:], b)
	if k.IsZero() {
		return Key{}, errors.New("a key of zeros is none; openssl rand -hex 32 prints one")
	}
	return k, nil
}

// IsZero reports whether k is no key.
func (k Key) IsZero() bool { return k == Key{} }

// ID tells keys apart, without telling the key.
func (k Key) ID() string {
	id, err := hkdf.Key(sha256.New, k.b[:], nil, "engine 1 id", 6)
	if err != nil {
		panic("checkpoint: " + err.Error())
	}
	return "key_" + hex.EncodeToString(id)
}

// String is the ID, so that no message tells the key by mistake.
func (k Key) String() string { return k.ID() }

// GoString is the ID.
func (k Key) GoString() string { return k.ID() }

// keyringFormat names the form of a keyring and its version.
const keyringFormat = "engine.keyring/1"

// keyringBody is a keyring's JSON form.
type keyringBody struct {
	Format  string            `json:"format"`
	Key     string            `json:"key"`     // ID of the key that wraps the others
	Tenants map[string][]byte `json:"tenants"` // the wrapped key of each
}

// Keyring holds the data keys of the tenants of one state, each of its own, so
// that one tenant can be made unreadable for good. Outside of memory they are
// wrapped by the state's Key. It is safe for concurrent use.
type Keyring struct {
	mu      sync.Mutex
	key     Key
	data    map[string][]byte
	sealers map[string]*Sealer
}

// NewKeyring makes a keyring that holds nothing yet.
func NewKeyring(k Key) *Keyring {
	return &Keyring{key: k, data: map[string][]byte{}, sealers: map[string]*Sealer{}}
}

// ReadKeyring reads what Bytes gave. The error is ErrKey where k is not the key
// that wraps it, and ErrCorrupt where it was changed.
func ReadKeyring(text []byte, k Key) (*Keyring, error) {
	var b keyringBody
	if err := sdk.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("%w: the keyring cannot be read: %w", ErrCorrupt, err)
	}
	if b.Format != keyringFormat {
		return nil, fmt.Errorf("%w: the keyring's format is %q, this engine reads %q", ErrCorrupt, b.Format, keyringFormat)
	}
	if k.IsZero() {
		return nil, keyError("the state is encrypted with " + b.Key + ", and no key was given")
	}
	if b.Key != k.ID() {
		return nil, keyError("the state is encrypted with " + b.Key + ", and the key given is " + k.ID())
	}
	r := NewKeyring(k)
	wrap, err := chacha20poly1305.NewX(k.b[:])
	if err != nil {
		return nil, err
	}
	for tenant, w := range b.Tenants {
		n := wrap.NonceSize()
		if len(w) < n {
			return nil, fmt.Errorf("%w: the keyring's key of tenant %q is too short", ErrCorrupt, tenant)
		}
		data, err := wrap.Open(nil, w[:n], w[n:], wrapPlace(tenant))
		if err != nil || len(data) != keySize {
			return nil, fmt.Errorf("%w: the keyring's key of tenant %q was changed", ErrCorrupt, tenant)
		}
		r.data[tenant] = data
	}
	return r, nil
}

func wrapPlace(tenant string) []byte { return []byte(keyringFormat + "\x00" + tenant) }

// Bytes is the keyring with its keys wrapped, for a file.
func (r *Keyring) Bytes() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := keyringBody{Format: keyringFormat, Key: r.key.ID(), Tenants: map[string][]byte{}}
	wrap, err := chacha20poly1305.NewX(r.key.b[:])
	if err != nil {
		return nil, err
	}
	for tenant, data := range r.data {
		nonce := make([]byte, wrap.NonceSize())
		rand.Read(nonce)
		b.Tenants[tenant] = wrap.Seal(nonce, nonce, data, wrapPlace(tenant))
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// Sealer gives the sealer of a tenant, nil if the keyring has no key for it.
func (r *Keyring) Sealer(tenant string) (*Sealer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sealers[tenant]; s != nil {
		return s, nil
	}
	data := r.data[tenant]
	if data == nil {
		return nil, nil
	}
	s, err := newSealer(data)
	if err == nil {
		r.sealers[tenant] = s
	}
	return s, err
}

// Add makes a key for a tenant, unless it has one. The keyring must be written
// before anything is sealed with it.
func (r *Keyring) Add(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data[tenant] == nil {
		data := make([]byte, keySize)
		rand.Read(data)
		r.data[tenant] = data
	}
}

// Rewrap makes k the key that wraps the others, in the next Bytes.
func (r *Keyring) Rewrap(k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = k
}

package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/sdk"
)

const hexKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func key(t *testing.T, text string) Key {
	t.Helper()
	k, err := ParseKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sealer(t *testing.T, r *Keyring, tenant string) *Sealer {
	t.Helper()
	r.Add(tenant)
	s, err := r.Sealer(tenant)
	if s == nil || err != nil {
		t.Fatal(s, err)
	}
	return s
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	want := key(t, hexKey)
	for _, text := range []string{
		" " + strings.ToUpper(hexKey) + "\r\n", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
	} {
		if got := key(t, text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "correct horse battery staple", hexKey[2:], hexKey + "00", strings.Repeat("0", 64)} {
		if _, err := ParseKey([]byte(text)); err == nil || !strings.Contains(err.Error(), "openssl rand") {
			t.Errorf("%q: %v", text, err)
		}
	}
	// No message tells a key.
	if said := fmt.Sprintf("%v %+v %#v %s", want, want, want, want); strings.Contains(said, "0102") || strings.Contains(said, "1 2 3") {
		t.Errorf("the key is told: %s", said)
	}
}

// What is sealed opens in its place, with its tenant's key, unchanged, and
// nowhere else.
func TestSealer(t *testing.T) {
	t.Parallel()
	r := NewKeyring(key(t, hexKey))
	s, other := sealer(t, r, "default"), sealer(t, r, "other")
	text, place := []byte("机密 🗝"), []byte("place")
	sealed := s.Seal([]byte("before"), text, place)[len("before"):]
	if bytes.Contains(sealed, text[:3]) || bytes.Equal(sealed, s.Seal(nil, text, place)) {
		t.Error("it is not sealed, or the same each time")
	}
	if got, err := s.Open([]byte("x"), sealed, place); err != nil || string(got) != "x"+string(text) {
		t.Errorf("%q, %v", got, err)
	}
	refused := func(what string, s *Sealer, sealed, place []byte) {
		t.Helper()
		if got, err := s.Open(nil, sealed, place); !errors.Is(err, ErrCorrupt) || len(got) > 0 {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	refused("another place", s, sealed, []byte("plac"))
	refused("another tenant", other, sealed, place)
	for i := range sealed {
		for bit := range 8 {
			flipped := bytes.Clone(sealed)
			flipped[i] ^= 1 << bit
			refused(fmt.Sprint("bit ", bit, " of byte ", i), s, flipped, place)
		}
		refused(fmt.Sprint("cut at ", i), s, sealed[:i], place)
	}
	d := sdk.Sum(text)
	if n := s.Name(d); n == d || n == other.Name(d) || n != s.Name(d) {
		t.Error("names of digests")
	}
	if bytes.Equal(s.HashKey(), other.HashKey()) || len(s.HashKey()) != keySize {
		t.Error("keys of hashes")
	}
}

func TestSealedFile(t *testing.T) {
	t.Parallel()
	s, place := sealer(t, NewKeyring(key(t, hexKey)), "default"), []byte("file")
	seal := func(text []byte) []byte {
		var b bytes.Buffer
		if err := s.WriteFile(&b, text, place); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	read := func(sealed []byte) ([]byte, error) { return io.ReadAll(s.FileReader(bytes.NewReader(sealed), place)) }
	const chunk = sealedChunk + sealOverhead
	for _, n := range []int{0, 1, sealedChunk - 1, sealedChunk, sealedChunk + 1, 3 * sealedChunk, 3*sealedChunk + 7} {
		text := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		sealed := seal(text)
		if int64(len(sealed)) != SealedSize(int64(n)) {
			t.Errorf("%d bytes are %d sealed, SealedSize says %d", n, len(sealed), SealedSize(int64(n)))
		}
		if got, err := read(sealed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		for _, cut := range []int{0, 1, chunk, 2 * chunk, len(sealed) - 1} {
			if cut >= len(sealed) {
				continue
			}
			if got, err := read(sealed[:cut]); !errors.Is(err, ErrCorrupt) || !bytes.HasPrefix(text, got) {
				t.Errorf("%d bytes cut at %d: %d bytes, %v", n, cut, len(got), err)
			}
		}
		if _, err := read(append(sealed, 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes and one more: %v", n, err)
		}
	}
	three := seal(make([]byte, 3*sealedChunk))
	swapped := bytes.Clone(three)
	copy(swapped, three[chunk:2*chunk])
	copy(swapped[chunk:], three[:chunk])
	if got, err := read(swapped); !errors.Is(err, ErrCorrupt) || len(got) > 0 {
		t.Errorf("swapped chunks: %d bytes, %v", len(got), err)
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(s.FileReader(io.MultiReader(bytes.NewReader(three[:chunk+5]), errReader{broken}), place)); !errors.Is(err, broken) {
		t.Errorf("an error of the disk becomes %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestKeyring(t *testing.T) {
	t.Parallel()
	one, two := key(t, hexKey), key(t, strings.Repeat("ab", 32))
	r := NewKeyring(one)
	if s, err := r.Sealer("default"); s != nil || err != nil {
		t.Errorf("a key that nobody has made: %v, %v", s, err)
	}
	sealed := sealer(t, r, "default").Seal(nil, []byte("text"), nil)
	sealer(t, r, "租户")
	bytesOf := func() []byte {
		b, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	opens := func(text []byte, k Key) {
		t.Helper()
		back, err := ReadKeyring(text, k)
		if err != nil {
			t.Fatal(err)
		}
		s, err := back.Sealer("default")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Open(nil, sealed, nil); err != nil || string(got) != "text" {
			t.Errorf("%q, %v", got, err)
		}
	}
	refuses := func(text []byte, k Key, kind error, says string) {
		t.Helper()
		if _, err := ReadKeyring(text, k); !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %v that says %q", err, kind, says)
		}
	}
	first := bytesOf()
	opens(first, one)
	refuses(first, two, ErrKey, "the state is encrypted with "+one.ID()+", and the key given is "+two.ID())
	refuses(first, Key{}, ErrKey, "the state is encrypted with "+one.ID()+", and no key was given")
	r.Rewrap(two)
	second := bytesOf()
	opens(second, two)
	refuses(second, one, ErrKey, "the state is encrypted with "+two.ID())
	refuses(bytes.ReplaceAll(first, []byte("租户"), []byte("别人")), one, ErrCorrupt, `tenant "别人" was changed`)
	refuses(bytes.ReplaceAll(first, []byte(one.ID()), []byte(two.ID())), two, ErrCorrupt, "was changed")
	refuses([]byte("{}"), one, ErrCorrupt, "format")
	refuses([]byte("{"), one, ErrCorrupt, "cannot be read")
	refuses([]byte(`{"format":"engine.keyring/1","key":"`+one.ID()+`","tenants":{"default":"AAAA"}}`), one, ErrCorrupt, "too short")
}

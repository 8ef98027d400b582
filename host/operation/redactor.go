package operation

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/retrace-dev/engine/sdk"
)

// minSecret is the shortest value that is masked, in bytes: shorter ones, such
// as "true" or "8080", stand in texts that have nothing to do with them.
const minSecret = 8

// Redactor masks the values of secrets, wherever they come from: as they are,
// line by line if they have several, and in the forms in which servers and
// programs hand them on (base64, hex, escaped for URLs and JSON). In place of a
// value stands "(secret NAME)". A nil Redactor masks nothing. It is immutable
// and safe for concurrent use.
type Redactor struct {
	secrets []named
	weak    []string
	first   *[1 << 16 / 64]uint64 // bit set: some form begins with these two bytes
	forms   map[uint16][]form     // by their first two bytes, longest first
	longest int
}

// form is one spelling of a secret.
type form struct {
	text []byte
	mask string
}

// named is a value that a secret has or had.
type named struct{ name, value string }

// With returns a Redactor that masks this value of a secret too: r itself if it
// does already. Values that the secret had before stay masked.
func (r *Redactor) With(name, value string) *Redactor {
	if r == nil {
		return newRedactor([]named{{name, value}})
	}
	if slices.Contains(r.secrets, named{name, value}) {
		return r
	}
	first := *r.first
	out := &Redactor{secrets: slices.Clip(r.secrets), weak: slices.Clip(r.weak), first: &first, forms: maps.Clone(r.forms), longest: r.longest}
	out.add(named{name, value})
	return out
}

func newRedactor(secrets []named) *Redactor {
	r := &Redactor{first: new([1 << 16 / 64]uint64), forms: map[uint16][]form{}}
	for _, s := range secrets {
		r.add(s)
	}
	return r
}

// add makes the forms of one value. Lists of forms are replaced, not changed: a
// Redactor that r was made of has them too.
func (r *Redactor) add(s named) {
	r.secrets = append(r.secrets, s)
	value := strings.TrimRight(s.value, "\r\n")
	if len(value) < minSecret {
		r.weak = append(r.weak, s.name)
		return
	}
	mask := fmt.Sprintf("(secret %s)", s.name)
	for piece := range pieces(value) {
		for _, text := range spellings(piece) {
			k := key(text)
			if len(text) < minSecret || slices.ContainsFunc(r.forms[k], func(f form) bool { return string(f.text) == text }) {
				continue
			}
			r.first[k/64] |= 1 << (k % 64)
			fs := append(slices.Clip(r.forms[k]), form{[]byte(text), mask})
			slices.SortStableFunc(fs, func(a, b form) int { return len(b.text) - len(a.text) })
			r.forms[k] = fs
			r.longest = max(r.longest, len(text))
		}
	}
}

func key[T string | []byte](b T) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

// Weak names the secrets whose values are too short to be masked, sorted. Their
// owner should be warned.
func (r *Redactor) Weak() []string {
	if r == nil {
		return nil
	}
	weak := slices.Sorted(slices.Values(r.weak))
	return slices.Compact(weak)
}

// pieces are the value and, of several lines, each that says something.
func pieces(value string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield(value) || !strings.Contains(value, "\n") {
			return
		}
		for line := range strings.SplitSeq(value, "\n") {
			line = strings.TrimSpace(line)
			if len(line) >= minSecret && !strings.HasPrefix(line, "-----") && !yield(line) {
				return
			}
		}
	}
}

// spellings are the forms in which a value travels.
func spellings(v string) []string {
	query := url.QueryEscape(v)
	out := []string{v, query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(v)}
	for _, s := range out[1:] {
		out = append(out, lowerEscapes(s))
	}
	h := hex.EncodeToString([]byte(v))
	out = append(out, h, strings.ToUpper(h))
	for _, s := range jsonSpellings(v) {
		out = append(out, s)
		out = append(out, jsonSpellings(s)...) // JSON inside a JSON string
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, e.EncodeToString([]byte(v)), e.WithPadding(base64.NoPadding).EncodeToString([]byte(v)))
		for before := range 3 { // bytes of something else in the same group of three
			text := e.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, before), v...))
			out = append(out, text[(before*8+5)/6:(before+len(v))*8/6])
		}
	}
	return out
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// jsonSpellings are what encoders make of v: with and without escapes of HTML,
// of the slash, and of everything outside ASCII.
func jsonSpellings(v string) []string {
	plain, _ := sdk.Marshal(v) // a string always encodes
	html, _ := json.Marshal(v)
	var ascii strings.Builder
	for _, r := range string(plain[1 : len(plain)-1]) {
		switch a, b := utf16.EncodeRune(r); {
		case r < 0x80:
			ascii.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		default:
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, a, b)
		}
	}
	return []string{string(plain[1 : len(plain)-1]), string(html[1 : len(html)-1]), ascii.String(),
		strings.ReplaceAll(ascii.String(), "/", `\/`)}
}

// may reports whether some form begins with the first two bytes of b. It decides
// at almost every byte of a text.
func (r *Redactor) may(b []byte) bool {
	k := key(b)
	return r.first[k/64]&(1<<(k%64)) != 0
}

// at returns the longest form that b begins with, or else whether b is the
// beginning of one.
func (r *Redactor) at(b []byte) (f *form, begins bool) {
	if len(b) == 1 {
		for k := range r.forms {
			if byte(k>>8) == b[0] {
				return nil, true
			}
		}
		return nil, false
	}
	k := key(b)
	for i, c := range r.forms[k] {
		switch {
		case len(b) < len(c.text):
			begins = begins || bytes.HasPrefix(c.text, b)
		case bytes.HasPrefix(b, c.text):
			return &r.forms[k][i], begins
		}
	}
	return nil, begins
}

// mask appends to dst what b is without secrets. Unless last, it stops where a
// secret may begin that b does not hold to its end; n bytes were done.
func (r *Redactor) mask(dst, b []byte, last bool) (out []byte, n int) {
	from := 0 // of what is not yet copied
	for n < len(b) {
		if n+1 < len(b) && !r.may(b[n:]) {
			n++
			continue
		}
		f, begins := r.at(b[n:])
		switch {
		case begins && !last:
			return append(dst, b[from:n]...), n
		case f != nil:
			dst = append(append(dst, b[from:n]...), f.mask...)
			n += len(f.text)
			from = n
		default:
			n++
		}
	}
	return append(dst, b[from:]...), n
}

// holds reports whether b holds a form.
func (r *Redactor) holds(b []byte) bool {
	for i := 0; i+minSecret <= len(b); i++ {
		if r.may(b[i:]) {
			if f, _ := r.at(b[i:]); f != nil {
				return true
			}
		}
	}
	return false
}

// Bytes returns b without secrets: b itself if it holds none.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || !r.holds(b) {
		return b
	}
	out, _ := r.mask(nil, b, true)
	return out
}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string {
	if r == nil || !r.holds([]byte(s)) {
		return s
	}
	return string(r.Bytes([]byte(s)))
}

// JSON returns a JSON text without secrets, still JSON: strings are masked by
// what they stand for, however they are escaped, and a number that holds a
// secret becomes a string. It returns b itself if it holds none, and treats what
// is not JSON as Bytes does.
func (r *Redactor) JSON(b []byte) []byte {
	if r == nil {
		return b
	}
	if sdk.CheckJSON(b) != nil {
		return r.Bytes(b)
	}
	var out []byte
	from := 0
	replace := func(i, end int, by []byte) {
		out = append(append(out, b[from:i]...), by...)
		from = end
	}
	for i := 0; i < len(b); {
		end := i + 1
		switch c := b[i]; {
		case c == '"':
			end = stringEnd(b, i)
			if masked, changed := r.literal(b[i:end]); changed {
				replace(i, end, masked)
			}
		case c == '-' || c >= '0' && c <= '9':
			for end < len(b) && strings.IndexByte("+-.eE0123456789", b[end]) >= 0 {
				end++
			}
			if r.holds(b[i:end]) {
				replace(i, end, append(append([]byte{'"'}, r.Bytes(b[i:end])...), '"'))
			}
		}
		i = end
	}
	if out == nil {
		return b
	}
	return append(out, b[from:]...)
}

// stringEnd is where the string literal that begins at i ends.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// literal masks a string literal.
func (r *Redactor) literal(b []byte) (masked []byte, changed bool) {
	if bytes.IndexByte(b, '\\') < 0 {
		masked = r.Bytes(b)
		return masked, len(masked) != len(b) || &masked[0] != &b[0]
	}
	var s string
	if json.Unmarshal(b, &s) != nil || !r.holds([]byte(s)) {
		return b, false
	}
	masked, _ = sdk.Marshal(r.Text(s)) // a string always encodes
	return masked, true
}

// Stream returns a masker for a text that comes in pieces.
func (r *Redactor) Stream() *RedactorStream { return &RedactorStream{r: r} }

// RedactorStream masks a text that comes in pieces; a secret that lies across
// their borders is masked as in one piece.
type RedactorStream struct {
	r    *Redactor
	held []byte // may be the beginning of a secret
}

// Next returns what can be given on now that b has come; last says that nothing
// follows. It may hold back as many bytes as the longest secret has.
func (s *RedactorStream) Next(b []byte, last bool) []byte {
	if s.r == nil {
		return b
	}
	text := b
	if len(s.held) > 0 {
		text = append(s.held, b...)
	}
	out, n := s.r.mask(nil, text, last)
	s.held = append([]byte(nil), text[n:]...)
	return out
}

// Reader masks what src gives.
func (r *Redactor) Reader(src io.Reader) io.Reader {
	if r == nil {
		return src
	}
	return &redactingReader{src: src, stream: r.Stream(), buf: make([]byte, 32<<10)}
}

type redactingReader struct {
	src    io.Reader
	stream *RedactorStream
	buf    []byte
	ready  []byte
	err    error
}

func (r *redactingReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		n, err := r.src.Read(r.buf)
		r.ready = r.stream.Next(r.buf[:n], err != nil)
		r.err = err
	}
	if len(r.ready) == 0 {
		return 0, r.err
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"

	"github.com/retrace-dev/engine/sdk"
)

// ValueDigest is the canonical digest of a JSON value: a Merkle hash in which
// object keys are sorted, strings count by the bytes they stand for, numbers
// by their exact value (1, 1.0 and 1e0 are equal), and every value is tagged
// with its type and length. Null differs from absent, 1 from "1" and true.
// The error is sdk.CheckJSON's.
func ValueDigest(v json.RawMessage) (sdk.Digest, error) {
	if err := sdk.CheckJSON(v); err != nil {
		return sdk.Digest{}, err
	}
	d := digester{b: v}
	return d.value(), nil
}

// Member is one member of an object, with the ValueDigest of its value.
type Member struct {
	Name   string
	Digest sdk.Digest
}

// MemberDigests is ValueDigest, and of an object also the digests of its members,
// by name; of another value there are none.
func MemberDigests(v json.RawMessage) (sdk.Digest, []Member, error) {
	if err := sdk.CheckJSON(v); err != nil {
		return sdk.Digest{}, nil, err
	}
	d := digester{b: v}
	whole := d.value()
	if !isObject(v) {
		return whole, nil, nil
	}
	ms := make([]Member, len(d.top))
	for i, m := range d.top {
		ms[i] = Member{string(m.key), m.digest}
	}
	return whole, ms, nil
}

func isObject(v []byte) bool {
	v = bytes.TrimLeft(v, " \t\r\n")
	return len(v) > 0 && v[0] == '{'
}

// ObjectDigest is the ValueDigest of an object whose members are already
// digested.
func ObjectDigest(members map[string]sdk.Digest) sdk.Digest {
	ms := make([]member, 0, len(members))
	for k, d := range members {
		ms = append(ms, member{key: []byte(k), digest: d})
	}
	return objectDigest(nil, ms)
}

var (
	absentDigest  = sdk.Sum([]byte("engine: absent"))
	statusDigests = func() (ds [sdk.Cancelled + 1]sdk.Digest) {
		for s := range ds {
			ds[s] = mustDigest(strconv.Quote(sdk.State(s).String()))
		}
		return ds
	}()
	boolDigests = [2]sdk.Digest{mustDigest("false"), mustDigest("true")}
)

// FacetDigest is the digest of a facet that has no record: of a step that
// failed, or that ended without leaving a checkpoint. err is nil unless the
// step failed.
func FacetDigest(f sdk.Facet, state sdk.State, err *sdk.Error, attempts int) sdk.Digest {
	switch f {
	case sdk.FacetStatus:
		return statusDigests[state]
	case sdk.FacetError:
		if err != nil {
			b, e := sdk.Marshal(map[string]string{"class": string(err.Class), "message": err.Message})
			if e == nil {
				return mustDigest(string(b))
			}
		}
	case sdk.FacetAttempts:
		return mustDigest(strconv.Itoa(attempts))
	case sdk.FacetDegraded:
		return boolDigests[0]
	}
	return absentDigest
}

// mustDigest is ValueDigest of a text this package made itself.
func mustDigest(s string) sdk.Digest {
	d, err := ValueDigest(json.RawMessage(s))
	if err != nil {
		panic("checkpoint: " + err.Error())
	}
	return d
}

// digester walks a text that CheckJSON has accepted, so it needs no error
// paths, and its recursion is bounded by sdk.MaxDepth.
type digester struct {
	b     []byte
	p     int
	buf   []byte
	blobs []sdk.Blob // references met on the way
	top   []member   // of the object that ended last
}

type member struct {
	key    []byte
	digest sdk.Digest
}

func (d *digester) space() {
	for d.p < len(d.b) && (d.b[d.p] == ' ' || d.b[d.p] == '\n' || d.b[d.p] == '\t' || d.b[d.p] == '\r') {
		d.p++
	}
}

func (d *digester) value() sdk.Digest {
	d.space()
	switch d.b[d.p] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.leaf('s', d.str())
	case 't':
		d.p += 4
		return d.leaf('t', nil)
	case 'f':
		d.p += 5
		return d.leaf('f', nil)
	case 'n':
		d.p += 4
		return d.leaf('0', nil)
	}
	from := d.p
	for d.p < len(d.b) && bytes.IndexByte([]byte("+-.eE0123456789"), d.b[d.p]) >= 0 {
		d.p++
	}
	return d.leaf('n', canonicalNumber(d.b[from:d.p]))
}

func (d *digester) leaf(tag byte, b []byte) sdk.Digest {
	d.buf = append(d.buf[:0], tag)
	d.buf = binary.AppendUvarint(d.buf, uint64(len(b)))
	d.buf = append(d.buf, b...)
	return sha256.Sum256(d.buf)
}

func (d *digester) array() sdk.Digest {
	d.p++
	var ds []sdk.Digest
	for {
		d.space()
		switch d.b[d.p] {
		case ']':
			d.p++
			d.buf = append(d.buf[:0], 'a')
			d.buf = binary.AppendUvarint(d.buf, uint64(len(ds)))
			for i := range ds {
				d.buf = append(d.buf, ds[i][:]...)
			}
			return sha256.Sum256(d.buf)
		case ',':
			d.p++
		default:
			ds = append(ds, d.value())
		}
	}
}

func (d *digester) object() sdk.Digest {
	from := d.p
	d.p++
	var ms []member
	reference := false
	for {
		d.space()
		switch d.b[d.p] {
		case '}':
			d.p++
			if reference {
				d.reference(d.b[from:d.p])
			}
			d.top = ms
			return objectDigest(d.buf, ms)
		case ',':
			d.p++
		default:
			k := d.str()
			reference = reference || string(k) == "$blob"
			d.space()
			d.p++ // colon
			ms = append(ms, member{key: k, digest: d.value()})
		}
	}
}

func objectDigest(buf []byte, ms []member) sdk.Digest {
	slices.SortFunc(ms, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	buf = append(buf[:0], 'o')
	buf = binary.AppendUvarint(buf, uint64(len(ms)))
	for i := range ms {
		buf = binary.AppendUvarint(buf, uint64(len(ms[i].key)))
		buf = append(buf, ms[i].key...)
		buf = append(buf, ms[i].digest[:]...)
	}
	return sha256.Sum256(buf)
}

// str returns the bytes a string stands for, sharing memory where it has no
// escapes.
func (d *digester) str() []byte {
	from := d.p
	d.p++
	plain := true
	for d.b[d.p] != '"' {
		if d.b[d.p] == '\\' {
			plain = false
			d.p++
		}
		d.p++
	}
	d.p++
	if plain {
		return d.b[from+1 : d.p-1]
	}
	var s string
	_ = json.Unmarshal(d.b[from:d.p], &s) // CheckJSON accepted it
	return []byte(s)
}

// canonicalNumber spells a JSON number as sign, digits without leading or
// trailing zeros, "e" and a decimal exponent; zero is "0".
func canonicalNumber(lit []byte) []byte {
	mant, exp := lit, []byte(nil)
	if i := bytes.IndexAny(lit, "eE"); i >= 0 {
		mant, exp = lit[:i], lit[i+1:]
	}
	neg := mant[0] == '-'
	if neg {
		mant = mant[1:]
	}
	whole, frac, _ := bytes.Cut(mant, []byte("."))
	digits := bytes.TrimLeft(slices.Concat(whole, frac), "0")
	trimmed := bytes.TrimRight(digits, "0")
	if len(trimmed) == 0 {
		return []byte("0")
	}
	shift := int64(len(digits)-len(trimmed)) - int64(len(frac))
	out := make([]byte, 0, len(trimmed)+8)
	if neg {
		out = append(out, '-')
	}
	out = append(append(out, trimmed...), 'e')
	e, err := strconv.ParseInt(string(exp), 10, 60)
	if len(exp) > 0 && err != nil { // an exponent beyond 2^59 is still a number
		n, _ := new(big.Int).SetString(string(bytes.TrimPrefix(exp, []byte("+"))), 10)
		return n.Add(n, big.NewInt(shift)).Append(out, 10)
	}
	return strconv.AppendInt(out, e+shift, 10)
}

package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// FormatVersion is the version of every stored record, its first byte. A
// reader knows all versions up to its own.
const FormatVersion = 1

// ErrFormat is in the chain of every decoding error. The stored bytes are
// damaged, or a newer engine wrote them; the text says which.
var ErrFormat = errors.New("record cannot be read")

// Part is what is stored as JSON behind the format byte: the parts that people
// read and planning does not.
type Part interface {
	Context | RunRecord | AttemptRecord | Intent
}

// AppendPart appends the stored form of v to dst. The error is that of a
// json.RawMessage inside v that is not JSON.
func AppendPart[T Part](dst []byte, v *T) ([]byte, error) {
	var b []byte
	var err error
	if c, ok := any(v).(*Context); ok {
		b, err = appendContext(append(dst, FormatVersion), c)
	} else if b, err = sdk.Marshal(v); err == nil {
		b = append(append(dst, FormatVersion), b...)
	}
	if err != nil {
		return dst, fmt.Errorf("encode %T: %w", *v, err)
	}
	return b, nil
}

// DecodePart reads what AppendPart wrote. It keeps no reference to b.
func DecodePart[T Part](b []byte) (*T, error) {
	b, err := checkVersion(b)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("%w: %T: %w", ErrFormat, *v, err)
	}
	return v, nil
}

// DecodeFile reads a file's text as a store has kept it, and verifies it. It
// keeps no reference to b. For stores.
func DecodeFile(b []byte, digest sdk.Digest) ([]byte, error) {
	b, err := checkVersion(b)
	if err != nil {
		return nil, err
	}
	if sdk.Sum(b) != digest {
		return nil, fmt.Errorf("file %s of a flow: %w", digest.Short(), ErrCorrupt)
	}
	return bytes.Clone(b), nil
}

func checkVersion(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if b[0] == 0 || b[0] > FormatVersion {
		return nil, fmt.Errorf("%w: format version %d, this engine knows 1 to %d; use the engine that wrote it", ErrFormat, b[0], FormatVersion)
	}
	return b[1:], nil
}

// Flags of a stored head. A fingerprint, digest or time that is zero is left
// out, which is most of a skipped step.
const (
	flagDegraded = 1 << iota
	flagLocal
	flagPlan
	flagContent
	flagOutput
	flagSHA256
	flagCreated
	flagExpires
	flagJudged
	flagFacets
	flagOperator
	flagCost
	flagCostUnknown
	flagIdempotencyKey
	flagsEnd
)

// AppendHead appends the stored form of h, but its Seq, to dst. The form is
// binary, since a plan reads the head of every step instance: a twentieth of the
// time and half of the size of JSON (BenchmarkDecodeHead, BenchmarkHeadJSON).
func AppendHead(dst []byte, h *Head) []byte {
	var flags uint64
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	set(h.Degraded, flagDegraded)
	set(!h.Local.IsZero(), flagLocal)
	set(!h.Plan.IsZero(), flagPlan)
	set(!h.Content.IsZero(), flagContent)
	set(!h.Output.IsZero(), flagOutput)
	set(!h.Data.SHA256.IsZero(), flagSHA256)
	set(!h.Created.IsZero(), flagCreated)
	set(!h.Expires.IsZero(), flagExpires)
	set(!h.Judged.IsZero(), flagJudged)
	set(h.Facets != nil, flagFacets)
	set(h.Operator, flagOperator)
	set(h.Cost.USD != 0, flagCost)
	set(h.Cost.Unknown, flagCostUnknown)
	set(!h.IdempotencyKey.IsZero(), flagIdempotencyKey)

	dst = append(dst, FormatVersion)
	dst = binary.AppendUvarint(dst, flags)
	dst = append(dst, byte(h.Outcome))
	for _, s := range [...]string{string(h.ID), h.Step, h.Instance, string(h.Run), string(h.Chain)} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	for _, f := range [...]*Fingerprint{&h.Local, &h.Plan, &h.Content} {
		if !f.IsZero() {
			dst = append(dst, f[:]...)
		}
	}
	for _, d := range [...]*sdk.Digest{&h.Output, &h.Data.SHA256} {
		if !d.IsZero() {
			dst = append(dst, d[:]...)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(h.Lineage)))
	for i := range h.Lineage {
		dst = append(dst, h.Lineage[i][:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(h.Data.Seq))
	for _, n := range [...]int64{h.Data.Size, int64(h.Attempts), int64(h.Took), h.Tokens} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, t := range [...]*time.Time{&h.Created, &h.Expires} {
		if !t.IsZero() {
			dst = binary.AppendVarint(dst, t.Unix())
			dst = binary.AppendUvarint(dst, uint64(t.Nanosecond()))
		}
	}
	if !h.Judged.IsZero() {
		dst = append(dst, h.Judged[:]...)
	}
	if h.Facets != nil {
		for i := range h.Facets {
			dst = append(dst, h.Facets[i][:]...)
		}
	}
	if h.Cost.USD != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(h.Cost.USD))
	}
	if !h.IdempotencyKey.IsZero() {
		dst = append(dst, h.IdempotencyKey[:]...)
	}
	return dst
}

// DecodeHead reads what AppendHead wrote; the caller sets Seq. Times come back
// in UTC. It keeps no reference to b.
func DecodeHead(b []byte) (*Head, error) {
	b, err := checkVersion(b)
	if err != nil {
		return nil, err
	}
	r := reader{b: b}
	h := new(Head)
	flags := r.uvarint()
	if flags >= flagsEnd {
		r.fail("unknown flags")
	}
	has := func(flag uint64) bool { return flags&flag != 0 }
	h.Degraded, h.Operator, h.Cost.Unknown = has(flagDegraded), has(flagOperator), has(flagCostUnknown)
	if o := r.next(1); len(o) == 1 {
		h.Outcome = Outcome(o[0])
	}
	if int(h.Outcome) >= len(outcomeNames) {
		r.fail("unknown outcome")
	}
	h.ID, h.Step, h.Instance = ID(r.str()), r.str(), r.str()
	h.Run, h.Chain = RunID(r.str()), RunID(r.str())
	r.fixed(has(flagLocal), h.Local[:])
	r.fixed(has(flagPlan), h.Plan[:])
	r.fixed(has(flagContent), h.Content[:])
	r.fixed(has(flagOutput), h.Output[:])
	r.fixed(has(flagSHA256), h.Data.SHA256[:])
	if n := r.uvarint(); n > uint64(len(r.b)/len(sdk.Digest{})) {
		r.fail("lineage beyond the end")
	} else if n > 0 {
		h.Lineage = make([]sdk.Digest, n)
		for i := range h.Lineage {
			r.fixed(true, h.Lineage[i][:])
		}
	}
	h.Data.Seq = Seq(r.uvarint())
	h.Data.Size = r.varint()
	h.Attempts = int(r.varint())
	h.Took = time.Duration(r.varint())
	h.Tokens = r.varint()
	h.Created = r.time(has(flagCreated))
	h.Expires = r.time(has(flagExpires))
	r.fixed(has(flagJudged), h.Judged[:])
	if has(flagFacets) {
		h.Facets = new(Facets)
		for i := range h.Facets {
			r.fixed(true, h.Facets[i][:])
		}
	}
	if has(flagCost) {
		if b := r.next(8); len(b) == 8 {
			h.Cost.USD = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		if usd := h.Cost.USD; usd == 0 || math.IsNaN(usd) || math.IsInf(usd, 0) {
			r.fail("a cost that is no number")
		}
	}
	r.fixed(has(flagIdempotencyKey), h.IdempotencyKey[:])
	if len(r.b) != 0 {
		r.fail("more bytes than a head")
	}
	if r.err != nil {
		return nil, r.err
	}
	return h, nil
}

// reader takes fields off the front of b. After the first fault everything it
// returns is zero, so that DecodeHead reads as a list of fields.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: head: %s", ErrFormat, why)
	}
	r.b = nil
}

func (r *reader) next(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("it ends early")
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) str() string { return string(r.next(r.uvarint())) }

func (r *reader) fixed(present bool, dst []byte) {
	if present {
		copy(dst, r.next(uint64(len(dst))))
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) time(present bool) time.Time {
	if !present {
		return time.Time{}
	}
	sec, nsec := r.varint(), r.uvarint()
	if nsec >= uint64(time.Second) {
		r.fail("time out of range")
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

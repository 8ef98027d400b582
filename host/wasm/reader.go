package wasm

import "fmt"

// reader decodes the parts of a binary module. The first error sticks; after it
// every read returns zero, so that callers check once per item. It never reads
// past its bytes and never allocates in proportion to a number it has read.
type reader struct {
	b   []byte
	p   int
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.p = len(r.b)
	}
}

func (r *reader) left() int { return len(r.b) - r.p }

func (r *reader) byte() byte {
	if r.p >= len(r.b) {
		r.fail("the module ends in the middle of something")
		return 0
	}
	r.p++
	return r.b[r.p-1]
}

// u32 reads an unsigned LEB128 number.
func (r *reader) u32() uint32 {
	if r.p < len(r.b) && r.b[r.p] < 0x80 {
		r.p++
		return uint32(r.b[r.p-1])
	}
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail("a number is longer than 32 bits")
	return 0
}

// skipLEB skips a number of at most max bytes.
func (r *reader) skipLEB(max int) {
	for range max {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail("a number is longer than its type")
}

// s33 reads a block type or heap type.
func (r *reader) s33() int64 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail("a number is longer than 33 bits")
	return 0
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.fail("%d bytes are announced, %d are left", n, r.left())
		return nil
	}
	r.p += int(n)
	return r.b[r.p-int(n) : r.p : r.p]
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }

// count reads the length of a vector whose items take at least one byte each.
func (r *reader) count(what string, limit uint32) uint32 {
	n := r.u32()
	if int64(n) > int64(r.left()) {
		r.fail("%d %s are announced, %d bytes are left", n, what, r.left())
		return 0
	}
	if n > limit {
		r.fail("%d %s, the limit is %d", n, what, limit)
		return 0
	}
	return n
}

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}

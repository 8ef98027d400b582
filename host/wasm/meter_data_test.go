package wasm

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// applied is the memory that data segments leave, -1 where none was written, and
// how many there are. Offsets that are no constant are 7.
func applied(t interface{ Fatalf(string, ...any) }, body []byte) (memory [1 << 13]byte, count int) {
	r := &reader{b: body}
	for n := r.u32(); n > 0; n-- {
		count++
		flags := r.u32()
		if flags == 2 {
			r.u32()
		}
		at := uint32(7)
		if flags != 1 {
			if r.b[r.p] == opI32Const {
				r.byte()
				at = uint32(r.s33())
				if r.byte() != opEnd {
					t.Fatalf("an expression that goes on in %x", body)
				}
			} else {
				constExpr(r, &space{globals: 1}, nil)
			}
		}
		d := r.bytes(r.u32())
		if flags != 1 {
			copy(memory[at:], d)
		}
	}
	if r.err != nil || r.left() != 0 {
		t.Fatalf("%x: %v, %d bytes are left", body, r.err, r.left())
	}
	return memory, count
}

func dataSection(segments ...[]byte) []byte {
	return append(appendU32(nil, uint32(len(segments))), bytes.Join(segments, nil)...)
}

func segment(at uint32, data string) []byte {
	b := append(appendS64([]byte{0, opI32Const}, int64(int32(at))), opEnd)
	return append(appendU32(b, uint32(len(data))), data...)
}

func joined(body []byte) []byte {
	return (&metered{module: &module{space: space{globals: 1}}}).data(body)
}

func TestDataIsJoined(t *testing.T) {
	t.Parallel()
	global := append([]byte{0, opGlobalGet, 0, opEnd, 1}, 'g')
	passive := []byte{1, 1, 'p'}
	for name, c := range map[string]struct {
		body []byte
		want int
	}{
		"neighbours":      {dataSection(segment(0, "ab"), segment(2, "cd"), segment(10, "e")), 1},
		"far apart":       {dataSection(segment(0, "a"), segment(2+maxGap, "b")), 2},
		"as far as may":   {dataSection(segment(0, string(make([]byte, maxGap))), segment(2*maxGap, "b")), 1},
		"a small module":  {dataSection(segment(0, "a"), segment(500, "b")), 2},
		"backwards":       {dataSection(segment(10, "a"), segment(0, "b"), segment(2, "c")), 2},
		"over each other": {dataSection(segment(0, "abcd"), segment(2, "x")), 2},
		"over an earlier": {dataSection(segment(20, "kept"), segment(15, "a"), segment(30, "b")), 3},
		"after a global":  {dataSection(global, segment(0, "a"), segment(1, "b")), 3},
		"with a passive":  {dataSection(segment(0, "a"), passive, segment(1, "b")), 3},
		"empty ones":      {dataSection(segment(0, ""), segment(0, ""), segment(3, "x")), 1},
		"none":            {dataSection(), 0},
	} {
		before, _ := applied(t, c.body)
		after, count := applied(t, joined(c.body))
		if before != after || count != c.want {
			t.Errorf("%s: %d segments, want %d; the memory is the same: %t", name, count, c.want, before == after)
		}
	}
}

// TestJoinedDataIsTheSame: whatever segments there are, in whatever order, memory
// is the same after them, and the section is at most doubled.
func TestJoinedDataIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var segments [][]byte
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			at := rapid.Uint32Range(0, 4000).Draw(t, "at")
			data := rapid.StringOfN(rapid.Rune(), 0, 60, 200).Draw(t, "data")
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				segments = append(segments, append([]byte{0, opGlobalGet, 0, opEnd, 1}, 'g'))
			case 1:
				segments = append(segments, append([]byte{2}, segment(at, data)...))
				segments[len(segments)-1][1] = 0 // memory 0; the flags of segment are 0, too
			default:
				segments = append(segments, segment(at, data))
			}
		}
		body := dataSection(segments...)
		out := joined(body)
		before, n := applied(t, body)
		after, count := applied(t, out)
		if before != after || count > n || len(out) > 2*len(body)+16 {
			t.Fatalf("%d segments of %d bytes became %d of %d; the memory is the same: %t", n, len(body), count, len(out), before == after)
		}
	})
}

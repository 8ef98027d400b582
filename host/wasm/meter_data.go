package wasm

// maxGap is how far apart two data segments may lie that are joined. To apply a
// segment costs as much as to copy some KiB.
const maxGap = 1 << 10

// data joins data segments that lie close together, with zeros between them, as
// memory is before they are applied. Go's linker leaves zeros out and so makes ten
// thousand segments, which are most of what a fresh instance costs. Without a data
// count no instruction can name a segment, so their numbers may change.
func (w *metered) data(body []byte) []byte {
	j := joiner{budget: len(body)}
	r := &reader{b: body}
	for n := r.u32(); n > 0; n-- {
		from := r.p
		flags := r.u32()
		if flags == 0 && r.b[r.p] == opI32Const {
			r.byte()
			at := uint64(uint32(r.s33()))
			if r.byte() == opEnd {
				j.add(at, r.bytes(r.u32()))
				continue
			}
			r.p = from
			r.u32()
		}
		if flags == 2 {
			r.u32()
		}
		if flags != 1 {
			constExpr(r, &w.space, nil)
			j.blind = true
		}
		r.bytes(r.u32())
		j.flush()
		j.out = append(j.out, body[from:r.p]...)
		j.count++
	}
	j.flush()
	return append(appendU32(nil, j.count), j.out...)
}

// maxRuns is how many joined segments a module may have for more to be joined.
const maxRuns = 64

// joiner writes segments one after the other.
type joiner struct {
	out    []byte
	count  uint32
	budget int  // zeros that may be added: a module is at most doubled
	blind  bool // a segment was written that lies who knows where, or too many were

	open    bool
	now     run
	data    []byte
	written []run
}

// run is from where to where bytes lie in memory.
type run struct{ from, to uint64 }

func (j *joiner) add(at uint64, data []byte) {
	if j.joins(at) {
		gap := at - j.now.to
		j.budget -= int(gap)
		j.data = append(append(j.data, make([]byte, gap)...), data...)
	} else {
		j.flush()
		j.open, j.now.from, j.data = true, at, append(j.data[:0], data...)
	}
	j.now.to = at + uint64(len(data))
}

// joins reports whether what lies between the last segment and one at at is known
// to be zero, and not much.
func (j *joiner) joins(at uint64) bool {
	if !j.open || j.blind || at < j.now.to || at-j.now.to > maxGap || int(at-j.now.to) > j.budget {
		return false
	}
	for _, r := range j.written {
		if r.from < at && j.now.to < r.to {
			return false
		}
	}
	return true
}

func (j *joiner) flush() {
	if !j.open {
		return
	}
	j.out = append(appendS64(append(j.out, 0, opI32Const), int64(int32(j.now.from))), opEnd)
	j.out = append(appendU32(j.out, uint32(len(j.data))), j.data...)
	j.count++
	j.open = false
	j.written = append(j.written, j.now)
	j.blind = j.blind || len(j.written) == maxRuns
}

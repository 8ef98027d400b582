package wasm

// code rewrites the bodies and appends the helpers.
func (w *metered) code(body []byte) []byte {
	out := appendU32(make([]byte, 0, len(body)+len(body)/2+256), uint32(len(w.funcs))+3)
	r := &reader{b: body}
	if len(body) > 0 {
		r.u32()
	}
	var buf []byte
	for _, t := range w.funcs {
		b := &reader{b: r.bytes(r.u32())}
		n := locals(b)
		buf = append(buf[:0], b.b[:b.p]...)
		weight := 1 + (int(n)+len(w.types[t].params))/16
		buf = w.body(buf, b, weight, w.blockTypes[t])
		out = append(appendU32(out, uint32(len(buf))), buf...)
	}
	for _, h := range [][]byte{w.chargeHelper(), w.fillHelper(), w.copyHelper()} {
		out = append(appendU32(out, uint32(len(h))), h...)
	}
	return out
}

// body rewrites the instructions of one function in two passes: the first sums
// what each region costs (the function outside its loops, then each loop
// outside its inner loops), the second writes.
//
// A function that calls others counts its frame while it is open. Its body is
// wrapped in a block with the function's results, so that every way out ends
// at one place: a branch to the function's own label now ends the block, and
// return becomes such a branch.
func (w *metered) body(out []byte, r *reader, weight int, blockType []byte) []byte {
	start := r.p
	calls := w.count(r)
	r.p = start

	if calls {
		out = w.enter(out, w.costs[0], weight)
		out = append(append(out, opBlock), blockType...)
	} else {
		out = w.spend(out, w.costs[0])
	}
	var in instr
	region := 0
	for depth := 1; depth > 0; {
		next(r, &w.space, &in)
		switch in.op {
		case opLoop:
			depth++
			region++
			out = append(out, r.b[in.from:in.to]...)
			out = w.spend(out, w.costs[region])
		case opBlock, opIf:
			depth++
			out = append(out, r.b[in.from:in.to]...)
		case opEnd:
			depth--
			if depth == 0 && calls {
				out = w.leave(append(out, opEnd), weight)
			}
			out = append(out, opEnd)
		case opReturn:
			if calls {
				out = appendU32(append(out, opBr), uint32(depth-1))
			} else {
				out = append(out, opReturn)
			}
		case opReturnCall, opReturnIndirect:
			out = w.leave(out, weight)
			if in.op == opReturnIndirect {
				out = append(out, r.b[in.from:in.to]...)
				break
			}
			out = appendU32(append(out, in.op), w.function(in.index))
		case opCall, opRefFunc:
			out = appendU32(append(out, in.op), w.function(in.index))
		case opPrefixFC:
			out = w.bulk(out, r, &in)
		default:
			out = append(out, r.b[in.from:in.to]...)
		}
	}
	return out
}

// count fills w.costs and reports whether the function calls anything.
func (w *metered) count(r *reader) (calls bool) {
	w.costs = append(w.costs[:0], 0)
	w.loops = append(w.loops[:0], 0)    // the regions that are open
	blocks := append(w.open[:0], false) // whether each open block is a loop
	var in instr
	for len(blocks) > 0 {
		next(r, &w.space, &in)
		region := w.loops[len(w.loops)-1]
		cost := 1
		switch in.op {
		case opLoop:
			w.costs = append(w.costs, 0)
			region = len(w.costs) - 1
			w.loops = append(w.loops, region)
			blocks = append(blocks, true)
		case opBlock, opIf:
			blocks = append(blocks, false)
		case opEnd:
			if blocks[len(blocks)-1] {
				w.loops = w.loops[:len(w.loops)-1]
			}
			blocks = blocks[:len(blocks)-1]
		case opCall, opReturnCall:
			calls = true
			if in.index < w.imported {
				cost = costCallHost
			}
		case opCallIndirect, opReturnIndirect:
			calls = true
			cost = costCallIndirect
		case opMemoryGrow:
			cost = costMemoryGrow
		}
		w.costs[region] += cost
	}
	w.open = blocks
	return calls
}

// bulk replaces the operations that take long in one instruction.
func (w *metered) bulk(out []byte, r *reader, in *instr) []byte {
	switch in.sub {
	case fcMemoryFill:
		return appendU32(append(out, opCall), w.fill)
	case fcMemoryCopy:
		return appendU32(append(out, opCall), w.copy)
	case fcMemoryInit, fcTableInit, fcTableCopy, fcTableGrow, fcTableFill:
		// Bounded by the module's size or a table's, so they need no pieces.
		out = appendU32(append(out, opCall), w.charge)
	}
	return append(out, r.b[in.from:in.to]...)
}

// spend charges cost and asks the host when the quantum is used up.
func (w *metered) spend(out []byte, cost int) []byte {
	out = appendU32(append(out, opGlobalGet), w.left)
	out = appendS64(append(out, opI64Const), int64(cost)<<frameBits)
	return w.settle(append(out, 0x7d)) // i64.sub
}

// settle stores the i64 on the stack as what is left, and ticks if it is
// negative.
func (w *metered) settle(out []byte) []byte {
	out = appendU32(append(out, opGlobalSet), w.left)
	out = appendU32(append(out, opGlobalGet), w.left)
	return w.tickBelow(out)
}

// tickBelow ticks if the i64 on the stack is negative.
func (w *metered) tickBelow(out []byte) []byte {
	out = append(out, opI64Const, 0, 0x53, opIf, 0x40) // i64.lt_s
	return append(appendU32(append(out, opCall), w.tick), opEnd)
}

// enter charges cost and counts a frame, with one look at both: the bit of too many
// frames is moved to that of the sign. Then tick ends the attempt.
func (w *metered) enter(out []byte, cost, weight int) []byte {
	out = appendU32(append(out, opGlobalGet), w.left)
	out = appendS64(append(out, opI64Const), int64(cost)<<frameBits-int64(weight))
	out = appendU32(append(out, 0x7d, opGlobalSet), w.left) // i64.sub
	out = appendU32(append(out, opGlobalGet), w.left)
	out = appendS64(append(appendU32(append(out, opGlobalGet), w.left), opI64Const), 64-frameBits)
	return w.tickBelow(append(out, 0x86, 0x84)) // i64.shl, i64.or
}

// leave counts a frame no more.
func (w *metered) leave(out []byte, weight int) []byte {
	out = appendU32(append(out, opGlobalGet), w.left)
	out = appendS64(append(out, opI64Const), int64(weight))
	return appendU32(append(out, 0x7d, opGlobalSet), w.left) // i64.sub
}

// The helpers. Parameters of fill: 0 destination, 1 value, 2 length; of copy:
// 0 destination, 1 source, 2 length.

var (
	fillOp = []byte{opPrefixFC, fcMemoryFill, 0}
	copyOp = []byte{opPrefixFC, fcMemoryCopy, 0, 0}
)

// chargeHelper charges one unit for two bytes (or table entries) and returns its
// parameter. Copying is faster than that, but the first touch of a page is not.
func (w *metered) chargeHelper() []byte {
	out := []byte{0} // no locals
	out = appendU32(append(out, opGlobalGet), w.left)
	out = append(out, opLocalGet, 0, 0xad, opI64Const, 1, 0x88)             // i64.extend_i32_u, i64.shr_u
	out = append(appendS64(append(out, opI64Const), frameBits), 0x86, 0x7d) // i64.shl, i64.sub
	out = w.settle(out)
	return append(out, opLocalGet, 0, opEnd)
}

func (w *metered) fillHelper() []byte {
	if w.space.mems == 0 {
		return []byte{0, opUnreachable, opEnd}
	}
	out := []byte{0}
	out = w.guard(out, 0, fillOp)
	out = append(out, opLoop, 0x40)
	out = longerThanPiece(out)
	out = appendS64(append(out, opLocalGet, 0, opLocalGet, 1, opI32Const), piece)
	out = append(out, fillOp...)
	out = advance(out, 0, 0x6a)
	out = advance(out, 2, 0x6b)
	out = w.chargePiece(out)
	out = append(out, opBr, 1, opEnd, opEnd)
	return w.rest(out, fillOp)
}

func (w *metered) copyHelper() []byte {
	if w.space.mems == 0 {
		return []byte{0, opUnreachable, opEnd}
	}
	out := []byte{0}
	out = w.guard(out, 0, copyOp)
	out = w.guard(out, 1, copyOp)
	out = append(out, opLocalGet, 0, opLocalGet, 1, 0x4d, opIf, 0x40) // i32.le_u: forwards
	out = append(out, opLoop, 0x40)
	out = longerThanPiece(out)
	out = appendS64(append(out, opLocalGet, 0, opLocalGet, 1, opI32Const), piece)
	out = append(out, copyOp...)
	out = advance(out, 0, 0x6a)
	out = advance(out, 1, 0x6a)
	out = advance(out, 2, 0x6b)
	out = w.chargePiece(out)
	out = append(out, opBr, 1, opEnd, opEnd)
	out = append(out, opElse) // backwards: the ranges may overlap
	out = append(out, opLoop, 0x40)
	out = longerThanPiece(out)
	out = advance(out, 2, 0x6b)
	out = append(out, opLocalGet, 0, opLocalGet, 2, 0x6a, opLocalGet, 1, opLocalGet, 2, 0x6a, opI32Const)
	out = append(appendS64(out, piece), copyOp...)
	out = w.chargePiece(out)
	out = append(out, opBr, 1, opEnd, opEnd)
	out = append(out, opEnd)
	return w.rest(out, copyOp)
}

// guard does the whole operation, which traps, when the range at the address in
// the given local leaves the memory: nothing may be written then.
func (w *metered) guard(out []byte, local byte, op []byte) []byte {
	out = append(out, opLocalGet, local, 0xad, opLocalGet, 2, 0xad, 0x7c, // i64.extend_i32_u, i64.add
		opMemorySize, 0, 0xad, opI64Const, 16, 0x86, // i64.shl
		0x56, opIf, 0x40) // i64.gt_u
	out = append(out, opLocalGet, 0, opLocalGet, 1, opLocalGet, 2)
	return append(append(out, op...), opUnreachable, opEnd)
}

func longerThanPiece(out []byte) []byte {
	out = appendS64(append(out, opLocalGet, 2, opI32Const), piece)
	return append(out, 0x4b, opIf, 0x40) // i32.gt_u
}

func advance(out []byte, local, op byte) []byte {
	out = appendS64(append(out, opLocalGet, local, opI32Const), piece)
	return append(out, op, opLocalSet, local)
}

func (w *metered) chargePiece(out []byte) []byte {
	out = appendS64(append(out, opI32Const), piece)
	return append(appendU32(append(out, opCall), w.charge), 0x1a) // drop
}

func (w *metered) rest(out []byte, op []byte) []byte {
	out = append(out, opLocalGet, 0, opLocalGet, 1, opLocalGet, 2)
	out = appendU32(append(out, opCall), w.charge)
	return append(append(out, op...), opEnd)
}

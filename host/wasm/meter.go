package wasm

import "unicode/utf8"

// The rewriter's own names in a metered module. A module that uses them itself
// was refused by the pre-scan.
const (
	reservedPrefix = "engine_"
	moduleMeter    = "engine_meter"
	meterTick      = "tick"
	exportLeft     = "engine_left"
)

// meterVersion changes whenever the same module is rewritten differently; it is
// part of the name of a cache entry.
const meterVersion = "4"

const (
	// quantum is how much is spent between two looks at the deadline: about a
	// millisecond of ordinary code.
	quantum = 1_000_000
	// maxDepth bounds the calls open at once, weighted by their frames. The
	// compiler's own stack limit would be met after 160 MiB.
	maxDepth = 10_000
	// piece is how much a bulk operation does between two charges.
	piece = 1 << 20
)

// What is left is one global, so that a call charges and counts in one step: the fuel
// above the frames. Fuel that is used up makes it negative, too many frames set the
// bit tooDeep.
const (
	frameBits = 20
	tooDeep   = 1 << (frameBits - 1)
	noFrames  = tooDeep - maxDepth
	allLeft   = quantum<<frameBits | noFrames
)

// left is what the global says.
type left int64

func (l left) fuel() int64 { return int64(l) >> frameBits }

// filled is l with the fuel of a quantum.
func (l left) filled() left { return quantum<<frameBits | l&(1<<frameBits-1) }

// What instructions cost that are not a unit. A unit is of the order of a
// nanosecond.
const (
	costCallHost     = 200
	costCallIndirect = 10
	costMemoryGrow   = 1_000
)

// metered is a rewriting in progress. Indices of the new module: functions
// imported by the original keep theirs, tick comes next, all others move up by
// one; types, globals and functions that are added come after the original's.
type metered struct {
	*module
	tick, charge, fill, copy uint32 // functions
	left                     uint32 // a global
	typeTick, typeCharge     uint32
	typeBulk                 uint32
	extraTypes               []byte
	extraCount               uint32
	blockTypes               [][]byte // per type: the block type of its results
	costs                    []int
	loops                    []int
	open                     []bool
}

// meter rewrites the module so that it pays for what it does: a global is
// charged at function entries and loop headers, calls are counted as they
// nest, bulk operations work in pieces, and when the global is used up the
// import engine_meter.tick is called. What the module computes is unchanged.
func (m *module) meter() []byte {
	w := &metered{module: m}
	w.tick = m.imported
	w.charge = m.space.funcs + 1
	w.fill, w.copy = w.charge+1, w.charge+2
	w.left = m.space.globals
	w.addTypes()

	bodies := map[byte][]byte{}
	for _, s := range m.sections {
		if s.id != 0 {
			bodies[s.id] = s.body
		}
	}
	out := make([]byte, 0, len(m.bytes)+len(m.bytes)/2)
	out = append(out, m.bytes[:8]...)
	emit := func(id byte, body []byte) {
		out = append(out, id)
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	for _, id := range []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		body, has := bodies[id]
		switch id {
		case 1:
			emit(id, extend(body, w.extraCount, w.extraTypes))
		case 2:
			emit(id, extend(body, 1, appendU32(append(appendName(appendName(nil, moduleMeter), meterTick), kindFunc), w.typeTick)))
		case 3:
			emit(id, extend(body, 3, appendU32(appendU32(appendU32(nil, w.typeCharge), w.typeBulk), w.typeBulk)))
		case 6:
			emit(id, w.globals(body))
		case 7:
			emit(id, w.exportSection(body))
		case 10:
			emit(id, w.code(body))
		case 11:
			if _, counted := bodies[12]; has && !counted {
				body = w.data(body)
			}
			if has {
				emit(id, body)
			}
		case 4, 8, 9:
			if has {
				emit(id, map[byte]func([]byte) []byte{4: w.tables, 8: w.start, 9: w.elements}[id](body))
			}
		default:
			if has {
				emit(id, body)
			}
		}
	}
	if names := w.functionNames(); names != nil {
		sub := append(appendU32([]byte{1}, uint32(len(names))), names...)
		emit(0, append(appendName(nil, "name"), sub...))
	}
	return out
}

// function maps a function index of the original.
func (w *metered) function(i uint32) uint32 {
	if i >= w.imported {
		return i + 1
	}
	return i
}

// extend appends n items to a vector.
func extend(body []byte, n uint32, items []byte) []byte {
	have, rest := uint32(0), body
	if len(body) > 0 {
		r := &reader{b: body}
		have = r.u32()
		rest = body[r.p:]
	}
	out := append(appendU32(make([]byte, 0, len(body)+len(items)+5), have+n), rest...)
	return append(out, items...)
}

// addTypes appends the helpers' types, and for each type with several results
// one without parameters: a body is wrapped in a block that has its results.
func (w *metered) addTypes() {
	n := w.space.types
	w.typeTick, w.typeCharge, w.typeBulk = n, n+1, n+2
	w.extraTypes = []byte{
		0x60, 0, 0,
		0x60, 1, 0x7f, 1, 0x7f,
		0x60, 3, 0x7f, 0x7f, 0x7f, 0,
	}
	w.extraCount = 3
	multi := map[string][]byte{}
	w.blockTypes = make([][]byte, len(w.types))
	for i, t := range w.types {
		switch len(t.results) {
		case 0:
			w.blockTypes[i] = []byte{0x40}
		case 1:
			w.blockTypes[i] = t.results
		default:
			bt, ok := multi[string(t.results)]
			if !ok {
				bt = appendS64(nil, int64(n+w.extraCount))
				multi[string(t.results)] = bt
				w.extraCount++
				w.extraTypes = append(appendU32(append(w.extraTypes, 0x60, 0), uint32(len(t.results))), t.results...)
			}
			w.blockTypes[i] = bt
		}
	}
}

// tables gives every table a maximum: table.grow beyond it returns -1.
func (w *metered) tables(body []byte) []byte {
	r := &reader{b: body}
	n := r.u32()
	out := appendU32(nil, n)
	for range n {
		out = append(out, r.byte(), 1)
		minimum, maximum, hasMax := r.limits("table")
		if !hasMax || maximum > maxTable {
			maximum = maxTable
		}
		out = appendU32(appendU32(out, minimum), maximum)
	}
	return out
}

func (w *metered) globals(body []byte) []byte {
	e := &emitter{w: w}
	n := uint32(0)
	if len(body) > 0 {
		r := &reader{b: body}
		n = r.u32()
		for range n {
			e.out = append(e.out, r.bytes(2)...)
			constExpr(r, &w.space, e)
		}
	}
	out := append(appendU32(nil, n+1), e.out...)
	return append(appendS64(append(out, 0x7e, 1, opI64Const), allLeft), opEnd)
}

func (w *metered) exportSection(body []byte) []byte {
	var out []byte
	n := uint32(0)
	if len(body) > 0 {
		r := &reader{b: body}
		n = r.u32()
		for range n {
			out = append(out, appendName(nil, r.name())...)
			kind, index := r.byte(), r.u32()
			if kind == kindFunc {
				index = w.function(index)
			}
			out = appendU32(append(out, kind), index)
		}
	}
	out = appendU32(append(appendName(out, exportLeft), kindGlobal), w.left)
	return append(appendU32(nil, n+1), out...)
}

func (w *metered) start(body []byte) []byte {
	r := &reader{b: body}
	return appendU32(nil, w.function(r.u32()))
}

func (w *metered) elements(body []byte) []byte {
	r := &reader{b: body}
	n := r.u32()
	e := &emitter{w: w, out: appendU32(nil, n)}
	for range n {
		element(r, &w.space, e)
	}
	return e.out
}

// emitter copies what constExpr and element read, with function indices moved.
// A nil emitter only reads.
type emitter struct {
	w   *metered
	out []byte
}

func (e *emitter) raw(b []byte) {
	if e != nil {
		e.out = append(e.out, b...)
	}
}

func (e *emitter) function(i uint32) {
	if e != nil {
		e.out = appendU32(e.out, e.w.function(i))
	}
}

func constExpr(r *reader, s *space, e *emitter) {
	var in instr
	for r.err == nil {
		next(r, s, &in)
		switch {
		case r.err != nil:
			return
		case in.op == opEnd:
			e.raw([]byte{opEnd})
			return
		case in.op == opRefFunc:
			e.raw([]byte{opRefFunc})
			e.function(in.index)
			continue
		case in.op >= opI32Const && in.op <= 0x44, in.op == opGlobalGet, in.op == opRefNull,
			in.op >= 0x6a && in.op <= 0x6c, in.op >= 0x7c && in.op <= 0x7e, // add, sub, mul of extended const
			in.op == opPrefixFD && in.sub == 12:
		default:
			r.fail("instruction %#02x in a constant expression", in.op)
			return
		}
		e.raw(r.b[in.from:in.to])
	}
}

// element reads one element segment. Bit 0 of its flags: not active; bit 1: has
// a table index, or is declarative; bit 2: expressions instead of indices.
func element(r *reader, s *space, e *emitter) {
	from := r.p
	flags := r.u32()
	if flags > 7 {
		r.fail("an element segment with unknown flags %d", flags)
		return
	}
	if flags&1 == 0 && flags&2 != 0 {
		r.index("table", s.tables)
	}
	e.raw(r.b[from:r.p])
	if flags&1 == 0 {
		constExpr(r, s, e)
	}
	from = r.p
	if flags&3 != 0 {
		r.byte()
	}
	n := r.count("elements", 1<<31)
	e.raw(r.b[from:r.p])
	for ; n > 0 && r.err == nil; n-- {
		if flags&4 != 0 {
			constExpr(r, s, e)
		} else {
			e.function(r.index("function", s.funcs))
		}
	}
}

// functionNames is the function part of the name section with moved indices,
// or nil if there is none or it does not keep to the rules; traces use it.
func (w *metered) functionNames() []byte {
	if w.names == nil {
		return nil
	}
	r := &reader{b: w.names}
	n := r.count("names", w.space.funcs)
	out := appendU32(nil, n)
	last := int64(-1)
	for range n {
		i, name := r.u32(), r.name()
		if r.err != nil || int64(i) <= last || i >= w.space.funcs || !utf8.ValidString(name) {
			return nil
		}
		last = int64(i)
		out = appendName(appendU32(out, w.function(i)), name)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	return out
}

package wasm

// Opcodes this package names.
const (
	opUnreachable    = 0x00
	opBlock          = 0x02
	opLoop           = 0x03
	opIf             = 0x04
	opElse           = 0x05
	opEnd            = 0x0b
	opBr             = 0x0c
	opBrIf           = 0x0d
	opBrTable        = 0x0e
	opReturn         = 0x0f
	opCall           = 0x10
	opCallIndirect   = 0x11
	opReturnCall     = 0x12
	opReturnIndirect = 0x13
	opSelectTyped    = 0x1c
	opLocalGet       = 0x20
	opLocalSet       = 0x21
	opLocalTee       = 0x22
	opGlobalGet      = 0x23
	opGlobalSet      = 0x24
	opTableGet       = 0x25
	opTableSet       = 0x26
	opMemorySize     = 0x3f
	opMemoryGrow     = 0x40
	opI32Const       = 0x41
	opI64Const       = 0x42
	opRefNull        = 0xd0
	opRefFunc        = 0xd2
	opPrefixFC       = 0xfc
	opPrefixFD       = 0xfd
)

// Second bytes after opPrefixFC.
const (
	fcMemoryInit = 8
	fcDataDrop   = 9
	fcMemoryCopy = 10
	fcMemoryFill = 11
	fcTableInit  = 12
	fcElemDrop   = 13
	fcTableCopy  = 14
	fcTableGrow  = 15
	fcTableSize  = 16
	fcTableFill  = 17
)

// instr is one decoded instruction.
type instr struct {
	op       byte
	sub      uint32 // after a prefix
	index    uint32 // of what call, call_indirect (its type), ref.func name
	from, to int    // its bytes in the reader
}

// space is what a module declares, so that an instruction that names something
// undeclared is refused: after rewriting the index might mean the meter.
type space struct {
	types, funcs, tables, globals, mems uint32
	elems, datas                        uint32
}

// next decodes the instruction at r. It refuses what it does not know: an
// unknown instruction cannot be charged for. An error is in r.err.
func next(r *reader, s *space, in *instr) {
	in.from = r.p
	in.op = r.byte()
	in.sub, in.index = 0, 0
	switch op := in.op; {
	case op == opBlock || op == opLoop || op == opIf:
		if t := r.s33(); t >= int64(s.types) {
			r.fail("type %d is not declared", t)
		}
	case op == opBr || op == opBrIf:
		r.u32()
	case op == opBrTable:
		for n := r.count("br_table targets", maxBrTable); n > 0 && r.err == nil; n-- {
			r.u32()
		}
		r.u32()
	case op == opCall || op == opReturnCall || op == opRefFunc:
		in.index = r.index("function", s.funcs)
	case op == opCallIndirect || op == opReturnIndirect:
		in.index = r.index("type", s.types)
		r.index("table", s.tables)
	case op == opSelectTyped:
		for n := r.count("select types", 1000); n > 0; n-- {
			r.byte()
		}
	case op >= opLocalGet && op <= opLocalTee:
		r.u32()
	case op == opGlobalGet || op == opGlobalSet:
		r.index("global", s.globals)
	case op == opTableGet || op == opTableSet:
		r.index("table", s.tables)
	case op >= 0x28 && op <= 0x3e:
		r.memarg(s)
	case op == opMemorySize || op == opMemoryGrow:
		r.index("memory", s.mems)
	case op == opI32Const:
		r.skipLEB(5)
	case op == opI64Const:
		r.skipLEB(10)
	case op == 0x43: // f32.const
		r.bytes(4)
	case op == 0x44: // f64.const
		r.bytes(8)
	case op == opRefNull:
		r.skipLEB(5)
	case op == opPrefixFC:
		nextFC(r, s, in)
	case op == opPrefixFD:
		nextFD(r, s, in)
	case op <= 0x01, op == opElse, op == opEnd, op == opReturn, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		r.fail("instruction %#02x belongs to exception handling, which is not supported; build with -fno-exceptions", op)
	case op == 0xfe:
		r.fail("instruction %#02x belongs to threads, which are not supported; build without -pthread", op)
	default:
		r.fail("instruction %#02x is not known", op)
	}
	in.to = r.p
}

func nextFC(r *reader, s *space, in *instr) {
	in.sub = r.u32()
	switch in.sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating truncation
	case fcMemoryInit:
		r.index("data segment", s.datas)
		r.index("memory", s.mems)
	case fcDataDrop:
		r.index("data segment", s.datas)
	case fcMemoryCopy:
		r.index("memory", s.mems)
		r.index("memory", s.mems)
	case fcMemoryFill:
		r.index("memory", s.mems)
	case fcTableInit:
		r.index("element segment", s.elems)
		r.index("table", s.tables)
	case fcElemDrop:
		r.index("element segment", s.elems)
	case fcTableCopy:
		r.index("table", s.tables)
		r.index("table", s.tables)
	case fcTableGrow, fcTableSize, fcTableFill:
		r.index("table", s.tables)
	default:
		r.fail("instruction 0xfc %d is not known", in.sub)
	}
}

func nextFD(r *reader, s *space, in *instr) {
	in.sub = r.u32()
	switch sub := in.sub; {
	case sub <= 11, sub == 92, sub == 93: // loads and stores
		r.memarg(s)
	case sub == 12, sub == 13: // v128.const, i8x16.shuffle
		r.bytes(16)
	case sub >= 21 && sub <= 34: // lanes
		r.byte()
	case sub >= 84 && sub <= 91: // loads and stores of a lane
		r.memarg(s)
		r.byte()
	case sub > 255:
		r.fail("instruction 0xfd %d belongs to relaxed SIMD, which is not supported; build without -mrelaxed-simd", sub)
	}
}

func (r *reader) index(what string, n uint32) uint32 {
	i := r.u32()
	if r.err == nil && i >= n {
		r.fail("%s %d is not declared", what, i)
	}
	return i
}

func (r *reader) memarg(s *space) {
	if align := r.u32(); align >= 32 {
		r.fail("an instruction names one of several memories; multi-memory is not supported")
	}
	r.u32()
	if r.err == nil && s.mems == 0 {
		r.fail("an instruction uses a memory, none is declared")
	}
}

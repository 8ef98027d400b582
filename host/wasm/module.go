package wasm

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// Ceilings on what a module may declare. They bound what compiling it costs;
// wazero checks a count only after it has allocated for it (a module of 16
// bytes can announce 2^31 functions).
const (
	maxModule   = 32 << 20
	maxTypes    = 100_000
	maxParams   = 1_000
	maxImports  = 10_000
	maxFuncs    = 100_000
	maxTables   = 4
	maxTable    = 100_000
	maxGlobals  = 100_000
	maxExports  = 100_000
	maxSegments = 100_000
	maxSections = 10_000
	maxMemory   = 1024 << 20 // bytes
	memoryPage  = 64 << 10   // bytes

	// Of one function. The compiler is worse than linear in them: 10,000 branches
	// over 1,000 locals take it 17 s, 10,000 loops 98 s, 4,000 loops over 4,000
	// locals 50 s and 2 GB (measured with wazero 1.12). The largest functions of
	// Go's own compiler and net/http have 2,500 control instructions, 20 locals
	// and a nesting of 1,100.
	maxBody    = 2 << 20 // bytes
	maxLocals  = 5_000
	maxNesting = 4_096
	maxBrTable = 4_096
	maxControl = 10_000
	maxLoops   = 1_000
	maxBranchy = 1_000_000 // control instructions times locals: at most about 2 s of compiling

	// maxBranchySum bounds the same over the whole module; all of Go's net/http
	// has 2.1 million.
	maxBranchySum = 16_000_000
)

var magic = []byte("\x00asm")

type section struct {
	id   byte
	body []byte
}

type funcType struct{ params, results []byte }

type export struct {
	name  string
	kind  byte
	index uint32
}

// Kinds of imports and exports.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
)

// module is a binary module that the pre-scan has accepted: every section and
// instruction was decoded and every limit holds. It may still be invalid
// (types are not checked). It shares the memory of the bytes it was made of.
type module struct {
	bytes    []byte
	sections []section
	space    space
	types    []funcType
	imported uint32   // functions imported; they come first in the index space
	imports  []uint32 // their types
	funcs    []uint32 // types of the functions defined here
	exports  map[string]export
	memMin   uint32 // pages
	manifest []byte // custom section engine.step, nil if there is none
	names    []byte // the function names of the name section, nil if there are none
	isWASI   bool   // imports wasi_snapshot_preview1

}

// refused says why a module cannot be used and what to do about it.
func refused(reason, hint string) error {
	if hint == "" {
		return fmt.Errorf("%s", reason)
	}
	return fmt.Errorf("%s; %s", reason, hint)
}

// parse is the pre-scan: it reads the whole module, bounded in time and space
// by its length, and refuses what the engine does not run.
func parse(b []byte) (*module, error) {
	switch {
	case len(b) < 8 || !bytes.HasPrefix(b, magic):
		return nil, refused("not a Wasm module", "")
	case len(b) > maxModule:
		return nil, refused(fmt.Sprintf("the module has %d bytes, the limit is %d", len(b), maxModule), "build with -Os and strip it")
	case b[6] == 1 && b[4] != 1:
		return nil, refused("the file is a component (component model)", "build a core module for wasm32-wasip1, or take it out of the component with `wasm-tools component unbundle`")
	case !bytes.Equal(b[4:8], []byte{1, 0, 0, 0}):
		return nil, refused(fmt.Sprintf("binary version %x is not known", b[4:8]), "build for wasm32-wasip1")
	}
	m := &module{bytes: b, exports: map[string]export{}}
	if err := m.split(); err != nil {
		return nil, err
	}
	var code []byte
	for _, s := range m.sections {
		r := &reader{b: s.body}
		switch s.id {
		case 0:
			m.custom(r)
			continue
		case 1:
			m.readTypes(r)
		case 2:
			m.readImports(r)
		case 3:
			for n := r.count("functions", maxFuncs); n > 0 && r.err == nil; n-- {
				m.funcs = append(m.funcs, r.index("type", m.space.types))
			}
			m.space.funcs = m.imported + uint32(len(m.funcs))
		case 4:
			m.readTables(r)
		case 5:
			m.readMemories(r)
		case 6:
			m.readGlobals(r)
		case 7:
			m.readExports(r)
		case 8:
			r.index("function", m.space.funcs)
		case 9:
			m.readElements(r)
		case 12:
			m.space.datas = r.u32()
			if m.space.datas > maxSegments {
				r.fail("%d data segments, the limit is %d", m.space.datas, maxSegments)
			}
		case 10:
			code = s.body
			continue
		case 11:
			m.readData(r)
		}
		if r.err == nil && r.left() > 0 {
			r.fail("%d bytes too many", r.left())
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s section: %w", sectionNames[s.id], r.err)
		}
	}
	if err := m.readCode(code); err != nil {
		return nil, fmt.Errorf("code section: %w", err)
	}
	return m, nil
}

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count"}

// sectionOrder is the place of each section id in a module.
var sectionOrder = [...]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 10}

func (m *module) split() error {
	r := &reader{b: m.bytes, p: 8}
	last := 0
	for r.left() > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		switch {
		case r.err != nil:
			return r.err
		case id == 13:
			return refused("the module declares exception tags", "exception handling is not supported; build with -fno-exceptions")
		case int(id) >= len(sectionOrder):
			return refused(fmt.Sprintf("section %d is not known", id), "")
		case len(m.sections) == maxSections:
			return refused(fmt.Sprintf("more than %d sections", maxSections), "")
		}
		if id != 0 {
			if sectionOrder[id] <= last {
				return refused(fmt.Sprintf("the %s section is out of order", sectionNames[id]), "")
			}
			last = sectionOrder[id]
		}
		m.sections = append(m.sections, section{id, body})
	}
	return nil
}

// custom keeps the manifest and the function names. A custom section that
// cannot be read is ignored, as the specification says.
func (m *module) custom(r *reader) {
	switch name := r.name(); {
	case r.err != nil:
	case name == sdk.ManifestSection && m.manifest == nil:
		m.manifest = r.b[r.p:]
	case name == "name":
		for r.left() > 0 && r.err == nil {
			id := r.byte()
			if body := r.bytes(r.u32()); id == 1 && r.err == nil {
				m.names = body
			}
		}
	}
}

func (m *module) readTypes(r *reader) {
	n := r.count("types", maxTypes)
	for ; n > 0 && r.err == nil; n-- {
		if c := r.byte(); r.err == nil && c != 0x60 {
			r.fail("type %#02x is not a function type; garbage collection is not supported", c)
		}
		params := r.bytes(r.count("parameters", maxParams))
		m.types = append(m.types, funcType{params, r.bytes(r.count("results", maxParams))})
	}
	m.space.types = uint32(len(m.types))
}

func (m *module) readImports(r *reader) {
	for n := r.count("imports", maxImports); n > 0 && r.err == nil; n-- {
		mod, name, kind := r.name(), r.name(), r.byte()
		if r.err != nil {
			return
		}
		var t uint32
		if kind == kindFunc {
			t = r.index("type", m.space.types)
		}
		if r.err == nil {
			r.err = m.checkImport(mod, name, kind, t)
		}
		m.imports = append(m.imports, t)
		m.imported++
	}
	m.space.funcs = m.imported
}

func (m *module) checkImport(mod, name string, kind byte, t uint32) error {
	full := fmt.Sprintf("%q.%q", mod, name)
	switch {
	case mod == moduleABI && kind == kindFunc:
		want, ok := abiTypes[name]
		if !ok {
			return refused("import "+full+" is not known", "engine_v1 has read, write and call")
		}
		if got := m.types[t]; string(got.params) != want.params || string(got.results) != want.results {
			return refused("import "+full+" has the wrong type", "want "+want.text)
		}
		return nil
	case mod == moduleWASI && kind == kindFunc && wasiNames[name]:
		m.isWASI = true
		return nil
	case mod == moduleWASI && strings.HasPrefix(name, "sock_"):
		return refused("import "+full+" opens sockets", "a module has no network; use the host operation http")
	case mod == "wasi_unstable":
		return refused("import "+full+" is of a WASI before preview 1", "the toolchain is too old; build for wasm32-wasip1 (wasi-sdk 8 or later)")
	case mod == "env" && kind == kindMemory:
		return refused("import "+full+" brings its memory from outside", "build without --import-memory and -pthread")
	case mod == "env":
		return refused("import "+full+" is not known", "it comes from emscripten or an undefined symbol; build for wasm32-wasip1 with wasi-sdk, and define what is missing")
	case strings.HasPrefix(mod, "engine_"):
		return refused("import "+full+" is not known", "modules beginning engine_ are the engine's; this engine has engine_v1")
	case strings.HasPrefix(mod, "wasi:"):
		return refused("import "+full+" is of WASI preview 2", "build for wasm32-wasip1")
	}
	return refused("import "+full+" is not known", "a module may import wasi_snapshot_preview1 and engine_v1")
}

// limits reads the limits of a table or memory.
func (r *reader) limits(what string) (minimum uint32, maximum uint32, hasMax bool) {
	flags := r.byte()
	switch {
	case r.err != nil:
	case flags&2 != 0:
		r.fail("a shared %s; threads are not supported, build without -pthread", what)
	case flags&4 != 0:
		r.fail("a %s with 64-bit addresses; memory64 is not supported, build for wasm32", what)
	case flags > 1:
		r.fail("a %s with unknown flags %#02x", what, flags)
	}
	minimum = r.u32()
	if flags&1 != 0 {
		maximum, hasMax = r.u32(), true
	}
	return minimum, maximum, hasMax
}

func (m *module) readTables(r *reader) {
	n := r.count("tables", maxTables)
	for ; n > 0 && r.err == nil; n-- {
		if t := r.byte(); r.err == nil && t != 0x70 && t != 0x6f {
			r.fail("table of type %#02x is not known", t)
		}
		if minimum, _, _ := r.limits("table"); minimum > maxTable {
			r.fail("a table of %d entries, the limit is %d", minimum, maxTable)
		}
		m.space.tables++
	}
}

func (m *module) readMemories(r *reader) {
	n := r.count("memories", 1_000)
	if n > 1 {
		r.fail("%d memories; multi-memory is not supported", n)
	}
	if n == 0 || r.err != nil {
		return
	}
	m.space.mems = 1
	m.memMin, _, _ = r.limits("memory")
	if int64(m.memMin)*memoryPage > maxMemory {
		r.fail("a minimum memory of %d MiB, the limit is %d MiB; build with a smaller initial memory", int64(m.memMin)*memoryPage>>20, maxMemory>>20)
	}
}

func (m *module) readGlobals(r *reader) {
	n := r.count("globals", maxGlobals)
	for ; n > 0 && r.err == nil; n-- {
		r.bytes(2)
		constExpr(r, &m.space, nil)
		m.space.globals++
	}
}

func (m *module) readExports(r *reader) {
	for n := r.count("exports", maxExports); n > 0 && r.err == nil; n-- {
		e := export{name: r.name(), kind: r.byte()}
		switch e.kind {
		case kindFunc:
			e.index = r.index("function", m.space.funcs)
		case kindTable:
			e.index = r.index("table", m.space.tables)
		case kindMemory:
			e.index = r.index("memory", m.space.mems)
		case kindGlobal:
			e.index = r.index("global", m.space.globals)
		default:
			r.fail("export %q is of kind %d, which is not known", e.name, e.kind)
		}
		if strings.HasPrefix(e.name, reservedPrefix) {
			r.fail("export %q: names beginning %s are the engine's; rename it", e.name, reservedPrefix)
		}
		if _, dup := m.exports[e.name]; dup {
			r.fail("export %q appears twice", e.name)
		}
		m.exports[e.name] = e
	}
}

func (m *module) readElements(r *reader) {
	n := r.count("element segments", maxSegments)
	for ; n > 0 && r.err == nil; n-- {
		element(r, &m.space, nil)
		m.space.elems++
	}
}

func (m *module) readData(r *reader) {
	for n := r.count("data segments", maxSegments); n > 0 && r.err == nil; n-- {
		switch flags := r.u32(); flags {
		case 0:
			constExpr(r, &m.space, nil)
		case 1:
		case 2:
			r.index("memory", m.space.mems)
			constExpr(r, &m.space, nil)
		default:
			r.fail("a data segment with unknown flags %d", flags)
		}
		r.bytes(r.u32())
	}
}

// readCode decodes every instruction and checks the limits of each function.
func (m *module) readCode(code []byte) error {
	r := &reader{b: code}
	n := uint32(0)
	if code != nil {
		n = r.count("function bodies", maxFuncs)
	}
	if r.err == nil && int(n) != len(m.funcs) {
		r.fail("%d bodies for %d functions", n, len(m.funcs))
	}
	branchy := 0
	for i := range n {
		body := r.bytes(r.u32())
		if r.err == nil && len(body) > maxBody {
			r.fail("a body of %d bytes, the limit is %d", len(body), maxBody)
		}
		if r.err == nil {
			b := &reader{b: body}
			branchy += scanBody(b, &m.space, len(m.types[m.funcs[i]].params))
			r.err = b.err
		}
		if branchy > maxBranchySum {
			r.fail("the module's functions have too many control instructions and locals; use fewer or smaller functions")
		}
		if r.err != nil {
			return fmt.Errorf("function %d: %w", m.imported+i, r.err)
		}
	}
	if r.err == nil && r.left() > 0 {
		r.fail("%d bytes too many", r.left())
	}
	return r.err
}

// locals reads the declarations at the head of a body and counts them.
func locals(r *reader) (total uint32) {
	for n := r.count("groups of locals", maxLocals); n > 0 && r.err == nil; n-- {
		c := r.u32()
		r.byte()
		if c > maxLocals || total+c > maxLocals {
			r.fail("more than %d locals; split the function", maxLocals)
		}
		total += c
	}
	return total
}

// scanBody decodes a body and returns its control instructions times locals.
func scanBody(r *reader, s *space, params int) (branchy int) {
	vars := int(locals(r)) + params
	depth, control, loops := 1, 0, 0
	var in instr
	for depth > 0 && r.err == nil {
		next(r, s, &in)
		switch in.op {
		case opBlock, opLoop, opIf:
			if depth++; depth > maxNesting {
				r.fail("blocks nest deeper than %d; split the function", maxNesting)
			}
			control++
			if in.op == opLoop {
				loops++
			}
		case opEnd:
			depth--
		case opElse, opBr, opBrIf, opBrTable:
			control++
		}
		switch branchy = control * vars; {
		case control > maxControl:
			r.fail("more than %d control instructions; split the function", maxControl)
		case loops > maxLoops:
			r.fail("more than %d loops; split the function", maxLoops)
		case branchy > maxBranchy:
			r.fail("%d control instructions with %d locals; split the function", control, vars)
		}
	}
	if r.err == nil && r.left() > 0 {
		r.fail("%d bytes after the end", r.left())
	}
	return branchy
}

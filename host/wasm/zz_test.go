package wasm

import (
	"fmt"
	"os"
	"testing"
)

func TestZZ(t *testing.T) {
	for _, f := range []string{"/tmp/g/gocmd.wasm", "/tmp/g/nethttp.wasm", "/tmp/g/big.wasm"} {
		b, _ := os.ReadFile(f)
		m := &module{bytes: b, exports: map[string]export{}}
		if err := m.split(); err != nil {
			t.Fatal(err)
		}
		var code []byte
		for _, s := range m.sections {
			r := &reader{b: s.body}
			switch s.id {
			case 1:
				m.readTypes(r)
			case 2:
				m.readImports(r)
			case 3:
				for n := r.u32(); n > 0; n-- {
					m.funcs = append(m.funcs, r.u32())
				}
				m.space.funcs = m.imported + uint32(len(m.funcs))
			case 4:
				m.readTables(r)
			case 5:
				m.readMemories(r)
			case 6:
				m.readGlobals(r)
			case 9:
				m.readElements(r)
			case 10:
				code = s.body
			case 12:
				m.space.datas = r.u32()
			}
		}
		r := &reader{b: code}
		n := r.u32()
		var sum, mp, md, mc, mb, ml, mt int
		for i := uint32(0); i < n; i++ {
			body := r.bytes(r.u32())
			q := &reader{b: body}
			l := locals(q)
			ml = max(ml, int(l))
			mb = max(mb, len(body))
			d, c := 1, 0
			var in instr
			for d > 0 && q.err == nil {
				next(q, &m.space, &in)
				switch in.op {
				case opBlock, opLoop, opIf:
					d++
					md = max(md, d)
					c++
				case opEnd:
					d--
				case opElse, opBr, opBrIf, opBrTable:
					c++
					if in.op == opBrTable {
						mt = max(mt, in.to-in.from)
					}
				}
			}
			if q.err != nil {
				fmt.Println(q.err)
			}
			mc = max(mc, c)
			pr := c * (int(l) + len(m.types[m.funcs[i]].params))
			sum += pr
			mp = max(mp, pr)
		}
		fmt.Println(f, "nest", md, "control", mc, "body", mb, "locals", ml, "brtable bytes", mt, "funcs", n, "sum", sum, "maxprod", mp)
	}
}

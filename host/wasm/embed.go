package wasm

import (
	"errors"
	"fmt"

	"github.com/retrace-dev/engine/sdk"
)

// Embed returns the module with the manifest as its custom section
// sdk.ManifestSection, in place of any it has. Both are looked at as Loader.Open
// does, so that what Embed returns is accepted there; neither slice is changed.
func Embed(b, manifest []byte) ([]byte, error) {
	if _, err := sdk.ParseManifest(manifest); err != nil {
		return nil, err
	}
	m, err := parseModule(b)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	out := append(make([]byte, 0, len(b)+len(manifest)+32), b[:8]...)
	for _, s := range m.sections {
		if !s.isManifest() {
			out = appendSection(out, s.id, s.body)
		}
	}
	body := append(appendU32(nil, uint32(len(sdk.ManifestSection))), sdk.ManifestSection...)
	out = appendSection(out, 0, append(body, manifest...))
	if len(out) > maxModule {
		return nil, fmt.Errorf("module: with its manifest it has %d bytes, the limit is %d", len(out), maxModule)
	}
	return out, nil
}

func (s section) isManifest() bool {
	r := &reader{b: s.body}
	return s.id == 0 && r.name() == sdk.ManifestSection && r.err == nil
}

func appendSection(b []byte, id byte, body []byte) []byte {
	return append(appendU32(append(b, id), uint32(len(body))), body...)
}

// Description is what can be told of a module without compiling it.
type Description struct {
	Command bool     // exports _start; else a reactor
	Imports []string // "module.name", in their order
	Exports []string // in their order
	Memory  int64    // bytes it begins with
	Size    int64    // bytes of the module
	// Refused says why the engine does not run it, with what to do; nil if it
	// does. What was read before the reason is described all the same.
	Refused error
}

// Describe looks at a module as Loader.Open does. It accepts any bytes, in time
// bounded by their number.
func Describe(b []byte) *Description {
	d := &Description{Size: int64(len(b))}
	m, err := parseModule(b)
	if err != nil {
		d.Refused = err
		if m, err = splitOnly(b); err != nil {
			return d
		}
	}
	for _, s := range m.sections {
		r := &reader{b: s.body}
		switch s.id {
		case 2:
			d.Imports = importNames(r)
		case 5:
			if r.count("memories", 1) == 1 {
				pages, _, _ := r.limits("memory")
				d.Memory = int64(pages) * memoryPage
			}
		case 7:
			d.Exports = exportNames(r)
		}
	}
	for _, name := range d.Exports {
		d.Command = d.Command || name == "_start"
	}
	return d
}

// splitOnly reads the sections of a module that was refused.
func splitOnly(b []byte) (*module, error) {
	if len(b) < 8 || string(b[:8]) != "\x00asm\x01\x00\x00\x00" {
		return nil, errors.New("not a core module")
	}
	m := &module{bytes: b}
	return m, m.split()
}

// importNames lists imports up to the first that cannot be read.
func importNames(r *reader) (names []string) {
	for n := r.count("imports", maxImports); n > 0; n-- {
		mod, name := r.name(), r.name()
		switch r.byte() {
		case kindFunc:
			r.u32()
		case kindTable:
			r.byte()
			r.limits("table")
		case kindMemory:
			r.limits("memory")
		case kindGlobal:
			r.bytes(2)
		default:
			r.fail("an import of unknown kind")
		}
		if r.err != nil {
			break
		}
		names = append(names, mod+"."+name)
	}
	return names
}

// exportNames lists exports up to the first that cannot be read.
func exportNames(r *reader) (names []string) {
	for n := r.count("exports", maxExports); n > 0; n-- {
		name := r.name()
		r.byte()
		r.u32()
		if r.err != nil {
			break
		}
		names = append(names, name)
	}
	return names
}

package wasm

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

// sections builds a module of sections given as id and body.
func sections(parts ...any) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	for i := 0; i < len(parts); i += 2 {
		body := parts[i+1].(string)
		b = append(appendU32(append(b, byte(parts[i].(int))), uint32(len(body))), body...)
	}
	return b
}

// function builds a command whose only function has this code.
func function(body string) []byte {
	return sections(1, "\x01\x60\x00\x00", 3, "\x01\x00", 5, "\x01\x00\x01", 7, "\x01\x06_start\x00\x00", 10, code(body))
}

// code is the body of a code section with one function.
func code(body string) string {
	return "\x01" + string(appendU32(nil, uint32(len(body)))) + body
}

func importing(mod, name, kind string) []byte {
	entry := appendName(appendName([]byte{1}, mod), name)
	return sections(1, "\x02\x60\x00\x00\x60\x01\x7f\x01\x7f", 2, string(entry)+kind, 3, "\x01\x00", 5, "\x01\x00\x01", 7, "\x01\x06_start\x00\x01", 10, "\x01\x02\x00\x0b")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"component":        {[]byte("\x00asm\x0d\x00\x01\x00"), "component model"},
		"version":          {[]byte("\x00asm\x02\x00\x00\x00"), "binary version 02000000"},
		"empty":            {sections(), "neither _start nor step_run"},
		"threads":          {sections(5, "\x01\x03\x01\x02"), "a shared memory; threads are not supported"},
		"atomics":          {function("\x00\xfe\x03\x00\x0b"), "belongs to threads"},
		"memory64":         {sections(5, "\x01\x04\x01"), "memory64 is not supported"},
		"page size":        {sections(5, "\x01\x08\x01"), "unknown flags 0x08"},
		"multi-memory":     {sections(5, "\x02\x00\x01\x00\x01"), "multi-memory"},
		"second memory":    {function("\x00\x41\x00\x28\x42\x01\x00\x1a\x0b"), "multi-memory"},
		"tags":             {sections(13, "\x00"), "-fno-exceptions"},
		"try":              {function("\x00\x06\x40\x0b\x0b"), "-fno-exceptions"},
		"gc":               {sections(1, "\x01\x5f\x00"), "garbage collection"},
		"relaxed simd":     {function("\x00\xfd\x80\x02\x0b"), "relaxed SIMD"},
		"opcode":           {function("\x00\x16\x0b"), "instruction 0x16 is not known"},
		"emscripten":       {importing("env", "abort", "\x00\x00"), "emscripten"},
		"imported memory":  {importing("env", "memory", "\x02\x00\x01"), "--import-memory"},
		"old wasi":         {importing("wasi_unstable", "fd_write", "\x00\x00"), "too old"},
		"preview 2":        {importing("wasi:cli/run", "run", "\x00\x00"), "preview 2"},
		"sockets":          {importing("wasi_snapshot_preview1", "sock_open", "\x00\x00"), "no network"},
		"other module":     {importing("foo", "bar", "\x00\x00"), "may import wasi_snapshot_preview1 and engine_v1"},
		"meter":            {importing("engine_meter", "tick", "\x00\x00"), "the engine's"},
		"unknown abi":      {importing("engine_v1", "fork", "\x00\x00"), "read, write and call"},
		"wrong abi type":   {importing("engine_v1", "call", "\x00\x00"), "want call(ptr i32, len i32) -> i32"},
		"fuel export":      {sections(6, "\x01\x7f\x01\x41\x00\x0b", 7, "\x01\x0bengine_fuel\x03\x00"), "beginning engine_"},
		"export twice":     {sections(5, "\x01\x00\x01", 7, "\x02\x01m\x02\x00\x01m\x02\x00"), "appears twice"},
		"start type":       {sections(1, "\x01\x60\x01\x7f\x00", 3, "\x01\x00", 7, "\x01\x06_start\x00\x00", 10, "\x01\x02\x00\x0b"), "want _start()"},
		"start is global":  {sections(6, "\x01\x7f\x01\x41\x00\x0b", 7, "\x01\x06_start\x03\x00"), "wrong type"},
		"reactor type":     {sections(1, "\x01\x60\x00\x00", 3, "\x01\x00", 5, "\x01\x00\x01", 7, "\x02\x08step_run\x00\x00\x06memory\x02\x00", 10, "\x01\x02\x00\x0b"), "want step_run(len i32)"},
		"reactor memory":   {sections(1, "\x01\x60\x01\x7f\x00", 3, "\x01\x00", 7, "\x01\x08step_run\x00\x00", 10, "\x01\x02\x00\x0b"), "no memory"},
		"section order":    {sections(3, "\x00", 1, "\x00"), "out of order"},
		"section twice":    {sections(1, "\x00", 1, "\x00"), "out of order"},
		"unknown section":  {sections(14, ""), "section 14 is not known"},
		"cut off":          {[]byte("\x00asm\x01\x00\x00\x00\x01\x05\x01"), "5 bytes are announced, 1 are left"},
		"trailing":         {sections(1, "\x00\x00"), "1 bytes too many"},
		"long number":      {sections(1, "\x80\x80\x80\x80\x80\x00"), "longer than 32 bits"},
		"undeclared func":  {function("\x00\x10\x01\x0b"), "function 1 is not declared"},
		"undeclared type":  {function("\x00\x02\x05\x0b\x0b"), "type 5 is not declared"},
		"undeclared data":  {function("\x00\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00\x0b"), "data segment 0 is not declared"},
		"undeclared table": {function("\x00\x41\x00\x11\x00\x00\x0b"), "table 0 is not declared"},
		"no bodies":        {sections(1, "\x01\x60\x00\x00", 3, "\x01\x00"), "0 bodies for 1 functions"},
		"after the end":    {function("\x00\x0b\x01"), "1 bytes after the end"},
		"many tables":      {sections(4, "\x05"+strings.Repeat("\x70\x00\x01", 5)), "5 tables, the limit is 4"},
		"size":             {append(sections(), make([]byte, maxModule)...), "the limit is 33554432; build with -Os and strip it"},
		"functions":        {sections(1, "\x01\x60\x00\x00", 3, string(appendU32(nil, maxFuncs+1))+strings.Repeat("\x00", maxFuncs+1)), "100001 functions, the limit is 100000"},
		"table entries":    {sections(4, "\x01\x70\x00"+string(appendU32(nil, maxTable+1))), "a table of 100001 entries, the limit is 100000"},
		"locals":           {function("\x01" + string(appendU32(nil, maxLocals+1)) + "\x7f\x0b"), "more than 5000 locals"},
		"nesting":          {function("\x00" + strings.Repeat("\x02\x40", maxNesting+1) + strings.Repeat("\x0b", maxNesting+2)), "blocks nest deeper than 4096"},
		"br_table":         {function("\x00\x41\x00\x0e" + string(appendU32(nil, maxBrTable+1)) + strings.Repeat("\x00", maxBrTable+2) + "\x0b"), "br_table"},
		"control":          {function("\x00" + strings.Repeat("\x02\x40\x0b", maxControl+1) + "\x0b"), "control instructions"},
		"loops":            {function("\x00" + strings.Repeat("\x03\x40\x0b", maxLoops+1) + "\x0b"), "more than 1000 loops"},
		"branchy":          {function("\x01\x80\x20\x7f" + strings.Repeat("\x02\x40\x0b", 300) + "\x0b"), "control instructions with 4096 locals"},
		"const":            {sections(6, "\x01\x7f\x00\x20\x00\x0b"), "in a constant expression"},
		"const forges":     {sections(6, "\x01\x7e\x00\x23\x00\x0b"), "global 0 is not declared"},
		"valid rewritten":  {function("\x00\x41\x01\x0b"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := parseModule(c.module)
			if c.want == "" { // only the interpreter sees it
				if err != nil {
					t.Fatal(err)
				}
				if err := m.validate(t.Context()); err == nil || !strings.Contains(err.Error(), "not valid") {
					t.Errorf("validate gives %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("gave %v, want %q", err, c.want)
			}
		})
	}
}

// TestImportOfWrongType: WASI's types are compared when the module is loaded.
func TestImportOfWrongType(t *testing.T) {
	t.Parallel()
	b := importing("wasi_snapshot_preview1", "proc_exit", "\x00\x01")
	_, err := newLoader(t, Options{}).Load(t.Context(), &loader.Artifact{Kind: loader.Wasm, Path: "m.wasm", Bytes: b})
	if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassSandbox || !strings.Contains(e.Message, `"proc_exit" has the wrong type`) {
		t.Error(err)
	}
}

// TestSocketsLinkAndDoNothing: Go programs link sock_accept.
func TestSocketsLinkAndDoNothing(t *testing.T) {
	t.Parallel()
	entry := appendName(appendName([]byte{1}, "wasi_snapshot_preview1"), "sock_shutdown")
	b := sections(1, "\x02\x60\x00\x00\x60\x02\x7f\x7f\x01\x7f", 2, string(entry)+"\x00\x01", 3, "\x01\x00", 5, "\x01\x00\x01",
		7, "\x01\x06_start\x00\x01", 10, code("\x00\x41\x03\x41\x00\x10\x00\x41\x3a\x46\x04\x40\x0f\x0b\x00\x0b")) // traps unless 58
	_, err := loadertest.Step(t, loadBytes(t, b), "run", loader.Limits{}).Run(t.Context(), request(`{}`), okHost)
	if e := sdk.AsError(err); e.Class != sdk.ClassProtocol {
		t.Error(err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	l := newLoader(t, Options{})
	for name, b := range map[string]string{"elf": "\x7fELF...", "empty": "", "short": "\x00as", "text": "hello"} {
		if _, err := l.Open(put(name, []byte(b))); err != loader.ErrForeign {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.Open(filepath.Join(dir, "absent")); err == nil || err == loader.ErrForeign {
		t.Errorf("an absent file gives %v", err)
	}
	embedded := func(manifest string) []byte {
		return append(function("\x00\x0b"), sections(0, string(appendName(nil, sdk.ManifestSection))+manifest)[8:]...)
	}
	plain, err := l.Open(put("plain.wasm", function("\x00\x0b")))
	if err != nil || plain.Manifest.IO != "raw" || plain.Manifest.Steps["run"].Input == nil {
		t.Errorf("%+v, %v", plain, err)
	}
	b := embedded(`{"abi":1,"name":"in","steps":{}}`)
	in, err := l.Open(put("in.wasm", b))
	if err != nil || in.Manifest.Name != "in" || in.Digest != sdk.Sum(b) {
		t.Errorf("%+v, %v", in, err)
	}
	put("both.step.json", []byte(`{"abi":1,"name":"beside","steps":{}}`))
	both, err := l.Open(put("both.wasm", b))
	if err != nil || both.Manifest.Name != "beside" || both.Digest == in.Digest {
		t.Errorf("%+v, %v", both, err)
	}
	reactor, err := l.Open("testdata/guests/reactor.wasm")
	if err != nil || reactor.Manifest == nil || reactor.Manifest.IO == "raw" {
		t.Errorf("%+v, %v", reactor, err)
	}
	for name, want := range map[string]string{
		`{"abi":2,"name":"x"}`:                       "abi 2",
		`{"abi":1,"name":"x","io":"text"}`:           "want json or raw",
		`{"abi":1,"name":"x","steps":{},"steps":{}}`: "duplicate key",
		`{` + strings.Repeat(" ", sdk.MaxManifest):   "the limit is",
	} {
		if _, err := l.Open(put("bad.wasm", embedded(name))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("manifest %.40q gives %v", name, err)
		}
	}
	large := put("large.wasm", []byte("\x00asm\x01\x00\x00\x00"))
	if err := os.Truncate(large, maxModule+1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Open(large); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB; build with -Os and strip it") {
		t.Errorf("a module of more than 32 MiB gives %v", err)
	}
	if _, err := l.Load(t.Context(), &loader.Artifact{Kind: loader.Native}); sdk.AsError(err).Class != sdk.ClassInternal {
		t.Errorf("a native artifact gives %v", err)
	}
}

// FuzzParse: the pre-scan never panics, and what it and the validator accept
// can be rewritten, is accepted again but for the names it reserves, is valid, and
// compiles. The fuzzer ends what takes too long; large modules are left to the
// limits of the worker.
func FuzzParse(f *testing.F) {
	for _, b := range hostileModules(f) {
		if len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Add(readFile(f, "testdata/guests/meter.wasm"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseModule(b)
		if err != nil || len(b) > 64<<10 {
			return
		}
		if m.validate(context.Background()) != nil {
			return
		}
		code := m.meter()
		r, err := parse(code)
		if err == nil || !strings.Contains(err.Error(), "engine_") {
			t.Fatalf("rewritten module: %v, %v", r, err)
		}
		if bytes.Equal(code, b) {
			t.Fatal("nothing was rewritten")
		}
		checked := &module{bytes: code}
		if err := checked.split(); err != nil {
			t.Fatal(err)
		}
		if err := checked.validate(context.Background()); err != nil {
			t.Fatalf("valid as written, but rewritten %v", err)
		}
		if len(b) > 4<<10 {
			return
		}
		p, err := compile(context.Background(), code, m.facts(), nil)
		switch {
		case err == nil:
			p.close()
		case !strings.Contains(err.Error(), "has the wrong type"): // of an import, which only this compares
			t.Fatalf("valid, but %v", err)
		}
	})
}

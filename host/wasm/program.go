package wasm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/retrace-dev/engine/sdk"
)

const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

// program is a compiled module with the runtime it lives in. Instances are made
// from it concurrently.
type program struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	command  bool // exports _start; else a reactor
	wasi     bool // imports WASI
	name     string
	files    wazero.CompilationCache // nil without a cache
	memories memories
}

// checkStep refuses modules that export nothing that could be called.
func (m *module) checkStep() error {
	start, command := m.exports["_start"]
	if command {
		return m.checkExport(start, "", "_start()")
	}
	run, ok := m.exports["step_run"]
	if !ok {
		return refused("the module exports neither _start nor step_run", "build a command (func main), or export step_run as the contract says")
	}
	if mem, ok := m.exports["memory"]; !ok || mem.kind != kindMemory {
		return refused("the module exports step_run and no memory", "export its memory as \"memory\"")
	}
	if init, ok := m.exports["_initialize"]; ok {
		if err := m.checkExport(init, "", "_initialize()"); err != nil {
			return err
		}
	}
	return m.checkExport(run, "\x7f", "step_run(len i32)")
}

func (m *module) checkExport(e export, params, want string) error {
	if e.kind == kindFunc {
		if t := m.functionType(e.index); string(t.params) == params && len(t.results) == 0 {
			return nil
		}
	}
	return refused(fmt.Sprintf("export %q has the wrong type", e.name), "want "+want)
}

func (m *module) functionType(i uint32) funcType {
	if i < m.imported {
		return m.types[m.imports[i]]
	}
	return m.types[m.funcs[i-m.imported]]
}

// validate compiles the module as written with wazero's interpreter, which
// checks its types. The rewritten module is not enough: some modules are valid
// only after rewriting. Custom sections are left out; they cannot make a module
// invalid.
func (m *module) validate(ctx context.Context) (err error) {
	defer catch(&err)
	b := append(make([]byte, 0, len(m.bytes)), m.bytes[:8]...)
	for _, s := range m.sections {
		if s.id != 0 {
			b = append(appendU32(append(b, s.id), uint32(len(s.body))), s.body...)
		}
	}
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features).WithMemoryLimitPages(maxMemory/memoryPage))
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	if _, err := r.CompileModule(ctx, b); err != nil {
		return fmt.Errorf("not valid: %w", err)
	}
	return nil
}

// catch turns a panic of the compiler into an error: modules are made to break
// it.
func catch(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the compiler gave up: %v", r)
	}
}

// prepare validates the module and rewrites it.
func (m *module) prepare(ctx context.Context) ([]byte, error) {
	if err := m.validate(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	return m.meter(), nil
}

// compile makes the program of the rewritten code. The files of fileCache may
// spare most of the work.
func compile(ctx context.Context, code []byte, f facts, fileCache wazero.CompilationCache) (p *program, err error) {
	cfg := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features).WithMemoryLimitPages(maxMemory / memoryPage)
	if fileCache != nil {
		cfg = cfg.WithCompilationCache(fileCache)
	}
	r := wazero.NewRuntimeWithConfig(ctx, cfg)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	defer catch(&err)
	wasi, err := instantiateHost(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("host modules: %w", err)
	}
	c, err := r.CompileModule(ctx, code)
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("not compiled: %w", err)
	}
	for _, imported := range c.ImportedFunctions() {
		mod, name, _ := imported.Import()
		if mod != moduleWASI {
			continue
		}
		if want := wasi[name]; !slices.Equal(imported.ParamTypes(), want.ParamTypes()) || !slices.Equal(imported.ResultTypes(), want.ResultTypes()) {
			return nil, refused(fmt.Sprintf("import %q.%q has the wrong type", mod, name), "the toolchain is not one for wasm32-wasip1")
		}
	}
	return &program{runtime: r, compiled: c, command: f.Command, wasi: f.WASI, name: "step"}, nil
}

func (p *program) close() {
	ctx := context.Background()
	p.memories.close()
	_ = p.runtime.Close(ctx) // closes what has no file or connection behind it
	if p.files != nil {
		_ = p.files.Close(ctx)
	}
}

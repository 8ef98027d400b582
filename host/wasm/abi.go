package wasm

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/retrace-dev/engine/sdk"
)

// Modules a guest may import from.
const (
	moduleABI  = "engine_v1"
	moduleWASI = "wasi_snapshot_preview1"
)

type abiType struct{ params, results, text string }

// abiTypes are the imports of engine_v1, as value types and for messages.
var abiTypes = map[string]abiType{
	"read":  {"\x7f", "", "read(ptr i32)"},
	"write": {"\x7f\x7f", "", "write(ptr i32, len i32)"},
	"call":  {"\x7f\x7f", "\x7f", "call(ptr i32, len i32) -> i32"},
}

// wasiNames are the functions of WASI preview 1. The four of sockets are
// there because Go's net package links them; they answer ENOTSUP.
var wasiNames = nameSet(`args_get args_sizes_get clock_res_get clock_time_get environ_get environ_sizes_get
	fd_advise fd_allocate fd_close fd_datasync fd_fdstat_get fd_fdstat_set_flags fd_fdstat_set_rights
	fd_filestat_get fd_filestat_set_size fd_filestat_set_times fd_pread fd_prestat_dir_name fd_prestat_get
	fd_pwrite fd_read fd_readdir fd_renumber fd_seek fd_sync fd_tell fd_write
	path_create_directory path_filestat_get path_filestat_set_times path_link path_open path_readlink
	path_remove_directory path_rename path_symlink path_unlink_file
	poll_oneoff proc_exit proc_raise random_get sched_yield
	sock_accept sock_recv sock_send sock_shutdown`)

func nameSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(names) {
		set[n] = true
	}
	return set
}

type attemptKey struct{}

// attemptOf finds the attempt that a host function serves. Calls into a module
// are made with the attempt in their context, by this package alone.
func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

// instantiateHost makes the modules that guests import from, and returns the
// definitions of WASI, so that imports can be compared at load.
func instantiateHost(ctx context.Context, r wazero.Runtime) (map[string]api.FunctionDefinition, error) {
	i32 := api.ValueTypeI32
	wasi := r.NewHostModuleBuilder(moduleWASI)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(wasi)
	for name, params := range map[string]int{"sock_accept": 3, "sock_recv": 6, "sock_send": 5, "sock_shutdown": 2} {
		wasi.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			stack[0] = wasiNotSupported
		}), bytes.Repeat([]byte{i32}, params), []api.ValueType{i32}).Export(name)
	}
	w, err := wasi.Compile(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.InstantiateModule(ctx, w, wazero.NewModuleConfig().WithName(moduleWASI)); err != nil {
		return nil, err
	}
	if _, err := r.NewHostModuleBuilder(moduleMeter).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(tick), nil, nil).Export(meterTick).
		Instantiate(ctx); err != nil {
		return nil, err
	}
	_, err = r.NewHostModuleBuilder(moduleABI).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(abiRead), []api.ValueType{i32}, nil).Export("read").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(abiWrite), []api.ValueType{i32, i32}, nil).Export("write").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(abiCall), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export("call").
		Instantiate(ctx)
	return w.ExportedFunctions(), err
}

// wasiNotSupported is ENOTSUP of WASI preview 1.
const wasiNotSupported = 58

// tick is called by metered code when its quantum is used up or its calls nest
// too deep.
func tick(ctx context.Context, m api.Module, _ []uint64) {
	a := attemptOf(ctx)
	g := m.ExportedGlobal(exportLeft).(api.MutableGlobal)
	l := left(g.Get())
	if l&tooDeep != 0 {
		a.end(&sdk.Error{Class: sdk.ClassPluginCrash, Code: "stack_overflow", Message: fmt.Sprintf("stack overflow: calls nest deeper than %d frames", maxDepth)})
	}
	a.check()
	a.fuel += quantum - l.fuel()
	if limit := a.limits.Fuel; limit > 0 && uint64(a.fuel) > limit {
		a.end(exhausted(codeFuel, "it computed more than its fuel of %d units", limit))
	}
	g.Set(uint64(l.filled()))
}

// abiRead copies the current message into the guest.
func abiRead(ctx context.Context, m api.Module, stack []uint64) {
	a := attemptOf(ctx)
	if !m.Memory().Write(uint32(stack[0]), a.message) {
		a.fault("engine_v1.read: %d bytes at %d leave the memory", len(a.message), uint32(stack[0]))
	}
}

// abiWrite sets the response.
func abiWrite(ctx context.Context, m api.Module, stack []uint64) {
	a := attemptOf(ctx)
	n := uint32(stack[1])
	if int64(n) > a.limits.Response {
		a.tooLarge(a.limits.Response)
	}
	b, ok := m.Memory().Read(uint32(stack[0]), n)
	if !ok {
		a.fault("engine_v1.write: %d bytes at %d leave the memory", n, uint32(stack[0]))
	}
	a.raw, a.response = bytes.Clone(b), nil
	if a.raw == nil {
		a.raw = []byte{}
	}
}

// abiCall runs one host operation; its reply becomes the current message.
func abiCall(ctx context.Context, m api.Module, stack []uint64) {
	a := attemptOf(ctx)
	n := uint32(stack[1])
	if int64(n) > a.limits.Request {
		a.messageTooLarge(int64(n))
	}
	b, ok := m.Memory().Read(uint32(stack[0]), n)
	if !ok {
		a.fault("engine_v1.call: %d bytes at %d leave the memory", n, uint32(stack[0]))
	}
	a.message = a.operate(bytes.Clone(b))
	stack[0] = uint64(len(a.message))
}

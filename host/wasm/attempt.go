package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	wsys "github.com/tetratelabs/wazero/sys"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// Codes of ClassResourceExhausted and ClassPluginCrash.
const (
	codeOutputTooLarge  = "output_too_large"
	codeFuel            = "fuel"
	codeStderrTooLarge  = "stderr_too_large"
	codeRequestTooLarge = "request_too_large"
	codeMessageTooLarge = "message_too_large"
	codeMemory          = "memory"
)

// errStop unwinds the guest; the reason is in attempt.why.
var errStop = errors.New("the attempt has ended")

// attempt is one run of one instance. Everything happens on the goroutine that
// called Run: the guest, the host functions it calls, and what they report.
type attempt struct {
	ctx    context.Context
	host   sdk.Host
	limits loader.Limits

	message  []byte        // what engine_v1.read gives: the request, then the last reply
	raw      []byte        // the response as written, nil if none was
	response *sdk.Response // the response as given by the respond operation
	stdout   bytes.Buffer
	stderr   lines
	memory   *memory
	files    *files
	program  *rawProgram // nil: it speaks the messages of the contract
	fuel     int64       // units spent before the last tick
	why      *sdk.Error
	over     bool // the guest has stopped; open files close without effect
}

// end stops the guest for a reason of the host.
func (a *attempt) end(why *sdk.Error) {
	if a.why == nil {
		a.why = why
	}
	panic(errStop)
}

// check ends the attempt when its context has ended.
func (a *attempt) check() {
	if a.ctx.Err() != nil {
		a.end(sdk.Ended(a.ctx))
	}
}

func (a *attempt) fault(format string, args ...any) {
	a.end(&sdk.Error{Class: sdk.ClassPluginCrash, Message: fmt.Sprintf(format, args...)})
}

func exhausted(code, format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassResourceExhausted, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (a *attempt) tooLarge(limit int64) {
	a.end(exhausted(codeOutputTooLarge, "the response is larger than %d bytes", limit))
}

func (a *attempt) messageTooLarge(n int64) {
	a.end(exhausted(codeMessageTooLarge, "an operation message of %d bytes, the limit is %d; send less at a time", n, a.limits.Request))
}

// operate runs one host operation and returns the reply. It does not return
// when the attempt is over.
func (a *attempt) operate(msg []byte) []byte {
	a.check()
	r, err := sdk.ParseRespond(msg)
	switch {
	case err != nil:
		b, err := sdk.Marshal(sdk.Reply{Error: sdk.AsError(err)})
		if err != nil {
			a.end(sdk.AsError(err))
		}
		return b
	case r != nil:
		if int64(len(msg)) > a.limits.Response {
			a.tooLarge(a.limits.Response)
		}
		a.raw, a.response = nil, r
		return []byte(`{"ok":{}}`)
	}
	reply, err := a.host.Call(a.ctx, msg)
	a.check()
	if err != nil {
		a.end(sdk.AsError(err))
	}
	return reply
}

// Write is the guest's stdout.
func (a *attempt) Write(b []byte) (int, error) {
	a.check()
	if int64(a.stdout.Len()+len(b)) > a.limits.Response {
		a.tooLarge(a.limits.Response)
	}
	return a.stdout.Write(b)
}

// run makes an instance, lets it work and judges how it ended.
func (p *program) run(a *attempt, req []byte, pure bool, seed string) (*sdk.Response, error) {
	a.message = req
	a.memory = &memory{pool: &p.memories, limit: uint64(a.limits.Memory)}
	defer a.memory.Free()
	a.files = newFiles(a, pure)
	// The guest cannot be stopped by a context (see doc.go), so it gets one
	// that never ends and asks a.ctx itself.
	ctx := experimental.WithMemoryAllocator(context.WithValue(context.WithoutCancel(a.ctx), attemptKey{}, a), a.memory)
	var r *sdk.Response
	var err error
	if a.program != nil {
		r, err = p.runRaw(ctx, a, pure, seed)
	} else {
		err = p.call(ctx, a, pure, seed)
		a.over = true
		a.stderr.flush()
		r, err = a.judge(err)
	}
	return r, errors.Join(err, a.files.close())
}

// guarded calls f, which may end the attempt.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil && r != errStop {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}

// call runs the guest to its end. Its error is wazero's.
func (p *program) call(ctx context.Context, a *attempt, pure bool, seed string) error {
	return guarded(func() error { return p.start(ctx, a, pure, seed) })
}

func (p *program) start(ctx context.Context, a *attempt, pure bool, seed string) error {
	m, err := p.runtime.InstantiateModule(ctx, p.compiled, p.config(a, pure, seed))
	if err != nil {
		return err
	}
	defer func() {
		a.over = true
		_ = m.Close(ctx) // reports only what closing our own files returns
	}()
	if p.command {
		_, err = m.ExportedFunction("_start").Call(ctx)
		return err
	}
	if f := m.ExportedFunction("_initialize"); f != nil {
		if _, err := f.Call(ctx); err != nil {
			return err
		}
	}
	_, err = m.ExportedFunction("step_run").Call(ctx, api.EncodeU32(uint32(len(a.message))))
	return err
}

func (p *program) config(a *attempt, pure bool, seed string) wazero.ModuleConfig {
	t := newTime(a, pure)
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithWalltime(t.wall, clockResolution).WithNanotime(t.nano, clockResolution).WithNanosleep(t.sleep).
		WithRandSource(newRandom(a, pure, seed)).
		WithStderr(&a.stderr)
	if !p.wasi {
		return c
	}
	c = c.WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(a.files, "/"))
	for _, v := range a.env() {
		c = c.WithEnv(v.name, v.value)
	}
	if a.program != nil {
		return c.WithArgs(append([]string{p.name}, a.program.in.Args...)...).WithStdin(a.reader(&a.program.in.Stdin)).WithStdout(a)
	}
	c = c.WithArgs(p.name)
	if p.command {
		return c.WithStdin(bytes.NewReader(a.message)).WithStdout(a)
	}
	return c.WithStdout(&a.stderr)
}

type variable struct{ name, value string }

// env is the environment of the guest, in the order of the names.
func (a *attempt) env() (vs []variable) {
	var all map[string]string
	if a.limits.World != nil {
		all = a.limits.World.Env
	}
	if a.program != nil && len(a.program.in.Env) > 0 {
		all = maps.Clone(all)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, a.program.in.Env)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		vs = append(vs, variable{name, all[name]})
	}
	return vs
}

// judge turns how the guest ended into what the attempt gives.
func (a *attempt) judge(err error) (*sdk.Response, error) {
	if a.why != nil {
		return nil, a.why
	}
	var exit *wsys.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 0:
		err = nil
	case err != nil && a.memory.refused:
		return nil, a.needsMemory()
	}
	r, parseErr := a.answer()
	if err == nil {
		if parseErr != nil {
			return nil, parseErr
		}
		if r.Error != nil {
			a.report(r.Usage)
			return nil, r.Error
		}
		return r, nil
	}
	if parseErr == nil && r.Error != nil {
		a.report(r.Usage)
		return nil, r.Error
	}
	if exit != nil {
		return nil, exitError(exit.ExitCode())
	}
	return nil, crash(err)
}

func (a *attempt) needsMemory() *sdk.Error {
	return exhausted(codeMemory, "the step needs more than %d MiB of memory", a.limits.Memory>>20)
}

// answer reads the response: what was written or given last, else stdout.
func (a *attempt) answer() (*sdk.Response, error) {
	switch {
	case a.response != nil:
		return a.response, nil
	case a.raw != nil:
		return sdk.ParseResponse(a.raw)
	}
	return sdk.ParseResponse(a.stdout.Bytes())
}

// report hands on the usage of a response that is an error, which would
// otherwise be lost with it.
func (a *attempt) report(usage []sdk.Usage) {
	for _, u := range usage {
		_, _, _ = sdk.Operate(context.WithoutCancel(a.ctx), a.host, sdk.UsageOp{Op: sdk.OpUsage, Usage: u}, nil)
	}
}

func exitError(code uint32) *sdk.Error {
	e := &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("the step exited with code %d", code)}
	switch code { // sysexits.h
	case 64, 65:
		e.Class = sdk.ClassInvalidInput
	case 75:
		e.Class = sdk.ClassUnavailable
	case 77:
		e.Class = sdk.ClassUnauthorized
	}
	return e
}

// crash words a trap: its first line, and the guest's own functions as details.
func crash(err error) *sdk.Error {
	text, rest, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	text = bytes.TrimPrefix(bytes.TrimSuffix(text, []byte(" (recovered by wazero)")), []byte("wasm error: "))
	e := &sdk.Error{Class: sdk.ClassPluginCrash, Message: "the step crashed: " + string(text)}
	if bytes.HasPrefix(text, []byte("stack overflow")) {
		e.Code = "stack_overflow"
	}
	var trace []string
	for line := range bytes.Lines(rest) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break // what follows is the host's own stack
		}
		if !bytes.HasSuffix(line, []byte("stack trace:")) && len(trace) < 10 {
			trace = append(trace, string(line))
		}
	}
	if len(trace) > 0 {
		if b, err := sdk.Marshal(map[string]any{"trace": trace}); err == nil {
			e.Details = b
		}
	}
	return e
}

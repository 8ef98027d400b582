package wasm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

// BenchmarkWarmAttempt is a whole attempt of the C reactor on a compiled
// module: encode the request, make an instance, run, read the response.
func BenchmarkWarmAttempt(b *testing.B) {
	p := loadertest.Load(b, newLoader(b, Options{}), "testdata/guests/reactor.wasm")
	s := loadertest.Step(b, p, "upper", loader.Limits{})
	req := request(`{"text":"hello world"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), req, okHost); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWarmGo is an attempt of a Go command, whose runtime starts anew.
func BenchmarkWarmGo(b *testing.B) {
	p := loadertest.Load(b, newLoader(b, Options{}), goModule(b, `package main

import "fmt"

func main() { fmt.Print("{\"output\":1}") }
`))
	s := loadertest.Step(b, p, "run", loader.Limits{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(context.Background(), request(`{}`), okHost); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareInstance is what wazero alone takes for it: the module as
// written, a fresh instance and one call. BenchmarkBareCall keeps the instance.
// The claim is that a warm attempt is at most 50 µs above the bare call.
func BenchmarkBareInstance(b *testing.B) {
	c, ctx, n := bare(b)
	b.ReportAllocs()
	for b.Loop() {
		i, err := c.r.InstantiateModule(ctx, c.m, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.ExportedFunction("step_run").Call(ctx, n); err != nil {
			b.Fatal(err)
		}
		_ = i.Close(ctx)
	}
}

func BenchmarkBareCall(b *testing.B) {
	c, ctx, n := bare(b)
	i, err := c.r.InstantiateModule(ctx, c.m, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		b.Fatal(err)
	}
	f := i.ExportedFunction("step_run")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Call(ctx, n); err != nil {
			b.Fatal(err)
		}
	}
}

func bare(b *testing.B) (compiled, context.Context, uint64) {
	b.Helper()
	msg, err := sdk.Marshal(request(`{"text":"hello world"}`))
	if err != nil {
		b.Fatal(err)
	}
	a := &attempt{host: okHost, ctx: context.Background(), limits: loader.Limits{}.WithDefaults(), message: msg}
	return compileBytes(b, readFile(b, "testdata/guests/reactor.wasm")), context.WithValue(context.Background(), attemptKey{}, a), uint64(len(msg))
}

// BenchmarkMetering is what the charges cost: the same computation as written and
// as rewritten, by turns, so that what else the machine does hits both. The claim
// is a ratio of at most 1.5 for a tight loop and a sort, and of 1.4 for recursion.
func BenchmarkMetering(b *testing.B) {
	module := readFile(b, "testdata/guests/meter.wasm")
	written, metered := compileBytes(b, module).instantiate(b), compileBytes(b, meterOf(b, module)).instantiate(b)
	for _, f := range []string{"loop", "fac"} {
		one := func(i instance) func() error {
			call := i.ExportedFunction(f)
			return func() error { _, err := call.Call(i.ctx, 1000); return err }
		}
		b.Run(f, func(b *testing.B) { loadertest.ByTurns(b, one(written), one(metered)) })
	}
	program := readFile(b, "testdata/programs/sort.wasm")
	m, err := parseModule(program)
	if err != nil {
		b.Fatal(err)
	}
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&lines, i*7919%5003, "line")
	}
	one := func(code []byte) func() error {
		p, err := compile(context.Background(), code, m.facts(), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(p.close)
		return func() error {
			a := &attempt{host: okHost, ctx: context.Background(), limits: loader.Limits{}.WithDefaults(), program: &rawProgram{in: &rawInput{Stdin: rawData{text: lines.String()}, OKExitCodes: []int64{0}, Args: []string{"-o", "/tmp/x"}}}}
			a.stderr.a = a
			_, err := p.run(a, nil, true, "")
			return err
		}
	}
	b.Run("sort", func(b *testing.B) { loadertest.ByTurns(b, one(m.bytes), one(m.meter())) })
}

// BenchmarkLateness is how long after its deadline an attempt ends, at worst,
// whatever it does. The claim is 15 ms on an idle machine; it fails beyond 500 ms.
func BenchmarkLateness(b *testing.B) {
	p := probePlugin(b)
	modules := map[string]sdk.Step{}
	for _, do := range []string{"spin", "fill", "sleep", "calls without end"} {
		modules[do] = loadertest.Step(b, p, "run", loader.Limits{Memory: 256 << 20})
	}
	for name, m := range hostileModules(b) {
		if hostile[name].class == sdk.ClassTimeout {
			modules[name] = loadertest.Step(b, loadBytes(b, m), "run", loader.Limits{Memory: 256 << 20})
		}
	}
	for name, s := range modules {
		b.Run(name, func(b *testing.B) {
			var worst time.Duration
			for b.Loop() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				_, err := s.Run(ctx, request(`{"do":"`+name+`"}`), okHost)
				deadline, _ := ctx.Deadline()
				worst = max(worst, time.Since(deadline))
				cancel()
				if sdk.AsError(err).Class != sdk.ClassTimeout {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "ms-late-at-worst")
			if worst > 500*time.Millisecond {
				b.Errorf("it ended %s late", worst)
			}
		})
	}
}

// BenchmarkOpen is the pre-scan of a small module, with reading the file.
func BenchmarkOpen(b *testing.B) {
	l := newLoader(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Open("testdata/guests/probe.wasm"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostile is how long the longest refusal takes.
func BenchmarkHostile(b *testing.B) {
	for name, m := range hostileModules(b) {
		if hostile[name].refused != "" {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = parse(m)
				}
			})
		}
	}
}

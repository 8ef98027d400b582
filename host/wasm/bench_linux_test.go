package wasm

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/sdk"
)

// benchModules are a small module in C and one of some MiB in Go.
func benchModules(b *testing.B) map[string]struct{ path, step, input string } {
	b.Helper()
	return map[string]struct{ path, step, input string }{
		"C":  {"testdata/guests/reactor.wasm", "upper", `{"text":"hello world"}`},
		"Go": {goModule(b, "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Print(\"{\\\"output\\\":1}\") }\n"), "run", `{}`},
	}
}

// BenchmarkIsolation is an attempt in this process and in a worker that has
// started, with the same modules. The claim is that the second takes at most a
// millisecond more.
func BenchmarkIsolation(b *testing.B) {
	for name, m := range benchModules(b) {
		for level, l := range map[string]*Loader{"inprocess": newLoader(b, Options{}), "process": isolatedLoader(b, b.TempDir(), subprocess.Options{})} {
			b.Run(name+"/"+level, func(b *testing.B) {
				p := loadertest.Load(b, l, m.path)
				s := loadertest.Step(b, p, m.step, loader.Limits{})
				if _, err := s.Run(context.Background(), request(m.input), okHost); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if _, err := s.Run(context.Background(), request(m.input), okHost); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFirstAnswer is the first attempt of a plugin in a worker: what
// isolation costs per module and run.
func BenchmarkFirstAnswer(b *testing.B) {
	for name, m := range benchModules(b) {
		b.Run(name, func(b *testing.B) {
			p := loadertest.Load(b, isolatedLoader(b, b.TempDir(), subprocess.Options{}), m.path)
			fuel := uint64(1 << 40)
			for b.Loop() {
				fuel++ // other limits have workers of their own
				if _, err := loadertest.Step(b, p, m.step, loader.Limits{Fuel: fuel}).Run(context.Background(), request(m.input), okHost); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				q := p.(*plugin)
				for k, w := range q.isolated {
					if err := w.close(); err != nil {
						b.Fatal(err)
					}
					delete(q.isolated, k)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkCacheHit is Load of a module that is compiled already, verified and
// ready to run in this process. The claims are 5 ms for a module in C and 130 ms
// for 3 MB of Go.
func BenchmarkCacheHit(b *testing.B) {
	for name, m := range benchModules(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoader(b, Options{CacheDir: b.TempDir()})
			a, p := loadertest.Open(b, l, m.path), loadertest.Load(b, l, m.path)
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(a.Bytes)), "module-bytes")
			for b.Loop() {
				p, err := l.Load(context.Background(), a)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeartbeat is how late a goroutine of this process that wakes every
// millisecond is at worst, while a hostile module runs beside it and the garbage
// collector is forced all the time, and how long after its deadline that module ends.
// It fails beyond 250 ms and 500 ms.
func BenchmarkHeartbeat(b *testing.B) {
	for level, o := range map[string]Options{"inprocess": {}, "process": {Isolation: loader.Process, Workers: workers(b, subprocess.Options{})}} {
		l := newLoader(b, o)
		for name, m := range hostileModules(b) {
			if hostile[name].class != sdk.ClassTimeout {
				continue
			}
			b.Run(name+"/"+level, func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "m.wasm")
				if err := os.WriteFile(path, m, 0o600); err != nil {
					b.Fatal(err)
				}
				speaks(b, path)
				p := loadertest.Load(b, l, path)
				s := loadertest.Step(b, p, "run", loader.Limits{})
				if s, ok := s.(loader.Preparer); ok {
					release, err := s.Prepare(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					defer release()
				}
				var worst, late time.Duration
				for b.Loop() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_, _ = s.Run(ctx, request(`{}`), okHost) // what it gives, TestHostile says
						deadline, _ := ctx.Deadline()
						late = max(late, time.Since(deadline))
					}()
					for beating := true; beating; {
						begin := time.Now()
						runtime.GC()
						time.Sleep(time.Millisecond)
						worst = max(worst, time.Since(begin)-time.Millisecond)
						select {
						case <-ended:
							beating = false
						default:
						}
					}
					cancel()
				}
				b.ReportMetric(float64(worst.Microseconds())/1000, "ms-heartbeat-late-at-worst")
				b.ReportMetric(float64(late.Microseconds())/1000, "ms-end-late-at-worst")
				if worst > 250*time.Millisecond || late > 500*time.Millisecond {
					b.Errorf("a neighbour was %s late, the end %s", worst, late)
				}
			})
		}
	}
}

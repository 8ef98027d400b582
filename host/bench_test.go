package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// fsyncRate is what the disk below dir can do: fdatasync calls per second after
// small appends, the limit that durable runs are measured against.
func fsyncRate(b *testing.B, dir string) float64 {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 512)
	const n = 200
	begin := time.Now()
	for range n {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	return n / time.Since(begin).Seconds()
}

// written is a flow as text: n steps in a chain or a fan, their inputs
// evaluated expressions over the upstream's output.
func written(n int, fan bool, extra string) string {
	var b strings.Builder
	b.WriteString("workflow \"bench\" { concurrency = 8 }\nplugin \"p\" { source = \"./p.wasm\" }\n")
	for i := range n {
		input := "{ n = 0 }"
		if i > 0 {
			u := i - 1
			if fan {
				u = 0
			}
			input = fmt.Sprintf("{ n = step.s%d.output.n + 1 }", u)
		}
		if fan && i > 0 {
			input = strings.Replace(input, "+ 1", fmt.Sprint("+ ", i), 1)
		}
		fmt.Fprintf(&b, "step \"s%d\" {\n  uses  = plugin.p.run\n  input = %s\n%s}\n", i, input, extra)
	}
	return b.String()
}

// counting is a plugin in this process that hands its input's n on: what is
// measured is the engine around it.
type counting struct{ pad string }

func (c counting) Open(string) (*loader.Artifact, error) { return fakeArtifact, nil }
func (c counting) Load(context.Context, *loader.Artifact) (loader.Plugin, error) {
	return c, nil
}
func (c counting) Close() error { return nil }
func (c counting) Step(string, loader.Limits) (sdk.Step, error) {
	return sdk.StepFunc(func(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		out := append([]byte(nil), req.Input[:len(req.Input)-1]...)
		if c.pad != "" {
			out = append(append(append(out, `,"pad":"`...), c.pad...), '"')
		}
		return &sdk.Response{Output: append(out, '}')}, nil
	}), nil
}

func compiled(tb testing.TB, text string, l loader.Loader) (*Flow, *hcl.Values) {
	tb.Helper()
	wf, diags := hcl.Parse([]hcl.File{{Path: "bench.hcl", Bytes: []byte(text)}})
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	f, diags := Compile(wf, ".", []loader.Loader{l})
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	v, diags := wf.Bind(hcl.BindOptions{})
	if diags.HasErrors() {
		tb.Fatal(diags)
	}
	return f, v
}

func applied(tb testing.TB, store checkpoint.Store, f *Flow, v *hcl.Values) *Result {
	tb.Helper()
	return observed(tb, store, f, v, nil)
}

func observed(tb testing.TB, store checkpoint.Store, f *Flow, v *hcl.Values, seen Observer) *Result {
	tb.Helper()
	h, err := New(Options{Store: store, Observer: seen})
	if err != nil {
		tb.Fatal(err)
	}
	res, err := h.Apply(context.Background(), f, v, RunOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	if res.Run.Status != checkpoint.RunSucceeded {
		tb.Fatalf("%s: %+v", res.Run.Status, res.Failures)
	}
	return res
}

// BenchmarkDurable runs whole flows through the whole engine (HCL evaluation,
// keys, records, events) on the durable store, and reports the rate of steps as
// a multiple of the disk's fdatasync rate. That changes from second to second, so
// each run is compared with syncs right before and after it; x-fdatasync is the
// median. The claims: a chain 6 times, a fan 15 times, a chain of steps with
// effects 0.75 times.
func BenchmarkDurable(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		fan   bool
		extra string
	}{
		{"chain", 5000, false, ""},
		{"fan", 5000, true, ""},
		{"write-chain", 500, false, "  effects = \"write\"\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, v := compiled(b, written(c.n, c.fan, c.extra), counting{})
			dir := b.TempDir()
			var rates, limits, ratios []float64
			for i := range b.N {
				s, err := pebblestore.Open(filepath.Join(dir, fmt.Sprint(i)), pebblestore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				limit := fsyncRate(b, dir)
				begin := time.Now()
				applied(b, s, f, v)
				rate := float64(c.n) / time.Since(begin).Seconds()
				limit = (limit + fsyncRate(b, dir)) / 2
				rates, limits, ratios = append(rates, rate), append(limits, limit), append(ratios, rate/limit)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(median(rates), "steps/s")
			b.ReportMetric(median(limits), "fdatasync/s")
			b.ReportMetric(median(ratios), "x-fdatasync")
		})
	}
}

func median(vs []float64) float64 {
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// BenchmarkMemory reports what 100,000 steps of 1 KiB output need: live-MiB is
// what the host holds at the end of the run above the flow itself (flow-MiB),
// garbage collected; peak-MiB is the heap at its largest, garbage and the flow
// included.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	k := &fake{tb: b}
	for i := range n {
		s := fakeStep{name: fmt.Sprint("s", i)}
		if i > 0 {
			s.refs = hard(i - 1)
		}
		k.steps = append(k.steps, s)
	}
	pad := strings.Repeat("x", 1000)
	k.run = func(context.Context, *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{Output: json.RawMessage(`{"pad":"` + pad + `"}`)}, nil
	}
	f := k.flow()
	k.quiet = true
	for range b.N {
		s, err := pebblestore.Open(filepath.Join(b.TempDir(), "store"), pebblestore.Options{})
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		peak, ended := uint64(0), 0
		h, err := New(Options{Store: s, Observer: observerFunc(func(es []Event) {
			peak = max(peak, heapInUse())
			for i := range es {
				if es[i].Type == EventSucceeded {
					if ended++; ended == n {
						runtime.GC()
						runtime.ReadMemStats(&after)
					}
				}
			}
		})})
		if err != nil {
			b.Fatal(err)
		}
		res, err := h.apply(context.Background(), f, k.inputs(), RunOptions{})
		if err != nil || res.Run.Status != checkpoint.RunSucceeded {
			b.Fatal(err, res)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "live-MiB")
		b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		b.ReportMetric(float64(before.HeapAlloc)/(1<<20), "flow-MiB")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

type observerFunc func([]Event)

func (f observerFunc) Observe(es []Event) { f(es) }

// heapInUse is what the runtime holds of heap, spans in use included.
func heapInUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64() + s[2].Value.Uint64()
}

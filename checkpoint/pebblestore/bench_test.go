package pebblestore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// rateFile measures how often per second the disk below a directory makes a write
// of 200 bytes durable: the rate of an engine that syncs every step.
type rateFile struct {
	b *testing.B
	f vfs.File
}

func newRateFile(b *testing.B, dir string) *rateFile {
	b.Helper()
	f, err := vfs.Default.Create(filepath.Join(dir, "rate"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return &rateFile{b, f}
}

func (r *rateFile) measure(n int) float64 {
	r.b.Helper()
	buf := make([]byte, 200)
	start := time.Now()
	for range n {
		if _, err := r.f.Write(buf); err != nil {
			r.b.Fatal(err)
		}
		if err := r.f.SyncData(); err != nil {
			r.b.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

// benchStep makes the records of a chain: a context as a model call leaves it
// and size bytes of data.
func benchStep(b *testing.B, size int) func(i int) *checkpoint.Batch {
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	out, err := san.Sanitize(json.RawMessage(`"`+strings.Repeat("x", size-2)+`"`), nil)
	if err != nil {
		b.Fatal(err)
	}
	d := sdk.Sum([]byte("d"))
	now := time.Now()
	return func(i int) *checkpoint.Batch {
		f := checkpoint.Fingerprint{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
		r := &checkpoint.Record{
			Head: checkpoint.Head{
				Step: fmt.Sprint("step.s", i), Run: "r_abcdefghijkl", Chain: "r_abcdefghijkl", Local: f, Plan: f, Content: f,
				Lineage: []sdk.Digest{d}, Attempts: 1, Created: now, Took: time.Second,
			},
			Context: checkpoint.Context{
				Plugin: "ai", Version: "1.2.0", Artifact: d, StepType: "chat", Engine: "1.0.0", Input: d,
				Inputs:   []checkpoint.AttributeDigest{{Name: "prompt", Value: d.String()[7:39], Expression: d.String()[7:39]}},
				Upstream: []checkpoint.UpstreamDigest{{Step: "step.up", Digest: d}},
				Producer: checkpoint.Producer{Run: "r_abcdefghijkl", Step: "step.s", Attempt: 1, Started: now},
			},
		}
		batch := checkpoint.NewBatch("default", "bench")
		batch.PutCheckpoint(r, out)
		return batch
	}
}

func report(b *testing.B, took time.Duration, disk float64) {
	rate := float64(b.N) / took.Seconds()
	b.ReportMetric(rate, "commits/s")
	b.ReportMetric(disk, "fdatasync/s")
	b.ReportMetric(rate/disk, "x")
}

func benchOpen(b *testing.B) (*Store, float64) {
	dir := b.TempDir()
	rate := newRateFile(b, dir).measure(200)
	s, err := Open(filepath.Join(dir, "store"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s, rate
}

// BenchmarkDurableChain: steps of which each begins when the one before is
// visible, all durable at the end. The claim: ten times the rate of a sync per
// step.
func BenchmarkDurableChain(b *testing.B) {
	s, disk := benchOpen(b)
	step := benchStep(b, 200)
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	for i := range b.N {
		if _, err := s.Commit(context.Background(), step(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Barrier(context.Background()); err != nil {
		b.Fatal(err)
	}
	report(b, time.Since(start), disk)
}

// BenchmarkLargeChain: the same with outputs of 1 MiB, each of its own. The
// claim: the chain goes at the speed of the disk.
func BenchmarkLargeChain(b *testing.B) {
	s, disk := benchOpen(b)
	san, err := checkpoint.NewSanitizer(checkpoint.SanitizerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	fill := strings.Repeat("x", 1<<20)
	b.SetBytes(1 << 20)
	b.ResetTimer()
	start := time.Now()
	for i := range b.N {
		out, err := san.Sanitize(json.RawMessage(fmt.Sprintf(`"%d%s"`, i, fill)), nil)
		if err != nil {
			b.Fatal(err)
		}
		batch := checkpoint.NewBatch("default", "bench")
		batch.PutCheckpoint(&checkpoint.Record{Head: checkpoint.Head{Step: fmt.Sprint("step.s", i), Run: "r_abcdefghijkl"}}, out)
		if _, err := s.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Barrier(context.Background()); err != nil {
		b.Fatal(err)
	}
	report(b, time.Since(start), disk)
}

// BenchmarkCollect: what the choice costs with 10,000 records, of which none
// goes. The claim: far below a second, so that it can follow every run.
func BenchmarkCollect(b *testing.B) {
	s, _ := benchOpen(b)
	step := benchStep(b, 200)
	for i := range 10_000 {
		if _, err := s.Commit(context.Background(), step(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Collect(context.Background(), "default", checkpoint.Policy{Keep: 1, MaxBytes: 1 << 40}, false)
		if err != nil || len(c.Records) != 0 || c.Bytes != 10_000*200 {
			b.Fatal(summary(c), err)
		}
	}
}

// BenchmarkFanOut: instances that end side by side.
func BenchmarkFanOut(b *testing.B) {
	s, disk := benchOpen(b)
	step := benchStep(b, 200)
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := s.Commit(context.Background(), step(int(n.Add(1)))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := s.Barrier(context.Background()); err != nil {
		b.Fatal(err)
	}
	report(b, time.Since(start), disk)
}

// BenchmarkEffects: a chain of steps with effects, a barrier before each. The
// claim: three quarters of the disk's rate at least. That changes from second to
// second, so each 50 steps are compared with 50 syncs before and after them; "x"
// is the median.
func BenchmarkEffects(b *testing.B) {
	dir := b.TempDir()
	rate := newRateFile(b, dir)
	s, err := Open(filepath.Join(dir, "store"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	step := benchStep(b, 200)
	const round = 50
	var ratios []float64
	before := rate.measure(round)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; {
		start, n := time.Now(), min(round, b.N-i)
		for range n {
			if _, err := s.Commit(context.Background(), step(i)); err != nil {
				b.Fatal(err)
			}
			if err := s.Barrier(context.Background()); err != nil {
				b.Fatal(err)
			}
			i++
		}
		took := time.Since(start).Seconds()
		b.StopTimer()
		after := rate.measure(round)
		ratios = append(ratios, float64(n)/took/((before+after)/2))
		before = after
		b.StartTimer()
	}
	b.StopTimer()
	slices.Sort(ratios)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(ratios[len(ratios)/2], "x")
}

// BenchmarkSnapshot: the heads of 10,000 steps, as a plan loads them.
func BenchmarkSnapshot(b *testing.B) {
	s, _ := benchOpen(b)
	step := benchStep(b, 200)
	for i := range 10_000 {
		if _, err := s.Commit(context.Background(), step(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		x, err := s.Snapshot(context.Background(), "default", "bench")
		if err != nil || x.Len() != 10_000 {
			b.Fatal(x.Len(), err)
		}
	}
}

// BenchmarkMemory: 100,000 steps of 1 and of 4 KiB. The claim: the process stays
// below 128 MiB, and Commit takes less than 20 µs of CPU (-cpuprofile tells it; the
// most of the rest is Pebble's merging of tables, beside the run). Run one alone,
// with -benchtime 1x: the peak is that of the process.
func BenchmarkMemory(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, _ := benchOpen(b)
			step := benchStep(b, size)
			const n = 100_000
			b.ResetTimer()
			for range b.N {
				for i := range n {
					if _, err := s.Commit(context.Background(), step(i)); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Barrier(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/checkpoint")
			if runtime.GOOS != "linux" {
				return // the peak is read from /proc
			}
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				b.Fatal(err)
			}
			for line := range strings.Lines(string(status)) {
				var kib float64
				if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
					b.ReportMetric(kib/1024, "MiB-peak")
				}
			}
		})
	}
}

// BenchmarkOpen: a store of a million checkpoints in 100 workflows, closed as a
// run closes it. The claim: it opens in less than 100 ms, whatever it holds. The
// heads of one workflow are loaded when it is planned, which is told apart.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "store")
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	step := benchStep(b, 200)
	const workflows, steps = 100, 10_000
	for w := range workflows {
		batch := checkpoint.NewBatch("default", fmt.Sprint("flow", w))
		for i := range steps {
			batch.Items = append(batch.Items, step(w*steps+i).Items...)
		}
		if _, err := s.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var loading time.Duration
	b.ReportAllocs()
	for b.Loop() {
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		begin := time.Now()
		x, err := s.Snapshot(context.Background(), "default", "flow50")
		loading += time.Since(begin)
		if err != nil || x.Len() != steps {
			b.Fatal(x.Len(), err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(loading.Seconds()*1000/float64(b.N), "ms-snapshot")
}

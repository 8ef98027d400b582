package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// sleeping is a plugin whose attempts take a while, and that adds up how long.
type sleeping struct {
	counting
	each time.Duration
	took *atomic.Int64
}

func (s sleeping) Load(context.Context, *loader.Artifact) (loader.Plugin, error) { return s, nil }
func (s sleeping) Step(name string, l loader.Limits) (sdk.Step, error) {
	answer, err := s.counting.Step(name, l)
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, h sdk.Host) (*sdk.Response, error) {
		begin := time.Now()
		time.Sleep(s.each)
		resp, err := answer.Run(ctx, req, h)
		s.took.Add(int64(time.Since(begin)))
		return resp, err
	}), err
}

// BenchmarkShare: chains of steps that take 50 ms and 1 ms. The claim: the engine
// with its checkpoints is 1 % and 5 % of them at most. What is reported is all that
// is not the steps' own time, opening and closing the run included.
func BenchmarkShare(b *testing.B) {
	for _, c := range []struct {
		each time.Duration
		n    int
	}{{50 * time.Millisecond, 60}, {time.Millisecond, 2000}} {
		b.Run(c.each.String(), func(b *testing.B) {
			took := &atomic.Int64{}
			f, v := compiled(b, written(c.n, false, ""), sleeping{each: c.each, took: took})
			var all time.Duration
			for i := range b.N {
				s, err := pebblestore.Open(filepath.Join(b.TempDir(), fmt.Sprint(i)), pebblestore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				applied(b, s, f, v)
				all += time.Since(begin)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*(1-float64(took.Load())/float64(all)), "%-of-the-run")
		})
	}
}

// BenchmarkFirstStep: from the opening of the store of a dead process to the first
// attempt of the run that goes on, of a flow of 1,200 steps, already parsed, of
// which 900 have succeeded with 4 KiB each. The claim: 30 ms with a store that was
// closed, 150 ms with one that was killed and has all of it in its log.
func BenchmarkFirstStep(b *testing.B) {
	const n, failed = 1200, 900
	for _, killed := range []bool{false, true} {
		name := map[bool]string{false: "closed", true: "killed"}[killed]
		b.Run(name, func(b *testing.B) {
			var began time.Time
			var broken bool
			k := &fake{tb: b, quiet: true}
			for i := range n {
				s := fakeStep{name: fmt.Sprint("s", i)}
				if i > 0 {
					s.refs = hard(i - 1)
				}
				k.steps = append(k.steps, s)
			}
			pad, at := strings.Repeat("x", 4<<10), fmt.Sprint("step.s", failed)
			k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
				if began.IsZero() {
					began = time.Now()
				}
				if broken && req.Step == at {
					return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "no"}
				}
				return &sdk.Response{Output: json.RawMessage(`{"pad":"` + pad + `"}`)}, nil
			}
			f := k.flow()
			apply := func(dir string) *pebblestore.Store {
				s, err := pebblestore.Open(dir, pebblestore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				h, err := New(Options{Store: s})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := h.apply(context.Background(), f, k.inputs(), RunOptions{}); err != nil {
					b.Fatal(err)
				}
				return s
			}
			var took time.Duration
			for i := range b.N {
				dir := filepath.Join(b.TempDir(), fmt.Sprint(i))
				broken = true
				s := apply(filepath.Join(dir, "first"))
				used := filepath.Join(dir, "first")
				if killed {
					used = filepath.Join(dir, "killed")
					if err := os.CopyFS(used, os.DirFS(filepath.Join(dir, "first"))); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				broken, began = false, time.Time{}
				begin := time.Now()
				s = apply(used)
				took += began.Sub(begin)
				if err := errors.Join(s.Close(), os.RemoveAll(dir)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms-to-first-step")
			b.ReportMetric(0, "ns/op") // the sum says nothing
		})
	}
}

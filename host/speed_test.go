package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
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

// forgetful is a store that keeps nothing: the engine is the same with it, and
// nothing is checkpointed.
type forgetful struct {
	checkpoint.Store // nil: what is not below, a first run does not ask for
	last             checkpoint.Seq
	persisted        chan checkpoint.Seq
}

func (s *forgetful) Commit(_ context.Context, b *checkpoint.Batch) (checkpoint.Seq, error) {
	for i := range b.Items {
		s.last++
		b.Items[i].Place(s.last)
	}
	select {
	case <-s.persisted:
	default:
	}
	s.persisted <- s.last
	return s.last, nil
}

func (s *forgetful) Persisted() <-chan checkpoint.Seq { return s.persisted }
func (s *forgetful) Barrier(context.Context) error    { return nil }
func (s *forgetful) Close() error                     { return nil }
func (s *forgetful) Snapshot(context.Context, string, string) (*checkpoint.Index, error) {
	return checkpoint.NewIndex(), nil
}

func (s *forgetful) Runs(context.Context, string, string) ([]*checkpoint.RunRecord, error) {
	return nil, nil
}

// BenchmarkShare: chains of steps that take 50 ms and 1 ms. The claim:
// checkpointing is 1 % and 5 % of them at most. It is what a run with a durable
// store takes beyond the steps' own time, less what one with a store that keeps
// nothing takes, run in turns. "%-engine" is all of the former, opening and closing
// the run included.
func BenchmarkShare(b *testing.B) {
	for _, c := range []struct {
		each time.Duration
		n    int
	}{{50 * time.Millisecond, 60}, {time.Millisecond, 2000}} {
		b.Run(c.each.String(), func(b *testing.B) {
			took := &atomic.Int64{}
			f, v := compiled(b, written(c.n, false, ""), sleeping{each: c.each, took: took})
			// beyond is what a run takes beyond its steps' time, and all of it.
			beyond := func(s checkpoint.Store) (rest, all time.Duration) {
				took.Store(0)
				begin := time.Now()
				applied(b, s, f, v)
				all = time.Since(begin)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				return all - time.Duration(took.Load()), all
			}
			var with, without, all time.Duration
			for i := range b.N {
				rest, _ := beyond(&forgetful{persisted: make(chan checkpoint.Seq, 1)})
				without += rest
				s, err := pebblestore.Open(filepath.Join(b.TempDir(), fmt.Sprint(i)), pebblestore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				rest, whole := beyond(s)
				with, all = with+rest, all+whole
			}
			b.ReportMetric(100*float64(with-without)/float64(all), "%-checkpointing")
			b.ReportMetric(100*float64(with)/float64(all), "%-engine")
		})
	}
}

// BenchmarkFirstStep: from the opening of the store of a dead process to the first
// attempt of the run that goes on, in a process of its own, of a flow of 1,200
// steps, already parsed, of which 900 have succeeded with 4 KiB each. The claim:
// 30 ms with a store that was closed, 150 ms with one that was killed and has all of
// it in its log.
func BenchmarkFirstStep(b *testing.B) {
	for _, killed := range []bool{false, true} {
		name := map[bool]string{false: "closed", true: "killed"}[killed]
		b.Run(name, func(b *testing.B) {
			var took []float64
			for i := range b.N {
				dir := filepath.Join(b.TempDir(), fmt.Sprint(i))
				first, used := filepath.Join(dir, "first"), filepath.Join(dir, "first")
				k := firstStep(b)
				k.run = broken(k.run)
				s := firstStepApply(b, k.flow(), k, first)
				if killed {
					used = filepath.Join(dir, "killed")
					if err := os.CopyFS(used, os.DirFS(first)); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				child := exec.Command(os.Args[0], "-test.run=^TestFirstStepAgain$", "-test.v")
				child.Env = append(os.Environ(), firstStepDir+"="+used)
				out, err := child.CombinedOutput()
				_, after, found := strings.Cut(string(out), "first step after ")
				d, errParse := time.ParseDuration(strings.Fields(after + " -")[0])
				if err != nil || errParse != nil || !found {
					b.Fatalf("%v: %s", err, out)
				}
				took = append(took, d.Seconds()*1000)
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(median(took), "ms-to-first-step")
			b.ReportMetric(0, "ns/op") // the sum says nothing
		})
	}
}

const firstStepDir = "ENGINE_TEST_FIRST_STEP"

// TestFirstStepAgain is the process that goes on in BenchmarkFirstStep.
func TestFirstStepAgain(t *testing.T) {
	dir := os.Getenv(firstStepDir)
	if dir == "" {
		t.Skip("it is a process of BenchmarkFirstStep")
	}
	k := firstStep(t)
	var began time.Time
	answer := k.run
	k.run = func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		if began.IsZero() {
			began = time.Now()
		}
		return answer(ctx, req)
	}
	f := k.flow()
	begin := time.Now()
	s := firstStepApply(t, f, k, dir)
	t.Log("first step after", began.Sub(begin))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// firstStep is a chain of 1,200 steps with outputs of 4 KiB.
func firstStep(tb testing.TB) *fake {
	k := &fake{tb: tb, quiet: true}
	for i := range 1200 {
		s := fakeStep{name: fmt.Sprint("s", i)}
		if i > 0 {
			s.refs = hard(i - 1)
		}
		k.steps = append(k.steps, s)
	}
	pad := strings.Repeat("x", 4<<10)
	k.run = func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{Output: json.RawMessage(`{"pad":"` + pad + `"}`)}, nil
	}
	return k
}

type answering = func(context.Context, *sdk.Request) (*sdk.Response, error)

// broken fails the 901st.
func broken(run answering) answering {
	return func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		if req.Step == "step.s900" {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "no"}
		}
		return run(ctx, req)
	}
}

func firstStepApply(tb testing.TB, f *Flow, k *fake, dir string) *pebblestore.Store {
	s, err := pebblestore.Open(dir, pebblestore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	h, err := New(Options{Store: s})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := h.apply(context.Background(), f, k.inputs(), RunOptions{}); err != nil {
		tb.Fatal(err)
	}
	return s
}

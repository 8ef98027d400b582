package wasm

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/retrace-dev/engine/host/loader"
)

// instance is one instance of a module, metered or not, outside of the loader.
type instance struct {
	api.Module
	ctx context.Context
	a   *attempt
}

// compiled is a module that makes instances.
type compiled struct {
	r wazero.Runtime
	m wazero.CompiledModule
}

func compileBytes(t testing.TB, code []byte) compiled {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCoreFeatures(features))
	t.Cleanup(func() { _ = r.Close(ctx) })
	if _, err := instantiateHost(ctx, r); err != nil {
		t.Fatal(err)
	}
	m, err := r.CompileModule(ctx, code)
	if err != nil {
		t.Fatal(err)
	}
	return compiled{r, m}
}

func (c compiled) instantiate(t testing.TB) instance {
	t.Helper()
	a := &attempt{host: okHost, ctx: context.Background(), limits: loader.Limits{}.WithDefaults()}
	ctx := context.WithValue(context.Background(), attemptKey{}, a)
	m, err := c.r.InstantiateModule(ctx, c.m, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	return instance{m, ctx, a}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// do calls an export and describes everything that can be seen of it.
func (i instance) do(name string, args ...uint64) string {
	n := len(i.ExportedFunction(name).Definition().ParamTypes())
	r, err := i.ExportedFunction(name).Call(i.ctx, args[:n]...)
	text := fmt.Sprint(r)
	if err != nil {
		text, _, _ = strings.Cut(err.Error(), "\n")
	}
	mem, _ := i.Memory().Read(0, i.Memory().Size())
	return fmt.Sprintf("%s global %d memory %d %x", text, i.ExportedGlobal("g").Get(), len(mem), crc32.Checksum(mem, castagnoli))
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func meterOf(t testing.TB, b []byte) []byte {
	t.Helper()
	m, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return m.meter()
}

// TestMeteringChangesNothing compares a module as written and as rewritten, on
// everything the rewriter touches and on arguments around its edges.
func TestMeteringChangesNothing(t *testing.T) {
	t.Parallel()
	b := readFile(t, "testdata/guests/meter.wasm")
	metered := meterOf(t, b)
	const mem, mib = 64 << 16, 1 << 20
	i32 := func(v int) uint64 { return uint64(uint32(v)) }
	args := map[string][][]uint64{
		"": {{0}, {1}, {2}, {3}, {5}, {7}, {8}, {9}, {100}},
		"fill": {{0, 1, 0}, {5, 2, 100}, {3, 3, mib}, {3, 4, mib + 1}, {1, 5, 3*mib + 7}, {0, 6, mem}, {0, 7, mem + 1}, {mem, 8, 0}, {mem + 1, 9, 0},
			{mem - mib, 10, 2 * mib}, {i32(-1), 11, 2}, {0, 12, i32(-1)}},
		"copy": {{0, 9, 100}, {9, 0, 100}, {0, 1, 2*mib + 3}, {1, 0, 2*mib + 3}, {mib / 2, 0, 3 * mib}, {0, mib / 2, 3 * mib}, {7, 7, 2 * mib},
			{0, mem - 5, 6}, {mem - 5, 0, 6}, {mem - mib, 0, 2 * mib}, {0, mem - mib, 2 * mib}, {mem, mem, 0}, {mem + 1, 0, 0}, {0, mem + 1, 0}, {i32(-1), i32(-1), i32(-1)}},
		"init":                 {{0, 0, 0}, {100, 2, 5}, {0, 0, 100}, {mem - 1, 0, 2}, {0, i32(-1), 1}},
		"grow":                 {{0}, {1}, {36}, {37}, {70000}, {i32(-1)}},
		"table init":           {{0, 0, 3}, {2, 0, 1}, {1, 1, 1}, {7, 0, 3}, {0, 0, 9}},
		"table copy":           {{0, 2, 2}, {1, 0, 3}, {0, 0, 9}, {9, 0, 0}},
		"loop with parameters": {{1}, {2}, {100}},
		"table grow":           {{0}, {1}, {9000}},
	}
	names := []string{}
	original, rewritten := compileBytes(t, b), compileBytes(t, metered)
	for name := range original.m.ExportedFunctions() {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) < 20 {
		t.Fatalf("only %q", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sets := args[name]
			if sets == nil {
				sets = args[""]
			}
			for _, s := range sets { // fresh instances: what one call leaves must not hide the next
				x, y := original.instantiate(t), rewritten.instantiate(t)
				for range 2 {
					if want, got := x.do(name, s...), y.do(name, s...); want != got {
						t.Errorf("%v: as written %s, metered %s", s, want, got)
					}
				}
				_ = x.Close(x.ctx)
				if d := left(y.ExportedGlobal(exportLeft).Get()).frames(); d != 0 && !strings.Contains(y.do(name, s...), "wasm error") {
					t.Errorf("%v: %d frames are still open", s, d)
				}
			}
		})
	}
}

// TestFuelIsDeterministic: the same work costs the same, and more work more.
func TestFuelIsDeterministic(t *testing.T) {
	t.Parallel()
	metered := compileBytes(t, meterOf(t, readFile(t, "testdata/guests/meter.wasm")))
	spent := func(name string, args ...uint64) int64 {
		i := metered.instantiate(t)
		i.do(name, args...)
		return i.a.fuel + quantum - left(i.ExportedGlobal(exportLeft).Get()).fuel()
	}
	if a, b := spent("loop", 1000), spent("loop", 1000); a != b {
		t.Errorf("%d, then %d", a, b)
	}
	for _, c := range []struct {
		name        string
		less, more  []uint64
		atLeastMore int64
	}{
		{"loop", []uint64{1000}, []uint64{2000}, 8000},
		{"fac", []uint64{10}, []uint64{20}, 50},
		{"fill", []uint64{0, 1, 1 << 20}, []uint64{0, 1, 4 << 20}, 3 << 17},
		{"copy", []uint64{0, 9, 1 << 20}, []uint64{9, 0, 3 << 20}, 2 << 17},
		{"table grow", []uint64{0}, []uint64{90_000}, 10_000},
	} {
		if d := spent(c.name, c.more...) - spent(c.name, c.less...); d < c.atLeastMore {
			t.Errorf("%s: %v costs only %d more than %v", c.name, c.more, d, c.less)
		}
	}
}

// TestTableGrowIsBounded: the ceiling holds for tables without a maximum.
func TestTableGrowIsBounded(t *testing.T) {
	t.Parallel()
	i := compileBytes(t, meterOf(t, readFile(t, "testdata/guests/meter.wasm"))).instantiate(t)
	if got := i.do("table grow", maxTable); !strings.HasPrefix(got, "[4294967295]") {
		t.Errorf("growing by %d gave %s", maxTable, got)
	}
}

// TestNamesMoveAlong: a trace names the guest's functions, not their neighbours.
func TestNamesMoveAlong(t *testing.T) {
	t.Parallel()
	b := readFile(t, "testdata/guests/probe.wasm")
	names := func(code []byte) map[string]bool {
		r := wazero.NewRuntime(t.Context())
		defer r.Close(t.Context())
		c, err := r.CompileModule(t.Context(), code)
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]bool{}
		for export, d := range c.ExportedFunctions() {
			set[export+" is "+d.Name()] = true
		}
		return set
	}
	want, got := names(b), names(meterOf(t, b))
	for n := range want {
		if !got[n] {
			t.Errorf("%s, but metered %v", n, got)
		}
	}
}

func (l left) frames() int64 { return int64(l)&(1<<frameBits-1) - noFrames }

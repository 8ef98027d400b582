package wasm

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

// hostile says what becomes of each module in testdata/hostile: refused by Open
// with a reason, or an attempt that ends so. The attempts may answer with 1 MiB.
var hostile = map[string]struct {
	refused string
	class   sdk.Class
	code    string
	message string
}{
	"01_spin":                       {class: sdk.ClassTimeout},
	"03_exp_calls_no_loop":          {class: sdk.ClassTimeout},
	"05_bulk_fill_64MiB":            {class: sdk.ClassTimeout},
	"06_recurse":                    {class: sdk.ClassPluginCrash, code: "stack_overflow"},
	"07_mem_min_4GiB":               {refused: "a minimum memory of 4096 MiB, the limit is 1024 MiB"},
	"09_table_min":                  {refused: "a table of 134217727 entries, the limit is 100000"},
	"12_stdout_flood":               {class: sdk.ClassResourceExhausted, code: "output_too_large"},
	"13_stderr_forgery":             {class: sdk.ClassProtocol, message: "saw nothing"},
	"15_path_dotdot":                {class: sdk.ClassPluginCrash, message: "unreachable"},
	"16_symlink_escape":             {class: sdk.ClassPluginCrash, message: "unreachable"},
	"19_iovec_bomb":                 {class: sdk.ClassResourceExhausted, code: "output_too_large"},
	"21_proc_exit0_no_output":       {class: sdk.ClassProtocol, message: "saw nothing"},
	"22_trap_unreachable":           {class: sdk.ClassPluginCrash, message: "unreachable"},
	"23_ungranted_import":           {refused: `import "engine"."http_request" is not known`},
	"27_env_probe":                  {class: sdk.ClassProtocol, message: "saw nothing"},
	"28_state_leak":                 {class: sdk.ClassProtocol, message: "saw nothing"},
	"35_forge_fuel":                 {refused: "global 0 is not declared"},
	"40_decode_funcs":               {refused: "2147483647 functions are announced"},
	"41_decode_imports":             {refused: "2147483647 imports are announced"},
	"44_decode_globals":             {refused: "2147483647 globals are announced"},
	"47_decode_types":               {refused: "2147483647 types are announced"},
	"50_compile_50k_locals":         {refused: "more than 5000 locals"},
	"52_compile_nested_blocks_100k": {refused: "blocks nest deeper than 4096"},
	"54_compile_br_table_1M":        {refused: "1000000 br_table targets"},
}

func hostileModules(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/hostile/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	modules := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(p, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if b, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
			p = strings.TrimSuffix(p, ".gz")
		}
		modules[strings.TrimSuffix(filepath.Base(p), ".wasm")] = b
	}
	return modules
}

func TestHostile(t *testing.T) {
	t.Parallel()
	modules := hostileModules(t)
	if len(modules) != len(hostile) {
		t.Errorf("%d modules, %d expectations", len(modules), len(hostile))
	}
	eachLevel(t, func(t *testing.T, o Options) {
		for name, b := range modules {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				want, ok := hostile[name]
				if !ok {
					t.Fatal("no expectation")
				}
				path := filepath.Join(t.TempDir(), "m.wasm")
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				speaks(t, path)
				l := newLoader(t, o)
				a, err := l.Open(path)
				if want.refused != "" {
					if err == nil || !strings.Contains(err.Error(), want.refused) || !strings.Contains(err.Error(), path) {
						t.Fatalf("Open gives %v, want %q", err, want.refused)
					}
					_, err = l.Load(t.Context(), &loader.Artifact{Kind: loader.Wasm, Path: path, Bytes: b})
					if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassSandbox || e.Code != "module_refused" {
						t.Fatalf("Load gives %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				p, err := l.Load(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				s := loadertest.Step(t, p, "run", loader.Limits{Response: 1 << 20})
				if s, ok := s.(loader.Preparer); ok { // the start of a worker is not on the module's time
					release, err := s.Prepare(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer release()
				}
				ctx := t.Context()
				if want.class == sdk.ClassTimeout { // the others end by themselves
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				}
				r, err := s.Run(ctx, request(`{}`), okHost)
				e := sdk.AsError(err)
				if e == nil || e.Class != want.class || e.Code != want.code || !strings.Contains(e.Message, want.message) {
					t.Fatalf("gave %+v, %v", r, err)
				}
				if name == "13_stderr_forgery" && !strings.Contains(e.Stderr, `"tenant b: step approved"`) {
					t.Errorf("stderr is %q", e.Stderr)
				}
			})
		}
	})
}

// TestHostileCostsLittle: refusing a bomb allocates in proportion to its own
// length, not to what it announces.
func TestHostileCostsLittle(t *testing.T) {
	for name, b := range hostileModules(t) { // not parallel: it reads a counter of the process
		if hostile[name].refused == "" {
			continue
		}
		allocated := allocatedBy(func() { _, _ = parse(b) })
		if limit := uint64(1<<20 + 4*len(b)); allocated > limit {
			t.Errorf("%s: refusing %d bytes allocated %d", name, len(b), allocated)
		}
	}
}

func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

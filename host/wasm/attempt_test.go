package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

// recorder is a Host that keeps the messages it was sent.
type recorder struct {
	mu   sync.Mutex
	msgs []string
}

func (r *recorder) Call(_ context.Context, msg []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, string(msg))
	return []byte(`{"ok":{}}`), nil
}

func probePlugin(t testing.TB) loader.Plugin {
	t.Helper()
	p := loadertest.Load(t, newLoader(t, Options{}), "testdata/guests/probe.wasm")
	return p
}

func TestHowAnAttemptEnds(t *testing.T) {
	t.Parallel()
	eachLevel(t, howAnAttemptEnds)
}

func howAnAttemptEnds(t *testing.T, o Options) {
	p := loadertest.Load(t, newLoader(t, o), "testdata/guests/probe.wasm")
	for do, want := range map[string]struct {
		output string
		class  sdk.Class
		code   string
		text   string // in the message
	}{
		"calls":                {output: `-`},
		"recurse":              {class: sdk.ClassPluginCrash, code: "stack_overflow", text: "deeper than 10000"},
		"memory":               {class: sdk.ClassResourceExhausted, code: "memory", text: "more than 8 MiB"},
		"trap":                 {class: sdk.ClassPluginCrash, text: "the step crashed: unreachable"},
		"bounds":               {class: sdk.ClassPluginCrash, text: "out of bounds memory access"},
		"exit75":               {class: sdk.ClassUnavailable, text: "code 75"},
		"exit3":                {class: sdk.ClassInternal, text: "code 3"},
		"exit64 with an error": {class: sdk.ClassQuota},
		"exit3 with an output": {class: sdk.ClassInternal, text: "code 3"},
		"nothing":              {class: sdk.ClassProtocol, text: "saw nothing"},
		"not json":             {class: sdk.ClassProtocol, text: `saw "hello"`},
		"write outside":        {class: sdk.ClassPluginCrash, text: "engine_v1.write: 100 bytes"},
		"write too much":       {class: sdk.ClassResourceExhausted, code: "output_too_large"},
		"stderr flood":         {class: sdk.ClassResourceExhausted, code: "stderr_too_large"},
		"call":                 {output: `{"ok":{}}`},
		"respond":              {output: `"responded"`},
		"files":                {output: `"1 1 0 1 0 0 -1 0 -1 0 -1 9 0 "`},
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			s := loadertest.Step(t, p, "run", loader.Limits{Memory: 8 << 20, Stderr: 4 << 10})
			var rec recorder
			r, err := s.Run(t.Context(), request(`{"do":"`+do+`"}`), &rec)
			if want.output != "" {
				if err != nil || want.output != "-" && string(r.Output) != want.output {
					t.Fatalf("%+v, %v", r, err)
				}
				return
			}
			e := sdk.AsError(err)
			if e == nil || e.Class != want.class || e.Code != want.code || !strings.Contains(e.Message, want.text) {
				t.Fatalf("%+v, %v", r, err)
			}
			switch do {
			case "exit3":
				if d := cmp.Diff([]string{`{"op":"log","level":"info","message":"line one"}`, `{"op":"log","level":"info","message":"line two"}`}, rec.msgs); d != "" || e.Stderr != "line one\nline two" {
					t.Errorf("stderr %q, %s", e.Stderr, d)
				}
			case "exit64 with an error":
				if len(rec.msgs) != 1 || !strings.Contains(rec.msgs[0], `"input_tokens":5`) {
					t.Errorf("the failed response's usage was lost: %q", rec.msgs)
				}
			case "trap":
				if !strings.Contains(string(e.Details), "step_run") {
					t.Errorf("no trace: %s", e.Details)
				}
			}
		})
	}
}

// TestDefaultLimits: what an attempt may use where nothing is said, and fuel,
// which has no default.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, o Options) {
		p := loadertest.Load(t, newLoader(t, o), "testdata/guests/probe.wasm")
		for do, want := range map[string]struct {
			limits     loader.Limits
			input      string // more of it
			code, text string
		}{
			"memory":         {code: "memory", text: "more than 64 MiB"},
			"write too much": {code: "output_too_large", text: "16777216"},
			"stderr flood":   {code: "stderr_too_large", text: "1048576"},
			"call":           {input: strings.Repeat("x", loader.DefaultRequest), code: "request_too_large", text: "the limit is 16777216"},
			"spin":           {limits: loader.Limits{Fuel: 3_000_000}, code: "fuel", text: "3000000"},
		} {
			t.Run(do, func(t *testing.T) {
				t.Parallel()
				_, err := loadertest.Step(t, p, "run", want.limits).Run(t.Context(), request(`{"do":"`+do+`","x":"`+want.input+`"}`), okHost)
				if e := sdk.AsError(err); e == nil || e.Class != sdk.ClassResourceExhausted || e.Code != want.code || !strings.Contains(e.Message, want.text) {
					t.Error(err)
				}
			})
		}
	})
}

func TestCallFileOperations(t *testing.T) {
	t.Parallel()
	var rec recorder
	if _, err := loadertest.Step(t, probePlugin(t), "run", loader.Limits{}).Run(t.Context(), request(`{"do":"files"}`), &rec); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`{"op":"emit","chunk":"f"}`, `{"op":"emit","chunk":"closed"}`}, rec.msgs); d != "" {
		t.Error(d)
	}
}

// TestTheEndOfTheContext: whatever a guest does, the end of the context ends
// the attempt; the test's own time limit says if not.
func TestTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	eachLevel(t, theEndOfTheContext)
}

func theEndOfTheContext(t *testing.T, o Options) {
	p := loadertest.Load(t, newLoader(t, o), "testdata/guests/probe.wasm")
	why := errors.New("fail fast")
	for _, do := range []string{"spin", "fill", "sleep", "calls without end"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			s := loadertest.Step(t, p, "run", loader.Limits{})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if _, err := s.Run(ctx, request(`{"do":"`+do+`"}`), okHost); sdk.AsError(err).Class != sdk.ClassTimeout {
				t.Errorf("a deadline gives %v", err)
			}
			ctx2, cancel2 := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(30*time.Millisecond, func() { cancel2(why) })
			defer timer.Stop()
			if _, err := s.Run(ctx2, request(`{"do":"`+do+`"}`), okHost); sdk.AsError(err).Class != sdk.ClassCancelled || sdk.AsError(err).Message != why.Error() {
				t.Errorf("a cancel gives %v", err)
			}
		})
	}
}

// TestBlockedHostCall: an operation that waits for the context ends with it.
func TestBlockedHostCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := hostFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
		cancel()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	_, err := loadertest.Step(t, probePlugin(t), "run", loader.Limits{}).Run(ctx, request(`{"do":"call"}`), waiting)
	if sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Error(err)
	}
}

// TestTheHostEndsTheAttempt: an error of Host.Call is the attempt's.
func TestTheHostEndsTheAttempt(t *testing.T) {
	t.Parallel()
	limited := hostFunc(func(context.Context, []byte) ([]byte, error) {
		return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "host_calls"}
	})
	_, err := loadertest.Step(t, probePlugin(t), "run", loader.Limits{}).Run(t.Context(), request(`{"do":"call"}`), limited)
	if e := sdk.AsError(err); e.Class != sdk.ClassResourceExhausted || e.Code != "host_calls" {
		t.Error(err)
	}
}

func TestRequestAndMessageLimits(t *testing.T) {
	t.Parallel()
	p := probePlugin(t)
	_, err := loadertest.Step(t, p, "run", loader.Limits{Request: 1 << 10}).Run(t.Context(), request(`{"x":"`+strings.Repeat("x", 1<<10)+`"}`), okHost)
	if e := sdk.AsError(err); e.Class != sdk.ClassResourceExhausted || e.Code != "request_too_large" {
		t.Error(err)
	}
	if _, err := p.Step("run", loader.Limits{Memory: 1 << 20}); sdk.AsError(err).Code != "memory" {
		t.Errorf("a module that needs more than the limit gives %v", err)
	}
}

// TestPureStepsRepeat: a step without effects sees time and randomness that
// follow from its idempotency key; others see the real ones.
func TestPureStepsRepeat(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/guests/probe.wasm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, effects := range []string{"none", "read"} {
		path := filepath.Join(dir, effects+".wasm")
		manifest := fmt.Sprintf(`{"abi":1,"name":"probe","steps":{"run":{"effects":%q}}}`, effects)
		for file, content := range map[string][]byte{path: b, filepath.Join(dir, effects+".step.json"): []byte(manifest)} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := newLoader(t, Options{})
		a, p := loadertest.Open(t, l, path), loadertest.Load(t, l, path)
		if a.Digest == sdk.Sum(b) {
			t.Error("the sidecar is not in the digest")
		}
		s := loadertest.Step(t, p, "run", loader.Limits{})
		run := func(key string) string {
			req := request(`{"do":"random and time"}`)
			req.IdempotencyKey = key
			r, err := s.Run(t.Context(), req, okHost)
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Output)
		}
		a1, a2, other := run("a"), run("a"), run("b")
		if effects == "none" && (a1 != a2 || a1 == other || !strings.Contains(a1, " 946684800.00")) {
			t.Errorf("without effects: %s, %s, other key %s", a1, a2, other)
		}
		if effects == "read" && (a1 == a2 || strings.Contains(a1, " 9466848")) {
			t.Errorf("with effects: %s, %s", a1, a2)
		}
	}
	p := loadertest.Load(t, newLoader(t, Options{}), filepath.Join(dir, "none.wasm"))
	r, err := loadertest.Step(t, p, "run", loader.Limits{}).Run(t.Context(), request(`{"do":"sleep"}`), okHost)
	if err != nil || string(r.Output) != `"slept"` {
		t.Errorf("a sleep without effects: %+v, %v", r, err)
	}
}

func TestCloseEndsAttempts(t *testing.T) {
	t.Parallel()
	p := probePlugin(t)
	s := loadertest.Step(t, p, "run", loader.Limits{})
	entered := make(chan struct{})
	var once sync.Once
	host := hostFunc(func(context.Context, []byte) ([]byte, error) {
		once.Do(func() { close(entered) })
		return []byte(`{"ok":{}}`), nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(context.Background(), request(`{"do":"calls without end"}`), host)
		ended <- err
	}()
	<-entered
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if sdk.AsError(err).Class != sdk.ClassCancelled {
			t.Error(err)
		}
	case <-t.Context().Done():
	}
	if _, err := s.Run(t.Context(), request(`{}`), okHost); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Errorf("an attempt after Close gives %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestManyAtOnce: instances of one compiled module do not see each other.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := loadertest.Load(t, newLoader(t, Options{}), "testdata/guests/reactor.wasm")
	s := loadertest.Step(t, p, "upper", loader.Limits{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				text := fmt.Sprintf("a %d %d", i, j)
				r, err := s.Run(t.Context(), request(`{"text":"`+text+`"}`), okHost)
				if err != nil || string(r.Output) != fmt.Sprintf(`{"upper":"A %d %d","words":3}`, i, j) {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	wg.Wait()
}

// goModule builds a Go program of one file as a command.
func goModule(t testing.TB, source string) string {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "m.wasm")
	for name, content := range map[string]string{"main.go": source, "go.mod": "module guest\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, ".")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	speaks(t, out)
	return out
}

// TestGo: a Go command without an SDK, with its panic, its directory listing
// and what it finds of the host.
func TestGo(t *testing.T) {
	t.Parallel()
	p := loadertest.Load(t, newLoader(t, Options{}), goModule(t, `package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	in, _ := io.ReadAll(os.Stdin)
	if strings.Contains(string(in), "panic") {
		panic("at the guest")
	}
	f, err := os.OpenFile("/engine/call", os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	fmt.Fprint(f, "{\"op\":\"emit\",\"chunk\":\"中文\"}")
	reply, err := io.ReadAll(f)
	entries, _ := os.ReadDir("/")
	fmt.Printf("{\"output\":[%q,%q,%d,%d,%q]}", reply, fmt.Sprint(err), len(os.Args), len(os.Environ()), fmt.Sprint(entries))
}
`))
	s := loadertest.Step(t, p, "run", loader.Limits{})
	r, err := s.Run(t.Context(), request(`{}`), okHost)
	if want := `["{\"ok\":{}}","<nil>",1,0,"[d engine/ d tmp/]"]`; err != nil || string(r.Output) != want {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = s.Run(t.Context(), request(`{"panic":1}`), okHost)
	if e := sdk.AsError(err); e.Class != sdk.ClassInternal || !strings.Contains(e.Stderr, "panic: at the guest") {
		t.Errorf("%v, stderr %q", e, e.Stderr)
	}
}

// TestNothingIsLeft: an attempt leaves a mark in its memory and a global; the
// next one traps if it sees either. Memories are used again.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := sections(1, "\x01\x60\x00\x00", 3, "\x01\x00", 5, "\x01\x00\x02", 6, "\x01\x7f\x01\x41\x00\x0b", 7, "\x01\x06_start\x00\x00",
		10, code("\x00"+
			"\x41\x80\xa0\x04\x28\x02\x00"+ // i32.load 69632
			"\x23\x00\x6a"+ // global.get, i32.add
			"\x04\x40\x00\x0b"+ // if unreachable
			"\x41\x80\xa0\x04\x41\xb9\x0a\x36\x02\x00"+ // i32.store 69632, 1337
			"\x41\x01\x24\x00"+ // global.set 1
			"\x41\x01\x40\x00\x1a"+ // memory.grow
			"\x0b"))
	s := loadertest.Step(t, loadBytes(t, b), "run", loader.Limits{})
	for range 3 {
		_, err := s.Run(t.Context(), request(`{}`), okHost)
		if e := sdk.AsError(err); e.Class != sdk.ClassProtocol {
			t.Fatal(err)
		}
	}
}

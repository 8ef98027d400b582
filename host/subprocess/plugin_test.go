//go:build unix

package subprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

// both runs a test with plugins under a runner (where there is one) and without.
func both(t *testing.T, f func(t *testing.T, self bool)) {
	t.Helper()
	for _, self := range []bool{true, false} {
		t.Run(fmt.Sprintf("runner=%t", self), func(t *testing.T) {
			t.Parallel()
			f(t, self)
		})
	}
}

func run(t *testing.T, s sdk.Step, in string) (string, error) {
	t.Helper()
	r, err := s.Run(t.Context(), request(in), &recorder{})
	if err != nil {
		return "", err
	}
	return string(r.Output), nil
}

func TestWhatAPluginSees(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		p := loadertest.Load(t, newLoader(t, self), probe(t, probeManifest))
		s := loadertest.Step(t, p, "probe", loader.Limits{})
		if out, err := run(t, s, `{"do":"echo","text":"中文 🏴 עברית"}`); err != nil || out != `"中文 🏴 עברית"` {
			t.Errorf("echo %s, %v", out, err)
		}
		if out, err := run(t, s, `{"do":"big","text":"0123456789abcdef","n":100000}`); err != nil || len(out) != 1600002 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		if out, err := run(t, s, `{"do":"stdin"}`); err != nil || out != `"0 EOF"` {
			t.Errorf("stdin %s, %v", out, err)
		}
		if out, err := run(t, s, `{"do":"stdout"}`); err != nil || out != `"printed"` {
			t.Errorf("a long line on stdout: %s, %v", out, err)
		}
		if out, err := run(t, s, `{"do":"calls","text":"中文","n":50}`); err != nil || out != `null` {
			t.Errorf("calls %s, %v", out, err)
		}
		out, err := run(t, s, `{"do":"env"}`)
		var env []string
		if err != nil || json.Unmarshal([]byte(out), &env) != nil {
			t.Fatalf("%s, %v", out, err)
		}
		allowed := map[string]bool{"PATH": true, "HOME": true, "LANG": true, "TMPDIR": true, "TMP": true, "TEMP": true, "ENGINE_PLUGIN": true}
		for _, kv := range env {
			if k, _, _ := strings.Cut(kv, "="); !allowed[k] && !strings.HasPrefix(k, "PLUGIN_") {
				t.Errorf("the plugin sees %s", kv)
			}
		}
		// With variables of the flow it is another process, which keeps the others.
		own := loadertest.Step(t, p, "probe", loader.Limits{World: &loader.World{Env: map[string]string{"GIVEN": "中 文", "LANG": "xx"}}})
		out, err = run(t, own, `{"do":"env"}`)
		if err != nil || !strings.Contains(out, `"GIVEN=中 文"`) || !strings.Contains(out, `"LANG=xx"`) || !strings.Contains(out, `"TMPDIR=`) {
			t.Errorf("%s, %v", out, err)
		}
		if again, err := run(t, s, `{"do":"env"}`); err != nil || strings.Contains(again, "GIVEN") {
			t.Errorf("without them: %s, %v", again, err)
		}
		if out, err := run(t, loadertest.Step(t, p, "respond", loader.Limits{}), `{}`); err != nil || out != `"responded"` {
			t.Errorf("respond %s, %v", out, err)
		}
		if _, err := p.Step("other", loader.Limits{}); err == nil || !strings.Contains(err.Error(), "it has echo, probe, respond") {
			t.Error(err)
		}
	})
}

func TestCrashes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		s := loadertest.Step(t, loadertest.Load(t, newLoader(t, self), probe(t, probeManifest)), "probe", loader.Limits{})
		first, err := run(t, s, `{"do":"pid"}`)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := run(t, s, `{"do":"pid"}`); again != first {
			t.Errorf("two attempts ran in processes %s and %s, %v", first, again, err)
		}
		for in, want := range map[string]struct {
			class sdk.Class
			text  string
		}{
			`{"do":"exit","n":3}`: {sdk.ClassPluginCrash, "exited with status 3 during the attempt"},
			`{"do":"exit"}`:       {sdk.ClassProtocol, "exited with status 0 without a response"},
			`{"do":"kill"}`:       {sdk.ClassPluginCrash, "was killed by signal 9 (SIGKILL)"},
		} {
			_, err := run(t, s, in)
			e := sdk.AsError(err)
			if e == nil || e.Class != want.class || !strings.Contains(e.Message, want.text) {
				t.Errorf("%s: %v", in, err)
			}
			if strings.Contains(in, "exit") && e.Stderr != "last words" {
				t.Errorf("%s: stderr %q", in, e.Stderr)
			}
			if pid, err := run(t, s, `{"do":"pid"}`); err != nil || pid == first {
				t.Errorf("after %s: process %s, %v", in, pid, err)
			}
		}
		_, err = run(t, s, `{"do":"panic"}`)
		if e := sdk.AsError(err); e.Class != sdk.ClassInternal || e.Code != "panic" || !strings.HasPrefix(e.Stderr, "panic: at the step\nmain.probe(") {
			t.Errorf("%v, stderr %q", e, e.Stderr)
		}
	})
}

func TestStderr(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		s := loadertest.Step(t, loadertest.Load(t, newLoader(t, self), probe(t, probeManifest)), "probe", loader.Limits{Stderr: 8 << 10, Grace: 5 * time.Second})
		for range 3 { // all lines written before the response are there, each time
			var rec recorder
			_, err := s.Run(t.Context(), request(`{"do":"stderr","text":"one\ntwo \u0001 中文\nwithout an end"}`), &rec)
			e := sdk.AsError(err)
			if e.Class != sdk.ClassQuota || e.Stderr != "one\ntwo \x01 中文\nwithout an end" {
				t.Errorf("%v, stderr %q", e, e.Stderr)
			}
			if d := cmp.Diff([]string{`{"op":"log","level":"info","message":"one"}`, `{"op":"log","level":"info","message":"two \u0001 中文"}`, `{"op":"log","level":"info","message":"without an end"}`}, rec.msgs); d != "" {
				t.Error(d)
			}
		}
		_, err := run(t, s, `{"do":"stderr flood"}`)
		if e := sdk.AsError(err); e.Class != sdk.ClassResourceExhausted || e.Code != "stderr_too_large" {
			t.Error(err)
		}
		if out, err := run(t, s, `{"do":"echo","text":"still there"}`); err != nil {
			t.Error(out, err)
		}
	})
}

func TestTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		p := loadertest.Load(t, newLoader(t, self), probe(t, probeManifest))
		patient := loadertest.Step(t, p, "probe", loader.Limits{Grace: time.Minute})
		first, err := run(t, patient, `{"do":"pid"}`)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			do    string
			grace time.Duration
			same  bool // the process lives on
		}{{"obey", time.Minute, true}, {"hang", 50 * time.Millisecond, false}, {"stop", 50 * time.Millisecond, false}} {
			ctx, cancel := context.WithCancelCause(t.Context())
			entered := hostFunc(func(context.Context, []byte) ([]byte, error) { // the step says that it has begun
				cancel(context.DeadlineExceeded)
				return []byte(`{"ok":{}}`), nil
			})
			_, err := loadertest.Step(t, p, "probe", loader.Limits{Grace: c.grace}).Run(ctx, request(`{"do":"`+c.do+`"}`), entered)
			if sdk.AsError(err).Class != sdk.ClassTimeout {
				t.Errorf("%s: %v", c.do, err)
			}
			if pid, err := run(t, patient, `{"do":"pid"}`); err != nil || (pid == first) != c.same {
				t.Errorf("after %s: process %s, before %s, %v", c.do, pid, first, err)
			}
		}
	})
}

func TestOneAtATimeUnlessConcurrent(t *testing.T) {
	t.Parallel()
	concurrent := strings.Replace(probeManifest, `"abi":1`, `"abi":1,"concurrent":true`, 1)
	s := loadertest.Step(t, loadertest.Load(t, newLoader(t, true), probe(t, concurrent)), "probe", loader.Limits{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if out, err := run(t, s, `{"do":"parallel","n":4}`); err != nil || out != `"together"` {
				t.Error(out, err)
			}
		})
	}
	wg.Wait()

	one := loadertest.Load(t, newLoader(t, true), probe(t, probeManifest)).(*plugin)
	s = loadertest.Step(t, one, "probe", loader.Limits{})
	one.turn <- struct{}{} // somebody runs
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Run(ctx, request(`{"do":"pid"}`), &recorder{}); sdk.AsError(err).Class != sdk.ClassTimeout {
		t.Error(err)
	}
	<-one.turn
}

// TestAnAttemptIsPrepared: a process that has died is started again before an
// attempt, and Close ends that too.
func TestAnAttemptIsPrepared(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		p := loadertest.Load(t, newLoader(t, self), probe(t, probeManifest)).(*plugin)
		s := loadertest.Step(t, p, "probe", loader.Limits{})
		prepared := func() *process {
			t.Helper()
			release, err := s.(loader.Preparer).Prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			release()
			return p.processes[""]
		}
		first := prepared()
		if prepared() != first {
			t.Error("another was started")
		}
		first.kill()
		second := prepared()
		if second == first || !second.alive() {
			t.Error("none was started")
		}
		if _, err := run(t, s, `{"do":"pid"}`); err != nil || p.processes[""] != second {
			t.Errorf("the attempt has another: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.(loader.Preparer).Prepare(t.Context()); sdk.AsError(err).Class != sdk.ClassCancelled {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestCloseEndsAttempts(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		p := loadertest.Load(t, newLoader(t, self), probe(t, probeManifest))
		closeEnds(t, p, loadertest.Step(t, p, "probe", loader.Limits{Grace: 50 * time.Millisecond}), `{"do":"stderr flood"}`)
	})
}

// closeEnds closes c while an attempt of s runs, which does not end by itself and
// calls its host first.
func closeEnds(t *testing.T, c io.Closer, s sdk.Step, input string) {
	t.Helper()
	entered, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	host := hostFunc(func(context.Context, []byte) ([]byte, error) {
		once.Do(func() { close(entered) })
		return []byte(`{"ok":{}}`), nil
	})
	go func() {
		_, err := s.Run(context.Background(), request(input), host)
		ended <- err
	}()
	<-entered
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Error(err)
	}
	if _, err := s.Run(t.Context(), request(input), host); sdk.AsError(err).Class != sdk.ClassCancelled {
		t.Errorf("an attempt after Close gives %v", err)
	}
}

type hostFunc func(ctx context.Context, msg []byte) ([]byte, error)

func (f hostFunc) Call(ctx context.Context, msg []byte) ([]byte, error) { return f(ctx, msg) }

// TestNothingIsLeftBehind: what the plugin has started in a session of its own
// ends with the plugin.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	p := loadertest.Load(t, newLoader(t, true), probe(t, probeManifest))
	if p.(*plugin).o.Self == "" {
		t.Skip("there is no runner on this system")
	}
	out, err := run(t, loadertest.Step(t, p, "probe", loader.Limits{}), `{"do":"grandchild"}`)
	var pids []int
	if err != nil || json.Unmarshal([]byte(out), &pids) != nil {
		t.Fatal(out, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for i, who := range []string{"plugin", "runner", "grandchild"} {
		if err := syscall.Kill(pids[i], 0); err != syscall.ESRCH {
			t.Errorf("the %s lives: %v", who, err)
		}
	}
}

// TestTheEngineIsKilled: a process that has loaded a plugin is killed with
// SIGKILL; nothing of the plugin outlives it.
func TestTheEngineIsKilled(t *testing.T) {
	t.Parallel()
	path := probe(t, probeManifest)
	if newLoader(t, true).o.Self == "" {
		t.Skip("there is no runner on this system")
	}
	engine, pids := startEngine(t, path)
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = engine.Wait() // it was killed
	for i, who := range []string{"plugin", "runner", "grandchild"} {
		for syscall.Kill(pids[i], 0) != syscall.ESRCH { // the test's own limit says if it never ends
			if t.Context().Err() != nil {
				t.Fatalf("the %s lives", who)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		class  sdk.Class
		want   string
	}{
		"banner":       {"echo Welcome to my plugin\nexec sleep 1000", sdk.ClassProtocol, `printed something before its handshake; the first line on stdout must be the handshake, log to stderr; saw "Welcome to my plugin"`},
		"exits":        {"echo oops >&2; exit 4", sdk.ClassPluginCrash, "exited with status 4 before its handshake; saw nothing"},
		"exits 0":      {"exit 0", sdk.ClassPluginCrash, "exited with status 0 before its handshake"},
		"silent":       {"exec sleep 1000", sdk.ClassTimeout, "gave no handshake within"},
		"other path":   {"echo '1|1|unix|/tmp/elsewhere|grpc'; exec sleep 1000", sdk.ClassProtocol, "is not in $PLUGIN_UNIX_SOCKET_DIR"},
		"other proto":  {`echo "1|1|unix|$PLUGIN_UNIX_SOCKET_DIR/x|netrpc"; exec sleep 1000`, sdk.ClassProtocol, "unsupported plugin protocol"},
		"tcp":          {"echo '1|1|tcp|127.0.0.1:1|grpc'; exec sleep 1000", sdk.ClassProtocol, "it listens on tcp"},
		"other abi":    {"echo '1|9|unix|x|grpc'; exec sleep 1000", sdk.ClassProtocol, "9"},
		"no interpret": {"", sdk.ClassPluginCrash, "be started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, self bool) {
				l := newLoader(t, self)
				if name == "silent" {
					l.o.StartTimeout = 300 * time.Millisecond
				}
				path := t.TempDir() + "/plugin.sh"
				head := "#!/bin/sh\n"
				if c.script == "" {
					head = "#!/no/such/interpreter\n"
				}
				write(t, path, head+c.script+"\n", 0o700)
				a, err := l.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				_, err = l.Load(t.Context(), a)
				e := sdk.AsError(err)
				if e == nil || e.Class != c.class || !strings.Contains(e.Message, c.want) || !strings.Contains(e.Message, path) {
					t.Errorf("%v, want %s", err, c.want)
				}
				if name == "exits" && e.Stderr != "oops" {
					t.Errorf("stderr %q", e.Stderr)
				}
			})
		})
	}
}

func TestLoadObeysItsContext(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, self bool) {
		path := t.TempDir() + "/plugin.sh"
		write(t, path, "#!/bin/sh\nexec sleep 1000\n", 0o700)
		l := newLoader(t, self)
		a, err := l.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := l.Load(ctx, a); sdk.AsError(err).Class != sdk.ClassTimeout {
			t.Error(err)
		}
	})
}

// TestAChangedFileIsRefused: what runs is what was planned.
func TestAChangedFileIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/plugin.sh"
	write(t, path, "#!/bin/sh\nexit 0\n", 0o700)
	l := newLoader(t, false)
	a, err := l.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "#!/bin/sh\nexit 1\n", 0o700)
	if _, err := l.Load(t.Context(), a); err == nil || !strings.Contains(err.Error(), "changed since it was planned") {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Load(t.Context(), a); sdk.AsError(err).Class != sdk.ClassSandbox {
		t.Error(err)
	}
}

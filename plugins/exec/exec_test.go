//go:build unix

package exec

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/retrace-dev/engine/sdk"
)

func answer(ctx context.Context, in any) (*output, error) {
	b, err := sdk.Marshal(in)
	if err != nil {
		return nil, err
	}
	r, err := Steps()["run"].Run(ctx, &sdk.Request{Input: b}, nil)
	if err != nil {
		return nil, err
	}
	out := new(output)
	return out, json.Unmarshal(r.Output, out)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sdk.ParseManifest(b)
	if err != nil || m.Steps["run"].Effects != sdk.EffectsWrite {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, e := range m.Steps["run"].Examples {
		var want output
		if err := json.Unmarshal(e.Output, &want); err != nil {
			t.Fatal(err)
		}
		if got, err := answer(t.Context(), e.Input); err != nil || *got != want {
			t.Errorf("example %d: %+v, %v", i, got, err)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got, err := answer(t.Context(), input{Program: "sh", Args: []string{"-c", `pwd; echo "$1 $X" >&2; exit 3`, "sh", "a b; 中 $(id)"}, Env: map[string]string{"X": "🏴"}, Dir: dir, OKStatus: []int{3}})
	if d := cmp.Diff(&output{3, dir + "\n", "a b; 中 $(id) 🏴\n"}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	got, err = answer(t.Context(), input{Program: "sh", Args: []string{"-c", `printf '\377' >&2`}})
	if err != nil || got.Stderr != "\uFFFD" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) input { return input{Program: "sh", Args: []string{"-c", script}} }
	for _, c := range []struct {
		in   input
		want string
	}{
		{input{Program: "no-such-program"}, `invalid_input: there is no program "no-such-program"`},
		{input{Program: "/no/such/program"}, `invalid_input: there is no program`},
		{input{Program: plain}, `invalid_input: program "` + plain + `" may not be run`},
		{input{Program: "sh", Dir: "/no/such/dir"}, `invalid_input: there is no`},
		{input{Program: "sh", Env: map[string]string{"A=B": ""}}, `invalid_input: "A=B" is no name`},
		{sh("echo why >&2; exit 7"), "api_error/exit_7: sh ended with exit status 7: why"},
		{sh("kill -9 $$"), "api_error/signal: sh ended with signal: killed"},
		{sh(`printf '\377'`), "validation/stdout: sh wrote to stdout what is not UTF-8"},
		{sh("head -c 16000000 /dev/zero"), "api_error/stdout: sh wrote more than 15 MiB"},
	} {
		if _, err := answer(t.Context(), c.in); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v gives %v, want %s", c.in, err, c.want)
		}
	}
}

func TestCancelEndsTheProgram(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, gone)
	defer cancel()
	if _, err := answer(ctx, input{Program: "sleep", Args: []string{"600"}}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// TestLeftRunning: a program that has ended has its answer, though what it left
// running holds its output open.
func TestLeftRunning(t *testing.T) {
	t.Parallel()
	got, err := answer(t.Context(), map[string]any{"program": "sh", "args": []string{"-c", "sleep 20 & echo done"}})
	if err != nil || got.Stdout != "done\n" || got.ExitCode != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestArgumentWithNUL(t *testing.T) {
	t.Parallel()
	_, err := answer(t.Context(), map[string]any{"program": "echo", "args": []string{"a", "b\x00c"}})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Class != sdk.ClassInvalidInput || e.Path != "/args/1" {
		t.Errorf("%v", err)
	}
}

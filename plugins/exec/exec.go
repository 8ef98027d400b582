// Package exec is the native plugin std/exec: it runs programs of this machine,
// with all the rights of the person who runs the engine. Nothing holds them
// back; who needs a border writes the step as a Wasm module.
//
// It is a package and not a command because the engine serves it itself: its
// own executable, started under the name std/exec.
package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrace-dev/engine/sdk"
)

// Steps are the step types of the plugin.
func Steps() map[string]sdk.Step { return map[string]sdk.Step{"run": sdk.Func(run)} }

type input struct {
	Program  string            `json:"program"`
	Args     []string          `json:"args"`
	Stdin    string            `json:"stdin"`
	Env      map[string]string `json:"env"` // beside PATH, HOME, LANG and TMPDIR
	Dir      string            `json:"dir"` // Defaults to a directory of the plugin's own
	OKStatus []int             `json:"ok_exit_codes"`
}

type output struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

const (
	maxStdout = 15 << 20 // JSON around it must fit into the 16 MiB of a response
	maxStderr = 1 << 20

	// grace is how long a program that was asked to end may take.
	grace = 2 * time.Second
)

func run(ctx context.Context, in input, _ sdk.Host) (*output, error) {
	if in.OKStatus == nil {
		in.OKStatus = []int{0}
	}
	if i := slices.IndexFunc(in.Args, func(a string) bool { return strings.ContainsRune(a, 0) }); i >= 0 {
		return nil, invalid(fmt.Sprintf("/args/%d", i), "an argument cannot hold a NUL character")
	}
	cmd := exec.CommandContext(ctx, in.Program, in.Args...)
	cmd.Stdin, cmd.Dir, cmd.Env = strings.NewReader(in.Stdin), in.Dir, os.Environ()
	for k, v := range in.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return nil, invalid("/env", "%q is no name of an environment variable", k)
		}
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	stdout, stderr := &limited{max: maxStdout}, &limited{max: maxStderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return ask(cmd.Process) }, grace
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it has ended; what it left running holds its output open
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, invalid("/program", "there is no program %q on this machine: %v", in.Program, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrDot):
		return nil, invalid("/program", "program %q may not be run: %v", in.Program, err)
	case stdout.over:
		return nil, &sdk.Error{Class: sdk.ClassAPIError, Code: "stdout", Message: fmt.Sprintf("%s wrote more than %d MiB to stdout", in.Program, maxStdout>>20)}
	case err != nil && !errors.As(err, &exit):
		return nil, &sdk.Error{Class: sdk.ClassInternal, Code: "exec", Message: fmt.Sprintf("%s: %v", in.Program, err)}
	}
	code := cmd.ProcessState.ExitCode() // -1 after a signal
	if !slices.Contains(in.OKStatus, code) {
		return nil, failed(in.Program, code, cmd.ProcessState.String(), stderr.text())
	}
	if !utf8.Valid(stdout.b.Bytes()) {
		return nil, &sdk.Error{Class: sdk.ClassValidation, Code: "stdout", Message: fmt.Sprintf("%s wrote to stdout what is not UTF-8; let it write text", in.Program)}
	}
	return &output{code, stdout.b.String(), stderr.text()}, nil
}

func invalid(path, format string, args ...any) error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: fmt.Sprintf(format, args...)}
}

// failed says how the program ended, with its last words.
func failed(program string, code int, how, stderr string) error {
	e := &sdk.Error{Class: sdk.ClassAPIError, Code: fmt.Sprintf("exit_%d", code), Message: fmt.Sprintf("%s ended with %s", program, how)}
	if code < 0 {
		e.Code = "signal"
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.Join(lines[max(0, len(lines)-20):], "\n"); last != "" {
		e.Message += ": " + last
	}
	return e
}

// limited keeps the first bytes. It goes on reading, so that the program does
// not stop in the middle of its work.
type limited struct {
	b    bytes.Buffer // not embedded: its ReadFrom would pass by Write
	max  int
	over bool
}

func (w *limited) Write(b []byte) (int, error) {
	room := w.max - w.b.Len()
	w.over = w.over || len(b) > room
	w.b.Write(b[:min(len(b), room)])
	return len(b), nil
}

func (w *limited) text() string { return strings.ToValidUTF8(w.b.String(), "\uFFFD") }

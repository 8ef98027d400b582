// Probe is a native plugin that does what the request names, to see how the
// host judges it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

type input struct {
	Do   string `json:"do"`
	Text string `json:"text"`
	N    int    `json:"n"`
}

var running atomic.Int32

func probe(ctx context.Context, in input, host sdk.Host) (any, error) {
	switch in.Do {
	case "pid":
		return os.Getpid(), nil
	case "echo":
		return in.Text, nil
	case "big":
		return strings.Repeat(in.Text, in.N), nil
	case "env":
		env := os.Environ()
		slices.Sort(env)
		return env, nil
	case "stdin":
		b := make([]byte, 10)
		n, err := os.Stdin.Read(b)
		return fmt.Sprint(n, err), nil
	case "stderr":
		fmt.Fprint(os.Stderr, in.Text)
		return nil, &sdk.Error{Class: sdk.ClassQuota, Message: "after the lines"}
	case "stdout":
		fmt.Println(strings.Repeat("long line ", 50_000))
		return "printed", nil
	case "stderr flood":
		for ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1000))
		}
		return nil, ctx.Err()
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(in.N)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "panic":
		panic("at the step")
	case "obey":
		sdk.Log(ctx, host, "info", "begun", nil)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case "hang":
		sdk.Log(ctx, host, "info", "begun", nil)
		select {}
	case "stop":
		sdk.Log(ctx, host, "info", "begun", nil)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	case "parallel": // returns when N attempts are inside at once
		running.Add(1)
		for running.Load() < int32(in.N) {
			if ctx.Err() != nil {
				return nil, errors.New("alone")
			}
			time.Sleep(time.Millisecond)
		}
		return "together", nil
	case "grandchild": // leaves a process in a session of its own behind
		signal.Ignore(syscall.SIGHUP)
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return nil, err
		}
		return []int{os.Getpid(), os.Getppid(), c.Process.Pid}, nil
	case "calls":
		var wg sync.WaitGroup
		var failed atomic.Value
		for i := range in.N {
			wg.Go(func() {
				ok, _, err := sdk.Operate(ctx, host, sdk.EmitOp{Op: sdk.OpEmit, Chunk: strings.Repeat(in.Text, i+1)}, nil)
				if err != nil || string(ok) != `{}` {
					failed.Store(fmt.Sprint(string(ok), err))
				}
			})
		}
		wg.Wait()
		return failed.Load(), nil
	}
	return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/do", Message: "unknown"}
}

func respond(ctx context.Context, _ *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	_, _, err := sdk.Operate(ctx, host, sdk.RespondOp{Op: sdk.OpRespond, Response: sdk.Response{Output: []byte(`"responded"`)}}, nil)
	return nil, err
}

// echo answers with its input, unread.
func echo(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
	return &sdk.Response{Output: req.Input}, nil
}

func main() {
	serve.Main(map[string]sdk.Step{"probe": sdk.Func(probe), "respond": sdk.StepFunc(respond), "echo": sdk.StepFunc(echo)})
}

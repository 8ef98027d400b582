// Command worker is what the tests start as worker processes: built without cgo,
// as confining needs it, however the tests are built. Beside modules it does
// what the tests ask, so that they see what a worker that was taken over could
// do.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/sdk"
)

func main() {
	subprocess.Worker(subprocess.Modules{Compile: compile, Serve: serve})
	do := engine
	if len(os.Args) == 3 && os.Args[1] == "bare" {
		do = func() error { return serveBare(os.Args[2]) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// engine plays the engine: it has a worker do what the first argument says and
// prints the answer. Then it waits.
func engine() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w, err := subprocess.New(subprocess.Options{Self: self}).Isolate(loader.Job{Path: "acts", Limits: loader.Limits{}.WithDefaults(), Spec: []byte(`"acts"`)})
	if err != nil {
		return err
	}
	r, err := w.Run(context.Background(), &sdk.Request{V: 1, Input: json.RawMessage(os.Args[1]), Config: json.RawMessage(`{}`)}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", r.Output)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return w.Close()
}

// compile does the act that is in place of a module.
func compile(module []byte, dir string) error {
	if bytes.HasPrefix(module, []byte("\x00asm")) {
		return wasm.Compile(module, dir)
	}
	switch string(module) {
	case "refuse":
		return errors.New("it is not to my taste: 中文")
	case "fail":
		return &sdk.Error{Class: sdk.ClassInternal, Message: "the disk is full"}
	case "spin":
		for n := 1; n != 0; n += 2 { // odd numbers only
		}
	case "hog":
		hog()
	case "fault":
		fault()
	case "fault of a hog":
		fault(take(), take(), take(), take(), take(), take(), take(), take(), take())
	case "crash":
		os.Exit(3)
	case "escape":
		b, err := json.Marshal(escape(0))
		if err != nil {
			return err
		}
		return os.WriteFile(dir+"/escape", b, 0o600)
	}
	return fmt.Errorf("no module: %q", module)
}

// serve makes the step of a module, or one that acts.
func serve(spec []byte, files []*os.File) (sdk.Step, error) {
	switch string(spec) {
	case `"acts"`:
		return sdk.StepFunc(act), nil
	case `"echo"`:
		return sdk.StepFunc(echo), nil
	case `"none"`:
		return nil, errors.New("there is no such module: 中文")
	}
	return wasm.Serve(spec, files)
}

// echo answers with its input, unread.
func echo(_ context.Context, req *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
	return &sdk.Response{Output: req.Input}, nil
}

var token = time.Now().UnixNano()

func act(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	var in struct {
		Do, Text string
		N        int
	}
	if err := json.Unmarshal(req.Input, &in); err != nil {
		return nil, err
	}
	answer := func(v any) (*sdk.Response, error) {
		b, err := sdk.Marshal(v)
		return &sdk.Response{Output: b}, err
	}
	switch in.Do {
	case "echo":
		return answer(in.Text)
	case "big":
		return answer(string(bytes.Repeat([]byte(in.Text), in.N)))
	case "token": // which process it is
		return answer(token)
	case "meet": // waits until N attempts are here
		for reply := ""; reply != "all"; {
			b, err := host.Call(ctx, []byte("here"))
			if err != nil {
				return nil, err
			}
			reply = string(b)
		}
		return answer(token)
	case "quota":
		return nil, &sdk.Error{Class: sdk.ClassQuota, Message: "中文", Code: "c", RetryAfterMS: 7}
	case "stack":
		return nil, &sdk.Error{Class: sdk.ClassPluginCrash, Code: "stack_overflow", Details: json.RawMessage(`{"trace":["f"]}`), Stderr: "last\nlines"}
	case "wait":
		if _, err := host.Call(ctx, []byte("here")); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, sdk.Ended(ctx)
	case "late": // says something once it is told to stop
		_, _ = host.Call(ctx, []byte("here"))
		<-ctx.Done()
		return nil, &sdk.Error{Class: sdk.ClassInternal, Stderr: "last words"}
	case "hang":
		if _, err := host.Call(ctx, []byte("here")); err != nil {
			return nil, err
		}
		select {}
	case "exit":
		os.Exit(in.N)
	case "hog":
		hog()
	case "escape":
		return answer(escape(in.N))
	}
	return nil, fmt.Errorf("no act: %q", in.Do)
}

// take takes 16 MiB of memory.
func take() []byte {
	b := make([]byte, 16<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// fault ends as Go's runtime does when it breaks.
func fault(held ...[]byte) {
	fmt.Fprintln(os.Stderr, "SIGSEGV: segmentation violation\nPC=0x0 m=0 sigcode=1 addr=0x0")
	runtime.KeepAlive(held)
	os.Exit(2)
}

// hog takes memory without end.
func hog() {
	var all [][]byte
	for {
		all = append(all, take())
		if len(all) == 1<<20 {
			return
		}
	}
}

// Command peak runs one attempt of a module and prints by how many KiB the
// process grew meanwhile, at most. Its arguments are the module and the input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/wasm"
	"github.com/retrace-dev/engine/sdk"
)

func main() {
	if err := run(os.Args[1], json.RawMessage(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string, input json.RawMessage) error {
	l, err := wasm.New(wasm.Options{})
	if err != nil {
		return err
	}
	a, err := l.Open(path)
	if err != nil {
		return err
	}
	p, err := l.Load(context.Background(), a)
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.Step("run", loader.Limits{})
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return err
	}
	before, err := status("VmRSS")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, _ = s.Run(ctx, &sdk.Request{V: sdk.Version, StepType: "run", Attempt: 1, Input: input, Config: json.RawMessage(`{}`)}, host{}) // how it ends, TestHostile says
	peak, err := status("VmHWM")
	if err != nil {
		return err
	}
	fmt.Println(peak - before)
	return nil
}

type host struct{}

func (host) Call(context.Context, []byte) ([]byte, error) { return []byte(`{"ok":{}}`), nil }

// status reads a line of this process's status, in KiB.
func status(name string) (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("no %s in /proc/self/status", name)
	}
	return strconv.Atoi(string(m[1]))
}

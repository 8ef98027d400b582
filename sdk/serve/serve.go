package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// Main runs the program as a plugin that has the given step types, and does
// not return. A request for a step type that is not there fails as
// invalid_input, but a single step also answers to "run", the step type of a
// plugin without a manifest. Main must be called from the main function, once.
func Main(steps map[string]sdk.Step) {
	if slices.Contains(os.Args[1:], "--engine-manifest") {
		b, err := skeleton(os.Args[0], steps)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%s\n", b)
		os.Exit(0)
	}
	os.Exit(serve(dispatch(steps)))
}

// untyped is the step type of a plugin without a manifest.
const untyped = "run"

// dispatch makes one step of many: it finds the step type, sets the deadline
// and catches panics.
func dispatch(steps map[string]sdk.Step) sdk.Step {
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (r *sdk.Response, err error) {
		s, ok := steps[req.StepType]
		if !ok && req.StepType == untyped && len(steps) == 1 {
			for _, s = range steps {
				ok = true
			}
		}
		if !ok {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: fmt.Sprintf("no step type %q; this plugin has %s", req.StepType, strings.Join(names(steps), ", "))}
		}
		if req.DeadlineMS > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(req.DeadlineMS)*time.Millisecond)
			defer cancel()
		}
		defer func() {
			if p := recover(); p != nil {
				fmt.Fprintf(os.Stderr, "panic: %v\n%s", p, trace(string(debug.Stack())))
				r, err = nil, &sdk.Error{Class: sdk.ClassInternal, Code: "panic", Message: fmt.Sprintf("panic: %v", p)}
			}
		}()
		r, err = s.Run(ctx, req, host)
		if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			err = sdk.Ended(ctx)
		}
		return r, err
	})
}

// trace cuts a stack down to the step's own frames: between the panic and this
// package. The host keeps the last lines only.
func trace(stack string) string {
	if _, after, ok := strings.Cut(stack, "\npanic("); ok {
		_, stack, _ = strings.Cut(after, "\n") // the rest of that line
		_, stack, _ = strings.Cut(stack, "\n") // and its file
	}
	if own, _, ok := strings.Cut(stack, "\ngithub.com/retrace-dev/engine/sdk/serve."); ok {
		stack = own + "\n"
	}
	return stack
}

func names(steps map[string]sdk.Step) []string {
	ns := make([]string, 0, len(steps))
	for n := range steps {
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return ns
}

// skeleton is a manifest to start from: what a program knows of itself.
func skeleton(arg0 string, steps map[string]sdk.Step) ([]byte, error) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, strings.TrimSuffix(filepath.Base(arg0), filepath.Ext(arg0)))
	name = strings.TrimLeft(name, "0123456789_")
	if name == "" {
		name = "plugin"
	}
	m := sdk.Manifest{ABI: 1, Name: name[:min(len(name), 64)], Steps: map[string]sdk.StepType{}}
	for n := range steps {
		m.Steps[n] = sdk.StepType{Effects: sdk.EffectsRead}
	}
	b, err := sdk.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, err := sdk.ParseManifest(b); err != nil {
		return nil, err
	}
	return b, nil
}

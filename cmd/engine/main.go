package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
)

// version is set by the linker for releases.
var version = "0.1.0-dev"

func main() {
	subprocess.Worker(modules) // this process may be a plugin's parent or a module's, re-executed
	serveStd()                 // or a plugin that ships inside the engine
	ctx, stop := interruptible()
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// modules is what this executable does in a process of its own.
var modules = subprocess.Modules{Compile: wasm.Compile, Serve: wasm.Serve}

// streams are where a command reads and writes: stdout the result, stderr the
// story.
type streams struct {
	in       io.Reader
	out, err io.Writer
	debug    *bool // of --debug; set when the command line is read
}

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1 // the run failed
	exitChanges  = 2 // plan --detailed-exitcode: something to run
	exitCovered  = 3 // apply --detailed-exitcode: done, but degraded or skipped after a failure
	exitBudget   = 5 // the budget is used up; the same command goes on once it is raised
	exitUsage    = 64
	exitInvalid  = 65 // workflow, values or plugin
	exitInternal = 70
	exitStore    = 74
	exitLocked   = 75
	exitTimeout  = 124
	exitCancel   = 130
)

// exitError carries an exit code; a nil err was already reported.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exit(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// run is the whole program but for the process: it returns the exit code.
func run(ctx context.Context, args []string, io streams) int {
	out := &result{w: io.out}
	io.out = out
	code := execute(ctx, args, io)
	if err := out.failed(); err != nil {
		fmt.Fprintf(io.err, "Error: the result could not be written: %v\n", err)
		if code == exitOK {
			code = exitStore
		}
	}
	return code
}

// result is stdout: it remembers that a part of the result was lost. A reader
// that went away has what it wanted.
type result struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (r *result) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.err == nil {
			r.err = err
		}
	}
	return n, err
}

func (r *result) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(r.err, syscall.EPIPE) || errors.Is(r.err, os.ErrClosed) {
		return nil
	}
	return r.err
}

func execute(ctx context.Context, args []string, io streams) (code int) {
	io.debug = new(bool)
	defer func() {
		if p := recover(); p != nil {
			code = exitInternal
			fmt.Fprintf(io.err, "Error: the engine itself is at fault: %s\n", oneLine(fmt.Sprint(p)))
			if *io.debug {
				fmt.Fprintf(io.err, "%s\n", debug.Stack())
			} else {
				fmt.Fprintln(io.err, "What was persisted is kept. The same command with --debug tells where it happened; please report that.")
			}
		}
	}()
	root := newRoot(io)
	root.SetArgs(longFlags(root, args))
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		fmt.Fprintf(io.err, "Error: %s\n", oneLine(err.Error()))
		if c, _, ferr := root.Find(args); ferr == nil {
			fmt.Fprintf(io.err, "See: %s --help\n", c.CommandPath())
		}
		return exitUsage
	}
	if e.err != nil {
		fmt.Fprintf(io.err, "Error: %s\n", escape(e.err.Error()))
	}
	return e.code
}

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "engine",
		Short: "Run workflows of sandboxed steps that survive failures",
		Long: `engine runs workflows written in HCL. Each step is a sandboxed WebAssembly
module or a native plugin; outputs are checkpointed, and after a failure, a crash
or an edit the same command runs only what must run.`,
		Example: `  engine validate flow.hcl      check a flow; nothing runs
  engine plan flow.hcl          what would run, what is reused, and why
  engine apply flow.hcl         run it; after a failure or crash the same again
  engine show                   what the newest run did`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().BoolVar(io.debug, "debug", os.Getenv("ENGINE_DEBUG") != "", "log what plugins and workers do, and where the engine fails itself; default whether $ENGINE_DEBUG is set")
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetIn(io.in)
	root.AddCommand(newApply(io), newPlan(io), newValidate(io), newTest(io), newRuns(io), newShow(io), newOutput(io), newDiff(io), newCancel(io), newExplain(io), newGraph(io), newLogs(io), newStats(io), newCompletion(io), newVersion(io))
	root.AddCommand(newCheckpoints(io), newGC(io), newStore(io)) // the store
	root.AddCommand(newFmt(io))
	root.AddCommand(newPlugin(io), newInit(io)) // for authors of steps
	completions(root)
	return root
}

// longFlags turns -name and -name=v into --name where a command knows the long
// flag.
func longFlags(root *cobra.Command, args []string) []string {
	known := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *flagT) { known[f.Name] = true })
		for _, s := range c.Commands() {
			collect(s)
		}
	}
	collect(root)
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && len(name) > 1 && known[name] {
			a = "-" + a
		}
		out = append(out, a)
	}
	return out
}

// gentle is set by commands that end by themselves when their context does.
type gentle struct{ atomic.Bool }

type gentleKey struct{}

// endsGently says that the command needs the first signal for itself, and that a
// reader of its output that goes away must not end it. Other commands end then,
// as those of every pipe do.
func endsGently(ctx context.Context) {
	signal.Ignore(syscall.SIGPIPE)
	if g, ok := ctx.Value(gentleKey{}).(*gentle); ok {
		g.Store(true)
	}
}

// interruptible is the context of a command. The first signal cancels it, so
// that a run ends cleanly with everything finished kept; the second, or the
// first of a command that is not gentle, ends the process at once.
func interruptible() (context.Context, func()) {
	g := &gentle{}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), gentleKey{}, g))
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s, ok := <-ch
		if !ok {
			return
		}
		if !g.Load() {
			os.Exit(exitCancel)
		}
		cancel(fmt.Errorf("cancelled by %v", s))
		if _, ok := <-ch; ok {
			os.Exit(exitCancel)
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
		cancel(nil)
	}
}

func newVersion(io streams) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: `  engine version
  engine version --json | jq -r .engine`,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				writeVersion(io.out)
			} else {
				fmt.Fprintln(io.out, version)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/subprocess"
	"github.com/retrace-dev/engine/host/wasm"
)

type flagT = pflag.Flag

// flowFlags are the flags of every verb that works on a flow with values.
type flowFlags struct {
	vars        []string
	varFiles    []string
	state       place
	lockTimeout time.Duration
	targets     []string
	rerun       []string
	from        []string
	set         []string
	fresh       bool
	run         string
	progress    string
	isolation   string
	json        bool
}

func (f *flowFlags) add(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.vars, "var", nil, "set a variable: `name=value`; name=@file takes the text of a file, @@x is the literal @x")
	fs.StringArrayVar(&f.varFiles, "var-file", nil, "read variables from a `file`")
	addState(c, &f.state)
	fs.DurationVar(&f.lockTimeout, "lock-timeout", 0, "how long to wait for another run on the same state; 0 waits as long as it takes")
	fs.StringArrayVar(&f.targets, "target", nil, "only what this `step` or instance needs (may be repeated)")
	fs.StringArrayVar(&f.rerun, "rerun", nil, "run this `step` even if its result is current (may be repeated)")
	fs.StringArrayVar(&f.from, "from", nil, "run this `step` and everything below it (may be repeated)")
	fs.StringArrayVar(&f.set, "set", nil, "give the output of a step instead of running it: `step=@file` or step=JSON; counts in this run (may be repeated)")
	fs.BoolVar(&f.fresh, "new", false, "open a run that continues and follows none; steps with effects run again")
	fs.StringVar(&f.run, "run", "", "continue this `run` instead of the newest")
	addIsolation(c, &f.isolation)
	fs.BoolVar(&f.json, "json", false, "print JSON to stdout, one object a line")
}

func (f *flowFlags) runOptions() (o host.RunOptions, err error) {
	o = host.RunOptions{Rerun: f.rerun, From: f.from, Targets: f.targets, New: f.fresh, Run: checkpoint.RunID(f.run)}
	o.Set, err = readSet(f.set)
	return o, err
}

// flowPath is the FLOW argument: a file or directory, the current directory by
// default.
func flowPath(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

func flowDir(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

// logger writes what the parts have to say to stderr.
func logger(io streams) hclog.Logger {
	level := hclog.Warn
	if *io.debug {
		level = hclog.Debug
	}
	return hclog.New(&hclog.LoggerOptions{Name: "engine", Level: level, Output: io.err})
}

// loaders are what this engine can run, in the order in which they are asked.
func loaders(cache string, isolation loader.Isolation, log hclog.Logger) ([]loader.Loader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this executable's own path: %w", err)
	}
	native := subprocess.New(subprocess.Options{Self: self, Logger: log})
	o := wasm.Options{CacheDir: cache, Isolation: isolation, Logger: log}
	if subprocess.Compiles() == nil {
		o.Workers = native
	}
	w, err := wasm.New(o)
	if err != nil {
		return nil, err
	}
	return []loader.Loader{&std{w, native}, w, native}, nil
}

// addIsolation adds the flag that says where modules run.
func addIsolation(c *cobra.Command, isolation *string) {
	c.Flags().StringVar(isolation, "isolation", string(loader.InProcess), "the least `level` of isolation of modules: inprocess, or process for worker processes without files, network and other processes; a sandbox block can ask for more")
}

// isolationOf reads the flag.
func isolationOf(flag string) (loader.Isolation, error) {
	switch i := loader.Isolation(flag); i {
	case "", loader.InProcess:
		return i, nil
	case loader.Process:
		if err := subprocess.Isolates(); err != nil {
			return "", exit(exitUsage, "--isolation process: %w", err)
		}
		return i, nil
	}
	return "", exit(exitUsage, "--isolation %q: want inprocess or process", flag)
}

// loaded is a flow that is ready to be planned.
type loaded struct {
	flow      *host.Flow
	values    *hcl.Values
	options   host.RunOptions
	isolation loader.Isolation // the least
	dir       string
	state     place
	log       hclog.Logger
}

// readFlow reads a flow that this engine may run.
func readFlow(path string) (*hcl.Workflow, hcl.Diagnostics) {
	wf, diags := hcl.Load(path)
	if !diags.HasErrors() {
		diags = append(diags, wf.CheckVersion(version)...)
	}
	return wf, diags
}

// cacheDir is where compiled modules are kept: the user's cache, so that a
// module is compiled once for all flows, or the state where there is none.
func cacheDir(state string) string {
	if dir, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(dir, "engine", "modules")
		if os.MkdirAll(dir, 0o700) == nil {
			return dir
		}
	}
	return filepath.Join(state, "cache")
}

// load reads, checks and binds a flow. What is wrong with it is reported to v.
// cached keeps compiled modules, which only a run needs.
func (f *flowFlags) load(io streams, path string, cached bool, v diagView) (*loaded, error) {
	l := &loaded{dir: flowDir(path), log: logger(io)}
	l.state = stateDir(f.state, l.dir)
	if f.state.dir == "" && !f.json && f.progress != "quiet" && !isBeside(l.state, l.dir) {
		fmt.Fprintf(io.err, "the state is %s, found above the flow; --state takes another\n", l.state)
	}
	wf, diags := readFlow(path)
	if diags.HasErrors() {
		return nil, v.report(wf, diags)
	}
	cache := ""
	if cached {
		cache = cacheDir(l.state.dir)
	}
	isolation, err := isolationOf(f.isolation)
	if err != nil {
		return nil, err
	}
	ls, err := loaders(cache, isolation, l.log)
	if err != nil {
		return nil, exit(exitStore, "%w", err)
	}
	flow, more := host.Compile(wf, l.dir, ls)
	diags = append(diags, more...)
	values, more := wf.Bind(hcl.BindOptions{Vars: f.vars, VarFiles: f.varFiles, Environ: os.Environ(), Dir: l.dir})
	if diags = append(diags, more...); diags.HasErrors() {
		return nil, v.report(wf, diags)
	}
	if len(diags) > 0 {
		_ = v.report(wf, diags)
	}
	l.flow, l.values, l.isolation = flow, values, isolation
	if l.options, err = f.runOptions(); err != nil {
		return nil, err
	}
	if err := flow.Check(l.options); err != nil {
		return nil, failure(err, wf, v) // before any state is made
	}
	return l, nil
}

// openStore opens the state for writing; it waits for another process that has
// it, and says for whom.
func openStore(ctx context.Context, io streams, state place, encrypt bool, timeout time.Duration, log hclog.Logger) (*pebblestore.Store, error) {
	key, err := state.key()
	if err != nil {
		return nil, err
	}
	if encrypt && key.IsZero() {
		return nil, exit(exitUsage, "--encrypt needs a key: --key-from or $ENGINE_KEY_FROM names the file or env:NAME that has it; openssl rand -hex 32 makes one")
	}
	begin := time.Now()
	told := false
	for {
		s, err := pebblestore.Open(state.store(), pebblestore.Options{Logger: log, Key: key, Encrypt: encrypt})
		var locked *pebblestore.LockedError
		if !errors.As(err, &locked) {
			if err != nil {
				return nil, storeError(err)
			}
			return s, nil
		}
		if timeout > 0 && time.Since(begin) >= timeout {
			return nil, exit(exitLocked, "%w (waited %s; --lock-timeout sets how long)", err, timeout)
		}
		if !told && time.Since(begin) > time.Second/2 {
			told = true
			fmt.Fprintf(io.err, "waiting for pid %d,%s which has %s since %s\n", locked.PID, owned(state.dir), state, time.Since(locked.Since).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return nil, exit(exitCancel, "cancelled while waiting for %s", state)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// failure turns an error of the host into an exit.
func failure(err error, wf *hcl.Workflow, v diagView) error {
	var diags hcl.Diagnostics
	var usage *host.UsageError
	switch {
	case errors.As(err, &diags):
		return v.report(wf, diags)
	case errors.As(err, &usage):
		return &exitError{exitUsage, err}
	case host.IsStoreError(err):
		return &exitError{exitStore, roomAgain(err)}
	}
	return &exitError{exitInternal, err}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/control"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// applyFlags are the flags of apply.
type applyFlags struct {
	flowFlags
	replay      string
	yes         bool
	detailed    bool
	encrypt     bool
	keepBytes   string
	minFree     string
	concurrency int
	metrics     string
	prices      string
}

func newApply(io streams) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [FLOW]",
		Short: "Run a flow; after a failure, a crash or an edit, run only what must run",
		Long: `Plans the flow, runs what must run, and prints its outputs to stdout.

The same command resumes: a run that failed, was cancelled or was interrupted by
a crash is continued, and steps whose results are current are reused. After a
success, apply runs nothing unless the flow, its plugins or its variables changed.`,
		Example: `  engine apply flow.hcl
  engine apply flow.hcl --var text=@book.txt
  engine apply flow.hcl --rerun step.summarize
  engine apply flow.hcl --from step.fetch --yes
  engine apply flow.hcl --set step.pay=@receipt.json
  engine apply flow.hcl --replay latest
  engine apply flow.hcl --json | jq -r 'select(.type=="persisted").step'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			endsGently(c.Context())
			how, err := chooseProgress(f.progress, io.err, f.json, os.Getenv)
			if err != nil {
				return err
			}
			v, io := newApplyView(c.Context(), io, f.json, how)
			defer v.close()
			l, err := f.load(io, flowPath(args), true, v)
			if err != nil {
				return err
			}
			if f.replay != "" {
				return replay(c.Context(), &f, l, io, v)
			}
			if err := confirm(io, l, f.yes); err != nil {
				return err
			}
			return f.apply(c.Context(), l, io, v)
		},
	}
	f.add(c)
	mode := os.Getenv("ENGINE_PROGRESS")
	if mode == "" {
		mode = "auto"
	}
	c.Flags().StringVar(&f.progress, "progress", mode, "how stderr tells the run: auto, tty, plain, quiet (`how`); default $ENGINE_PROGRESS, else auto")
	c.Flags().StringVar(&f.metrics, "metrics", "", "write what the run did to a `file` that Prometheus reads")
	c.Flags().StringVar(&f.prices, "prices", "", "what the tokens of models cost, a JSON `file`: {\"date\": …, \"models\": {\"m\": {\"input\": …, \"output\": …}}} in USD per million; default the list of "+listDate()+" in this engine")
	c.Flags().StringVar(&f.replay, "replay", "", "answer models, networks and native plugins with what they answered in this `run`; nothing is asked and nothing is kept")
	c.Flags().BoolVar(&f.yes, "yes", false, "run again without asking the steps with effects that --from, or --rerun of a sub-workflow, takes along")
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit 3 if the run succeeded with answers of fallbacks, or without steps that failed and were skipped")
	addEncrypt(c, &f.encrypt)
	c.Flags().StringVar(&f.keepBytes, "keep-bytes", "", "keep stored outputs up to this `size` together, such as 2GiB; the oldest that no newest run uses go first")
	c.Flags().StringVar(&f.minFree, "min-free", defaultFree, "start nothing with less than this `size` free on the disk of the state; 0 asks for nothing")
	c.Flags().IntVar(&f.concurrency, "concurrency", host.DefaultConcurrency, "attempts at once `N`, where the workflow does not say")
	return c
}

// check refuses flags that make no sense, alone or together.
func (f *applyFlags) check() error {
	if f.concurrency < 1 {
		return exit(exitUsage, "--concurrency %d runs nothing; the least is 1", f.concurrency)
	}
	if f.replay != "" && (f.run != "" || f.fresh || len(f.rerun)+len(f.from)+len(f.set) > 0) {
		return exit(exitUsage, "--replay answers all of a run from another; leave out --run, --new, --rerun, --from and --set")
	}
	return nil
}

// apply runs a flow: it opens the state, lets the run be seen and reached while it
// goes on, and tells how it ended once everything is closed.
func (f *applyFlags) apply(ctx context.Context, l *loaded, io streams, v applyView) error {
	budget, err := parseSize(f.keepBytes)
	if err != nil {
		return exit(exitUsage, "--keep-bytes: %w", err)
	}
	store, sealer, err := f.openState(ctx, l, io)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	now := newLive(l.flow.Workflow().Name, cancel)
	socket, err := control.Listen(l.state.dir, now, store)
	if err != nil {
		l.log.Warn("engine cancel cannot reach this run", "cause", err)
	} else {
		defer socket.Close()
	}
	j := newJournal(l.state.dir, sealer)
	m := newMetrics(l.flow.Workflow().Name)
	res, err := f.runOn(ctx, l, io, store, sealer, host.Observers(j, m, now, v))
	if err == nil && res.Opened {
		tidy(ctx, io, l, store, budget)
	}
	if socket != nil {
		socket.Stop() // the next process's lies in the same place
	}
	if cerr := store.Close(); err == nil && cerr != nil {
		err = exit(exitStore, "%w", cerr)
	}
	if jerr := j.Close(); err == nil && jerr != nil {
		err = exit(exitStore, "%w", jerr)
	}
	var unwritten error
	if f.metrics != "" {
		unwritten = m.write(f.metrics)
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return exit(exitCancel, "%w before the run began", context.Cause(ctx))
		}
		return failure(err, l.flow.Workflow(), v)
	}
	v.close()
	v.result(res)
	v.outputs(res)
	if unwritten != nil {
		return exit(exitStore, "the run is recorded, its metrics are not: %w", unwritten)
	}
	if err := outcome(res); err != nil || !f.detailed || len(res.Degraded)+len(res.Skipped) == 0 {
		return err
	}
	return &exitError{code: exitCovered}
}

// openState opens the store for a run, and says what is to be known of it. The
// sealer is nil if it is not encrypted.
func (f *applyFlags) openState(ctx context.Context, l *loaded, io streams) (*pebblestore.Store, *checkpoint.Sealer, error) {
	gone := isGone(l.state)
	store, err := openStore(ctx, io, l.state, f.encrypt, f.lockTimeout, l.log)
	if err != nil {
		return nil, nil, err
	}
	if gone || store.Behind() > 0 {
		markLost(l.state.dir)
	}
	if err := hasRoom(l.state.dir, store, f.minFree); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	sealer, err := store.Sealer(tenant)
	if err != nil {
		return nil, nil, errors.Join(storeError(err), store.Close())
	}
	if sealer == nil && l.state.keyFrom != "" {
		plainWarning(io, l.state)
	}
	return store, sealer, nil
}

// runOn makes the host of a run, and runs.
func (f *applyFlags) runOn(ctx context.Context, l *loaded, io streams, store *pebblestore.Store, sealer *checkpoint.Sealer, seen host.Observer) (*host.Result, error) {
	network := operation.NewNetwork(operation.NetworkOptions{})
	defer network.Close()
	list, err := prices(f.prices)
	if err != nil {
		return nil, err
	}
	key, err := stateKey(l.flow.Workflow(), l.state.dir, sealer, true)
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Options{
		Environ: os.Environ(), Key: key, Store: store, Observer: seen, Logger: l.log, Concurrency: f.concurrency, Version: version,
		Network: network, Prices: list, Behind: behind(io, l.state.dir, store),
	})
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	return h.Apply(ctx, l.flow, l.values, l.options)
}

// lostFile marks a state whose store has lost records that were known to be
// durable. It stays until a person removes it: the store itself forgets with
// the next commit.
const lostFile = "LOST"

// markLost makes the mark; where that cannot be done it is only said once.
func markLost(state string) {
	note := fmt.Sprintf("%s: the store had lost records that were known to be durable; steps with effects may have happened without a record\n", time.Now().UTC().Format(time.RFC3339))
	_ = os.WriteFile(filepath.Join(state, lostFile), []byte(note), 0o600)
}

// isGone: there were runs, and there is no store.
func isGone(state place) bool {
	if _, err := os.Stat(state.store()); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	runs, _ := filepath.Glob(filepath.Join(state.dir, "runs", "*.jsonl"))
	return len(runs) > 0
}

// behind reports whether the store may have lost records, and says so.
func behind(io streams, state string, store *pebblestore.Store) bool {
	mark := filepath.Join(state, lostFile)
	if store.Behind() == 0 && !marked(state) {
		return false
	}
	fmt.Fprintf(io.err, "Warning: the store in %s has lost records that were known to be durable (a file was damaged or removed).\nPure steps run again where needed. Steps with effects do not: look whether each happened, use --rerun for those that did not, then remove %s.\n", state, mark)
	return true
}

func marked(state string) bool {
	_, err := os.Stat(filepath.Join(state, lostFile))
	return err == nil
}

// outcome is the exit of a run.
func outcome(res *host.Result) error {
	switch {
	case res.Run.Status == checkpoint.RunSucceeded:
		return nil
	case res.Run.Status == checkpoint.RunCancelled, res.Run.Status == checkpoint.RunCompensating:
		return &exitError{code: exitCancel}
	case res.Run.Error != nil && res.Run.Error.Code == host.CodeBudget:
		return &exitError{code: exitBudget}
	case res.Run.Error != nil && res.Run.Error.Class == sdk.ClassTimeout:
		return &exitError{code: exitTimeout}
	}
	return &exitError{code: exitFailed}
}

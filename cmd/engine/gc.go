package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/hcl"
)

// gcFlags are the flags of gc.
type gcFlags struct {
	state       place
	lockTimeout time.Duration
	keep        int
	olderThan   string
	maxSize     string
	dryRun      bool
	json        bool
}

func newGC(io streams) *cobra.Command {
	var f gcFlags
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove checkpoints that have expired or exceed a limit",
		Long: `Removes checkpoints whose ttl is over and what a crash has left behind; with
--keep also those beyond the newest N of each step, and runs beyond the newest N
with the same variable values; with --max-size also the oldest outputs. What an
unfinished run or the newest run of each set of variable values uses never goes.

With --older-than also runs that nothing has happened in for so long, whatever
their variable values and whether they have ended, with the checkpoints that no
other run uses. The next apply with the values of such a run is a first one: all
steps run, those with effects too. A run with effects that are still to be undone,
or of which nobody knows whether they happened, never goes.`,
		Example: `  engine gc --dry-run --keep 3     name what would go, and why
  engine gc --older-than 90d       forget what was not touched for three months
  engine gc --keep 3 --max-size 2GiB`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c, io)
		},
	}
	addState(c, &f.state)
	c.Flags().DurationVar(&f.lockTimeout, "lock-timeout", 0, "how long to wait for a run on the same state; 0 waits as long as it takes")
	c.Flags().IntVar(&f.keep, "keep", 0, "keep the newest `N` of each step, and of runs with the same variable values; 0 keeps all")
	c.Flags().StringVar(&f.olderThan, "older-than", "", "forget runs that nothing has happened in for this `time`: 12h, 90d")
	c.Flags().StringVar(&f.maxSize, "max-size", "", "keep outputs up to this `size` together, such as 500MB or 2GiB")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "remove nothing; say what would go, and why")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON to stdout, one object a line")
	return c
}

func (f *gcFlags) run(c *cobra.Command, io streams) error {
	p := checkpoint.Policy{Now: time.Now(), Keep: f.keep}
	if f.keep < 0 {
		return exit(exitUsage, "--keep %d is negative", f.keep)
	}
	var err error
	if p.MaxBytes, err = parseSize(f.maxSize); err != nil {
		return exit(exitUsage, "--max-size: %w", err)
	}
	if f.olderThan != "" {
		age, err := parseDays("--older-than", f.olderThan)
		if err != nil {
			return err
		}
		p.Before = p.Now.Add(-age)
	}
	state := stateDir(f.state, ".")
	if err := hasStore(state); err != nil {
		return err
	}
	store, err := openStore(c.Context(), io, state, false, f.lockTimeout, logger(io))
	if err != nil {
		return err
	}
	defer store.Close()
	plan, err := store.Collect(c.Context(), tenant, p, true)
	if err != nil {
		return exit(exitStore, "%w", err)
	}
	if !f.dryRun {
		if err := f.remove(c, state, store, p, plan); err != nil {
			return exit(exitStore, "%w", err)
		}
	}
	items := gcItems(plan, p)
	if f.json {
		writeVersion(io.out)
		for _, it := range items {
			writeJSON(io.out, it)
		}
		writeJSON(io.out, gcSummary{
			Type: "gc", DryRun: f.dryRun, Checkpoints: len(plan.Records), Outputs: len(plan.Outputs), Runs: len(plan.Runs),
			Orphans: plan.Orphans, FreedBytes: plan.Freed + plan.OrphanBytes, Bytes: plan.Bytes, OverBytes: plan.Over,
		})
		return nil
	}
	f.write(io, plan, items)
	return nil
}

// remove carries the plan out. The journals go first: if this is the last thing
// the process does, their runs are found again the next time.
func (f *gcFlags) remove(c *cobra.Command, state place, store *pebblestore.Store, p checkpoint.Policy, plan *pebblestore.Collection) error {
	for _, r := range plan.Runs {
		if err := os.Remove(filepath.Join(state.dir, "runs", string(r.ID)+".jsonl")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_, err := store.Collect(c.Context(), tenant, p, false)
	return err
}

// gcItem is one thing that goes.
type gcItem struct {
	Type       string           `json:"type"` // "removal"
	What       string           `json:"what"` // "checkpoint", "output", "run"
	Checkpoint checkpoint.ID    `json:"checkpoint,omitempty"`
	Workflow   string           `json:"workflow"`
	Step       string           `json:"step,omitempty"`
	Instance   string           `json:"instance,omitempty"`
	Run        checkpoint.RunID `json:"run"`
	Created    time.Time        `json:"created"`
	Bytes      int64            `json:"bytes,omitempty"` // of its output
	Reason     string           `json:"reason"`
	Text       string           `json:"text"` // the reason, for people
}

// gcSummary is the last line.
type gcSummary struct {
	Type        string `json:"type"` // "gc"
	DryRun      bool   `json:"dry_run"`
	Checkpoints int    `json:"checkpoints"`
	Outputs     int    `json:"outputs"`
	Runs        int    `json:"runs"`
	Orphans     int    `json:"orphans"`
	FreedBytes  int64  `json:"freed_bytes"`
	Bytes       int64  `json:"bytes"` // of outputs that stay
	OverBytes   int64  `json:"over_bytes,omitempty"`
}

func gcItems(plan *pebblestore.Collection, p checkpoint.Policy) (items []gcItem) {
	add := func(what string, r checkpoint.Removal) {
		items = append(items, gcItem{
			Type: "removal", What: what, Checkpoint: r.ID, Workflow: r.Workflow, Step: r.Step, Instance: r.Instance, Run: r.Run,
			Created: r.Created, Bytes: r.Data.Size, Reason: string(r.Reason), Text: removalText(r, p),
		})
	}
	for _, r := range plan.Records {
		add("checkpoint", r)
	}
	for _, r := range plan.Outputs {
		add("output", r)
	}
	for _, r := range plan.Runs {
		items = append(items, gcItem{
			Type: "removal", What: "run", Workflow: r.Workflow, Run: r.ID, Created: r.Created, Reason: string(r.Reason), Text: runRemovalText(r, p),
		})
	}
	return items
}

func runRemovalText(r checkpoint.RunRemoval, p checkpoint.Policy) string {
	if r.Reason == checkpoint.RemoveForgotten {
		return fmt.Sprintf("nothing has happened in it for %s, and no checkpoint of it is used by another", short(p.Now.Sub(r.Active)))
	}
	return fmt.Sprintf("not among the newest %d with the same variable values, and no checkpoint of it stays", p.Keep)
}

func removalText(r checkpoint.Removal, p checkpoint.Policy) string {
	switch r.Reason {
	case checkpoint.RemoveExpired:
		return fmt.Sprintf("expired %s ago", short(p.Now.Sub(r.Expires)))
	case checkpoint.RemoveForgotten:
		return fmt.Sprintf("made %s ago by run %s, and no run since uses it", short(p.Now.Sub(r.Created)), r.Run)
	case checkpoint.RemoveSuperseded:
		return fmt.Sprintf("not among the newest %d of the step", p.KeepOf(r.Workflow, r.Step))
	}
	return fmt.Sprintf("outputs exceed %s, the oldest go first; the record stays", formatSize(p.MaxBytes))
}

func (f *gcFlags) write(io streams, plan *pebblestore.Collection, items []gcItem) {
	w := io.out
	for _, it := range items {
		if it.What == "run" {
			fmt.Fprintf(w, "  run         %s of workflow %q: %s\n", it.Run, it.Workflow, it.Text)
			continue
		}
		fmt.Fprintf(w, "  %-10s  %s %s, %s: %s\n", it.What, it.Checkpoint, oneLine(hcl.InstanceAddress(it.Step, it.Instance)), formatSize(it.Bytes), it.Text)
	}
	if plan.Orphans > 0 {
		fmt.Fprintf(w, "  %s that nothing names, %s\n", count(plan.Orphans, "leftover"), formatSize(plan.OrphanBytes))
	}
	verb := "removed"
	if f.dryRun {
		verb = "would be removed"
	}
	fmt.Fprintf(w, "%s, %s and %s %s: %s freed, %s of outputs stay\n", count(len(plan.Records), "checkpoint"), count(len(plan.Outputs), "output"), count(len(plan.Runs), "run"),
		verb, formatSize(plan.Freed+plan.OrphanBytes), formatSize(plan.Bytes))
	if plan.Over > 0 {
		fmt.Fprintf(io.err, "what unfinished and newest runs use exceeds --max-size by %s, and stays\n", formatSize(plan.Over))
	}
}

// sizeUnits are what a size may end with, longest names first.
var sizeUnits = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}

// parseSize reads a size such as "500MB", "1.5GiB" or "4096"; "" is 0.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if size := n * u.bytes; err == nil && size >= 1 && size < math.MaxInt64 {
			return int64(size), nil
		}
		break
	}
	return 0, fmt.Errorf("%q is not a size of at least one byte, such as 500MB, 1.5GiB or 4096", s)
}

func formatSize(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

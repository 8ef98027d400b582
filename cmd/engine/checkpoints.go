package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/hcl"
)

func newCheckpoints(io streams) *cobra.Command {
	c := &cobra.Command{
		Use: "checkpoints", Short: "List, show, export and import checkpoints",
		Long: `Shows what is stored of the steps that have succeeded or were skipped, and takes
single checkpoints from one state to another.`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(newCheckpointsLs(io), newCheckpointsShow(io), newCheckpointsExport(io), newCheckpointsImport(io))
	return c
}

// checkpointLine is one checkpoint as `checkpoints ls` shows it.
type checkpointLine struct {
	Type     string           `json:"type"` // "checkpoint"
	ID       checkpoint.ID    `json:"checkpoint"`
	Workflow string           `json:"workflow"`
	Step     string           `json:"step"`
	Instance string           `json:"instance,omitempty"`
	Seq      checkpoint.Seq   `json:"seq"`
	Outcome  string           `json:"outcome"`
	Kept     bool             `json:"output_kept"`
	Bytes    int64            `json:"bytes"`
	Run      checkpoint.RunID `json:"run"`
	Created  time.Time        `json:"created"`
	Expires  time.Time        `json:"expires,omitzero"`
}

func lineOf(st checkpoint.Stored) checkpointLine {
	return checkpointLine{
		"checkpoint", st.ID, st.Workflow, st.Step, st.Instance, st.Seq, st.Outcome.String(),
		st.Outcome == checkpoint.Succeeded && st.HasData(), st.Data.Size, st.Run, st.Created, st.Expires,
	}
}

func newCheckpointsLs(io streams) *cobra.Command {
	var state place
	var workflow, step string
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List checkpoints, newest first", Args: cobra.NoArgs,
		Example: `  engine checkpoints ls
  engine checkpoints ls --step step.summarize`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := recordsOf(io, stateDir(state, "."), "checkpoints cannot be listed")
			if err != nil {
				return err
			}
			defer s.Close()
			all, err := allCheckpoints(c.Context(), s)
			if err != nil {
				return err
			}
			if step, err = namedStep(step); err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(st checkpoint.Stored) bool {
				return workflow != "" && st.Workflow != workflow || !covers(step, hcl.InstanceAddress(st.Step, st.Instance))
			})
			if asJSON {
				writeVersion(io.out)
				for _, st := range all {
					writeJSON(io.out, lineOf(st))
				}
				return nil
			}
			if len(all) == 0 {
				fmt.Fprintln(io.err, "no checkpoints")
				return nil
			}
			w := tabwriter.NewWriter(io.out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "CHECKPOINT\tSTEP\tWORKFLOW\tOUTCOME\tOUTPUT\tCREATED\tRUN")
			for _, st := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", st.ID, oneLine(hcl.InstanceAddress(st.Step, st.Instance)), oneLine(st.Workflow), st.Outcome,
					outputSize(st.Head), st.Created.Local().Format(time.DateTime), st.Run)
			}
			_ = w.Flush() // stdout remembers its errors itself
			return nil
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&workflow, "workflow", "", "only checkpoints of this `workflow`")
	c.Flags().StringVar(&step, "step", "", "only checkpoints of this `step`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

func outputSize(h *checkpoint.Head) string {
	switch {
	case h.Outcome != checkpoint.Succeeded:
		return "-"
	case !h.HasData():
		return "not kept"
	}
	return formatSize(h.Data.Size)
}

// allCheckpoints are those of the store, newest first.
func allCheckpoints(ctx context.Context, s records) (all []checkpoint.Stored, err error) {
	err = s.Heads(ctx, tenant, func(st checkpoint.Stored) error {
		all = append(all, st)
		return nil
	})
	if err != nil {
		return nil, exit(exitStore, "%w", err)
	}
	slices.SortFunc(all, func(a, b checkpoint.Stored) int {
		if a.Seq > b.Seq {
			return -1
		}
		return 1
	})
	return all, nil
}

// findCheckpoint finds the newest record with this ID or unique prefix of one, or
// of this step instance.
func findCheckpoint(ctx context.Context, s records, id string, state place) (checkpoint.Stored, error) {
	all, err := allCheckpoints(ctx, s)
	if err != nil {
		return checkpoint.Stored{}, err
	}
	var found []checkpoint.Stored
	named, _ := namedStep(id) // an id is no address
	for _, st := range all {
		if address := hcl.InstanceAddress(st.Step, st.Instance); st.ID == checkpoint.ID(id) || address == named {
			return st, nil
		}
		fits := strings.HasPrefix(string(st.ID), id) || strings.HasPrefix(string(st.ID), "chk_"+id)
		if fits && !slices.ContainsFunc(found, func(f checkpoint.Stored) bool { return f.ID == st.ID }) {
			found = append(found, st)
		}
	}
	switch below := recordsBelow(all, named); {
	case len(found) == 0 && len(below) > 0:
		return checkpoint.Stored{}, exit(exitUsage, "%s has no checkpoint of its own in %s; in it have: %s", id, state, oneLine(someOf(below)))
	case len(found) == 0:
		return checkpoint.Stored{}, exit(exitUsage, "there is no checkpoint %q in %s; see: engine checkpoints ls", id, state)
	case len(found) == 1:
		return found[0], nil
	}
	return checkpoint.Stored{}, exit(exitUsage, "%q fits %s and %s; give more of the id", id, found[0].ID, found[1].ID)
}

// recordsBelow are the addresses in what a person named that have records, those of
// steps and not of their instances where there are both.
func recordsBelow(all []checkpoint.Stored, named string) (below []string) {
	have := map[string]bool{}
	for _, st := range all {
		if address := hcl.InstanceAddress(st.Step, st.Instance); named != "" && covers(named, address) {
			have[address] = true
		}
	}
	for address := range have {
		if !slices.ContainsFunc(around(address), func(a string) bool { return have[a] }) {
			below = append(below, address)
		}
	}
	slices.Sort(below)
	return below
}

// readCheckpoint reads record and output, which is nil if there is none.
func readCheckpoint(ctx context.Context, s records, st checkpoint.Stored) (*checkpoint.Record, json.RawMessage, error) {
	r, err := s.Record(ctx, tenant, st.Seq)
	if err != nil {
		return nil, nil, exit(exitStore, "%w", err)
	}
	if r.Outcome != checkpoint.Succeeded || !r.HasData() {
		return r, nil, nil
	}
	data, err := s.Data(ctx, tenant, r.Data)
	if err != nil {
		return nil, nil, exit(exitStore, "checkpoint %s: %w", r.ID, err)
	}
	return r, data, nil
}

func newCheckpointsShow(io streams) *cobra.Command {
	var state place
	var withData, asJSON bool
	c := &cobra.Command{
		Use: "show ID|STEP", Short: "Show one checkpoint, or the newest of a step: what made it, its keys, what it depended on", Args: cobra.ExactArgs(1),
		Example: `  engine checkpoints show chk_mb2tk6p4x7w5zq3a
  engine checkpoints show step.summarize --data`,
		RunE: func(c *cobra.Command, args []string) error {
			dir := stateDir(state, ".")
			s, err := recordsOf(io, dir, "a checkpoint cannot be shown")
			if err != nil {
				return err
			}
			defer s.Close()
			st, err := findCheckpoint(c.Context(), s, args[0], dir)
			if err != nil {
				return err
			}
			r, err := s.Record(c.Context(), tenant, st.Seq)
			if err != nil {
				return exit(exitStore, "%w", err)
			}
			var data json.RawMessage
			if withData {
				if _, data, err = readCheckpoint(c.Context(), s, st); err != nil {
					return err
				}
			}
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, struct {
					checkpointLine
					Record *checkpoint.Record `json:"record"`
					Data   json.RawMessage    `json:"data,omitempty"`
				}{lineOf(st), r, data})
				return nil
			}
			writeCheckpoint(io.out, st.Workflow, r)
			if data != nil {
				fmt.Fprintf(io.out, "  data\n    %s\n", strings.ReplaceAll(escape(string(data)), "\n", "\n    "))
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVar(&withData, "data", false, "print the output too")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// writeCheckpoint is a record for people.
func writeCheckpoint(w io.Writer, workflow string, r *checkpoint.Record) {
	c := &r.Context
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(w, "checkpoint %s of %s of workflow %q: %s\n", r.ID, oneLine(hcl.InstanceAddress(r.Step, r.Instance)), workflow, r.Outcome)
	if r.Outcome == checkpoint.Succeeded {
		line("output", "%s, %s", outputSize(&r.Head), r.Output)
	}
	line("record", "%d, committed by run %s, made %s", r.Seq, r.Run, r.Created.Local().Format(time.DateTime))
	if p := c.Producer; p.Run != "" {
		line("made by", "run %s, %s, attempt %d, took %s", p.Run, p.Step, p.Attempt, short(r.Took))
	}
	if c.Plugin != "" {
		line("plugin", "%s", strings.Join(strings.Fields(fmt.Sprint(c.Plugin, " ", c.Version, " ", c.StepType)), " "))
		line("artifact", "%s", c.Artifact)
	}
	for _, u := range c.Usage {
		line("usage", "%s: %d tokens in, %d out", u.Model, u.InputTokens, u.OutputTokens)
	}
	if r.Cost != (checkpoint.Cost{}) {
		line("cost", "%s, when it was made", r.Cost)
	}
	if len(c.Reported) > 0 {
		line("reported", "%s", c.Reported)
	}
	if !r.Expires.IsZero() {
		line("expires", "%s", r.Expires.Local().Format(time.DateTime))
	}
	if r.Degraded {
		line("degraded", "reused in its own run only")
	}
	if r.Operator {
		line("supplied", "by the operator; due in other runs, unless its results belong to a chain of runs")
	}
	if c.ReusedFrom != "" {
		line("reused", "from %s", c.ReusedFrom)
	}
	for _, key := range []struct {
		name string
		f    checkpoint.Fingerprint
	}{{"local", r.Local}, {"plan", r.Plan}, {"content", r.Content}} {
		if !key.f.IsZero() {
			line("key", "%-7s %s", key.name, key.f)
		}
	}
	for _, a := range c.Inputs {
		line("input", "%s: value %s, expression %s", a.Name, a.Value, a.Expression)
	}
	for _, u := range c.Upstream {
		line("upstream", "%s, %v: %s", u.Step, u.Facet, u.Digest)
	}
}

func newCheckpointsExport(io streams) *cobra.Command {
	var state place
	c := &cobra.Command{
		Use: "export ID|STEP", Short: "Print a checkpoint with its output as JSON, to be imported elsewhere", Args: cobra.ExactArgs(1),
		Example: `  engine checkpoints export chk_mb2tk6p4x7w5zq3a > summary.json`,
		RunE: func(c *cobra.Command, args []string) error {
			dir := stateDir(state, ".")
			s, err := recordsOf(io, dir, "a checkpoint cannot be exported")
			if err != nil {
				return err
			}
			defer s.Close()
			st, err := findCheckpoint(c.Context(), s, args[0], dir)
			if err != nil {
				return err
			}
			r, data, err := readCheckpoint(c.Context(), s, st)
			if err != nil {
				return err
			}
			doc, err := checkpoint.NewDocument(st.Workflow, r, data)
			if errors.Is(err, checkpoint.ErrNotFound) {
				return exit(exitUsage, "%w", err)
			}
			if err != nil {
				return exit(exitInternal, "%w", err)
			}
			if _, err := fmt.Fprintf(io.out, "%s\n", doc.Bytes()); err != nil {
				return exit(exitStore, "export: %w", err)
			}
			return nil
		},
	}
	addState(c, &state)
	return c
}

// maxDocument bounds what import reads: the largest output, escaped.
const maxDocument = 1 << 30

func newCheckpointsImport(std streams) *cobra.Command {
	var state place
	var asJSON, encrypt bool
	c := &cobra.Command{
		Use: "import FILE", Short: "Add a checkpoint that was exported; - reads stdin", Args: cobra.ExactArgs(1),
		Long: `Verifies the file and adds its checkpoint. It takes part by its keys, like any
other: a step that would compute the same reuses it, all others do not see it.`,
		Example: `  engine checkpoints import summary.json`,
		RunE: func(c *cobra.Command, args []string) error {
			in := std.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return exit(exitUsage, "%w", err)
				}
				defer f.Close()
				in = f
			}
			text, err := io.ReadAll(io.LimitReader(in, maxDocument))
			if err != nil {
				return exit(exitUsage, "%s: %w", args[0], err)
			}
			doc, err := checkpoint.ReadDocument(text)
			if err != nil {
				return exit(exitInvalid, "%s: %w", args[0], err)
			}
			s, err := openStore(c.Context(), std, stateDir(state, "."), encrypt, 0, logger(std))
			if err != nil {
				return err
			}
			added, err := importDocument(c.Context(), s, doc)
			if err := errors.Join(err, s.Close()); err != nil {
				return exit(exitStore, "%w", err)
			}
			h := doc.Head()
			switch {
			case asJSON:
				writeVersion(std.out)
				writeJSON(std.out, map[string]any{"type": "import", "checkpoint": h.ID, "workflow": doc.Workflow(), "step": h.Step, "added": added})
			case added:
				fmt.Fprintf(std.out, "imported %s of %s of workflow %q\n", h.ID, oneLine(hcl.InstanceAddress(h.Step, h.Instance)), doc.Workflow())
			default:
				fmt.Fprintf(std.out, "%s of %s of workflow %q is there already\n", h.ID, oneLine(hcl.InstanceAddress(h.Step, h.Instance)), doc.Workflow())
			}
			return nil
		},
	}
	addState(c, &state)
	addEncrypt(c, &encrypt)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// importDocument adds the checkpoint, unless what the step would find under its
// key is the same already.
func importDocument(ctx context.Context, s *pebblestore.Store, doc *checkpoint.Document) (added bool, err error) {
	h := doc.Head()
	x, err := s.Snapshot(ctx, tenant, doc.Workflow())
	if err != nil {
		return false, err
	}
	if old := x.ByPlan(h.Plan, h.Step, h.Instance, h.Run); old != nil && old.Step == h.Step && old.Instance == h.Instance && old.ID == h.ID && old.HasData() {
		if _, err := s.Data(ctx, tenant, old.Data); err == nil || old.Outcome != checkpoint.Succeeded {
			return false, nil
		}
	}
	if _, err := s.Commit(ctx, doc.Batch(tenant)); err != nil {
		return false, err
	}
	return true, s.Barrier(ctx)
}

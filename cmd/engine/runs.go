package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/host"
)

// isLive reports whether a process has the state open, so that a run without an
// end may still be going on.
func isLive(state string) bool {
	s, err := pebblestore.OpenReadOnly(filepath.Join(state, "store"), pebblestore.Options{})
	if err == nil {
		_ = s.Close()
		return false
	}
	return errors.Is(err, pebblestore.ErrLocked)
}

// runLine is one run as `runs` shows it.
type runLine struct {
	Type     string               `json:"type"` // "run"
	Run      checkpoint.RunID     `json:"run"`
	Workflow string               `json:"workflow"`
	Status   checkpoint.RunStatus `json:"status"`
	Started  time.Time            `json:"started"`
	Ended    time.Time            `json:"ended,omitzero"`
	Counts   host.Counts          `json:"counts"`
}

// runStatuses are the words for how a run stands.
var runStatuses = []string{string(checkpoint.RunRunning), string(checkpoint.RunSucceeded), string(checkpoint.RunFailed), string(checkpoint.RunCancelled),
	string(checkpoint.RunInterrupted), string(checkpoint.RunCompensating), string(checkpoint.RunCompensated)}

func newRuns(io streams) *cobra.Command {
	var state place
	var workflow, status string
	var asJSON bool
	c := &cobra.Command{
		Use: "runs", Short: "List runs, newest first; also while one goes on", Args: cobra.NoArgs,
		Example: `  engine runs
  engine runs --workflow document --status failed`,
		RunE: func(*cobra.Command, []string) error {
			if status != "" && !slices.Contains(runStatuses, status) {
				return exit(exitUsage, "--status %q is none of %s", status, strings.Join(runStatuses, ", "))
			}
			ss, err := stories(stateDir(state, "."))
			if err != nil {
				return storyError(err)
			}
			ss = readable(io, ss)
			if asJSON {
				writeVersion(io.out)
			}
			w := tabwriter.NewWriter(io.out, 0, 4, 2, ' ', 0)
			if !asJSON && len(ss) > 0 {
				fmt.Fprintln(w, "RUN\tWORKFLOW\tSTATUS\tSTARTED\tTOOK\tRAN\tREUSED\tFAILED")
			}
			for _, s := range ss {
				if workflow != "" && s.Workflow != workflow || status != "" && string(s.Status) != status {
					continue
				}
				if asJSON {
					writeJSON(io.out, runLine{"run", s.ID, s.Workflow, s.Status, s.Started, s.Ended, s.Counts})
					continue
				}
				took := "-"
				if !s.Ended.IsZero() {
					took = short(s.Took)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", s.ID, escape(s.Workflow), s.Status, s.Started.Local().Format(time.DateTime), took, s.Counts.Ran, s.Counts.Reused, s.Counts.Failed)
			}
			if len(ss) == 0 && !asJSON {
				fmt.Fprintln(io.err, "no runs yet; see: engine apply")
			}
			_ = w.Flush() // stdout remembers its errors itself
			return nil
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&workflow, "workflow", "", "only runs of this `workflow`")
	c.Flags().StringVar(&status, "status", "", "only runs with this `status`: running, succeeded, failed, cancelled, interrupted")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

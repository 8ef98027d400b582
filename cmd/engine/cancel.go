package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/control"
)

func newCancel(io streams) *cobra.Command {
	var state place
	var asJSON bool
	c := &cobra.Command{
		Use:   "cancel [RUN]",
		Short: "End the run that is going on, and say so when its work has really stopped",
		Long: `Asks the process of the run to end it, as its first Ctrl-C does: running steps
are stopped, everything that has finished is kept, and the next apply goes on
from there. Returns when the run has ended and all of it is stored.`,
		Example: `  engine cancel
  engine cancel r_ab12`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := stateDir(state, ".")
			var want checkpoint.RunID
			if len(args) > 0 && args[0] != "latest" {
				s, err := findStory(dir, args[0])
				if err != nil {
					return err
				}
				if want = s.ID; s.Status != checkpoint.RunRunning {
					return exit(exitUsage, "run %s is not going on: %s", s.ID, s.Status)
				}
			}
			if at, err := control.Ask(c.Context(), dir.dir); err == nil && len(at.Running) > 0 && !asJSON {
				fmt.Fprintf(io.err, "run %s is being ended; what runs: %s\n", at.Run, oneLine(strings.Join(at.Running, ", ")))
			}
			at, err := control.Cancel(c.Context(), dir.dir, want, "cancelled with engine cancel")
			switch {
			case errors.Is(err, control.ErrNoRun) && isLive(dir.dir):
				_, err := openToRead(io, dir, "the store cannot be read") // names the owner
				return fmt.Errorf("%w; it does not answer", err)
			case errors.Is(err, control.ErrNoRun):
				return exit(exitUsage, "no run is going on in %s; see: engine runs", dir)
			case err != nil:
				return exit(exitFailed, "%w; see: engine runs", err)
			case asJSON:
				writeVersion(io.out)
				writeJSON(io.out, struct {
					Type string `json:"type"`
					*control.Snapshot
				}{"cancel", at})
			case at.Run == "":
				fmt.Fprintf(io.out, "pid %d has ended before it opened a run\n", at.PID)
			case at.Status == checkpoint.RunCancelled:
				fmt.Fprintf(io.out, "run %s is cancelled; what has succeeded is kept, and engine apply goes on from there\n", at.Run)
			default:
				fmt.Fprintf(io.out, "run %s had ended before: %s\n", at.Run, at.Status)
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// live tells who asks at the control socket how the run of this process stands.
type live struct {
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	at     control.Snapshot
	crowds crowds
}

func newLive(workflow string, cancel context.CancelCauseFunc) *live {
	return &live{cancel: cancel, at: control.Snapshot{PID: os.Getpid(), Workflow: workflow, Since: time.Now()}, crowds: crowds{}}
}

// Snapshot implements control.Run.
func (l *live) Snapshot() control.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at
	at.Running = slices.Clone(at.Running)
	return at
}

// Cancel implements control.Run.
func (l *live) Cancel(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at.Stopping = true
	l.cancel(errors.New(reason))
}

// Observe implements host.Observer.
func (l *live) Observe(events []host.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		l.add(&events[i])
	}
}

func (l *live) add(e *host.Event) {
	rests := func() {
		l.at.Running = slices.DeleteFunc(l.at.Running, func(s string) bool { return s == e.Step })
	}
	switch e.Type {
	case host.EventRunStarted:
		l.at.Run, l.at.Total = e.Run, e.Counts.Total
	case host.EventExpanded:
		l.at.Total += l.crowds.expanded(e)
	case host.EventStarted:
		rests()
		l.at.Running = append(l.at.Running, e.Step)
	case host.EventAttemptFailed:
		rests()
	case host.EventReused, host.EventSucceeded, host.EventFailed, host.EventSkipped, host.EventCancelled:
		rests()
		if !l.crowds.stand(e.Step) {
			l.at.Done++
		}
	case host.EventRunEnded:
		l.at.Status = e.Status
	case host.EventNothingToRun:
		l.at.Run, l.at.Status = e.Run, checkpoint.RunSucceeded
	}
}

// held says who has the state, as its run itself tells; cause is the lock's
// error.
func held(state string, cause error, what string) error {
	at, err := control.Ask(context.Background(), state)
	if err != nil || at.Run == "" {
		return exit(exitLocked, "%w; %s while a run goes on", cause, what)
	}
	return exit(exitLocked, "run %s of workflow %q is going on in pid %d since %s, %d of %d steps have ended; %s while a run goes on. engine show tells more, engine cancel ends it",
		at.Run, at.Workflow, at.PID, short(time.Since(at.Since)), at.Done, at.Total, what)
}

// owned is the run of the process that has the state, for who waits.
func owned(state string) string {
	at, err := control.Ask(context.Background(), state)
	if err != nil || at.Run == "" {
		return ""
	}
	return fmt.Sprintf(" run %s of workflow %q,", at.Run, oneLine(at.Workflow))
}

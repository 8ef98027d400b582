package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

// shownStep is what a run did with one step.
type shownStep struct {
	Step        string          `json:"step"`
	State       string          `json:"state"`
	Attempts    []shownTry      `json:"attempts,omitempty"`
	Checkpoint  checkpoint.ID   `json:"checkpoint,omitempty"`
	Persisted   bool            `json:"persisted"`
	Reason      string          `json:"reason,omitempty"`
	Saved       time.Duration   `json:"saved_ns,omitempty"`
	SavedTokens int64           `json:"saved_tokens,omitempty"`
	SavedCost   checkpoint.Cost `json:"saved_cost,omitzero"`
	Error       *sdk.Error      `json:"error,omitempty"`     // why it failed before an attempt began
	Instances   tally           `json:"instances,omitempty"` // of what has a for_each, by state
}

// shownTry is one attempt.
type shownTry struct {
	Attempt  int             `json:"attempt"`
	Started  time.Time       `json:"started"`
	Took     time.Duration   `json:"took_ns,omitempty"`
	Error    *sdk.Error      `json:"error,omitempty"`
	Open     bool            `json:"open,omitempty"` // no end was recorded: it runs, or was interrupted
	Usage    []sdk.Usage     `json:"usage,omitempty"`
	Cost     checkpoint.Cost `json:"cost,omitzero"`
	Fallback bool            `json:"fallback,omitempty"` // a fallback answered
}

// steps folds a run's events, in the order in which steps first appeared.
func (s *story) steps() []*shownStep {
	var order []*shownStep
	byName := map[string]*shownStep{}
	for i := range s.Events {
		e := &s.Events[i]
		if e.Step == "" {
			continue
		}
		st := byName[e.Step]
		if st == nil {
			st = &shownStep{Step: e.Step}
			byName[e.Step] = st
			order = append(order, st)
		}
		st.add(e)
		if _, fan := s.fans[e.Step]; fan && e.Type == host.EventReused && st.State == "reused" {
			// What had become of its instances until then is over.
			order = slices.DeleteFunc(order, func(in *shownStep) bool {
				over := !in.good() && slices.Contains(around(in.Step), e.Step)
				if over {
					delete(byName, in.Step)
				}
				return over
			})
		}
	}
	gatherInstances(s, order)
	return order
}

func (st *shownStep) add(e *host.Event) {
	end := func() {
		// An attempt that a kill took stays open, and the next one may have its
		// number.
		if n := len(st.Attempts); n > 0 && st.Attempts[n-1].Attempt == e.Attempt && st.Attempts[n-1].Open {
			a := &st.Attempts[n-1]
			a.Open, a.Took, a.Error, a.Usage, a.Cost, a.Fallback = false, e.Took, e.Error, e.Usage, e.Cost, e.Degraded
		}
	}
	if st.State == "" {
		st.State = "preparing" // it said something before its first attempt
	}
	if st.ended() && anew(e.Type) { // the run went on: what it ended with before is over
		st.Reason, st.Error = "", nil
	}
	switch e.Type {
	case host.EventExpanded:
		st.State = "running"
	case host.EventStarted:
		st.State, st.Error = "running", nil
		st.Attempts = append(st.Attempts, shownTry{Attempt: e.Attempt, Started: e.Time, Open: true})
		if e.Reason != "" {
			st.Reason = e.Reason
		}
	case host.EventAttemptFailed:
		st.State = "waiting for a retry"
		end()
	case host.EventWaiting:
		st.State = "waiting for its turn"
	case host.EventSucceeded:
		st.State, st.Checkpoint, st.Persisted = "succeeded", e.Checkpoint, false
		if e.Reason != "" {
			st.Reason = e.Reason
		}
		end()
	case host.EventPersisted:
		st.Persisted = true
	case host.EventReused:
		// A run that goes on reuses what it made itself; its own story stays.
		if st.Checkpoint != e.Checkpoint || len(st.Attempts) == 0 || st.State != "succeeded" {
			st.State, st.Checkpoint, st.Reason = "reused", e.Checkpoint, e.Reason
			st.Saved, st.SavedTokens, st.SavedCost = e.Saved, e.SavedTokens, e.SavedCost
		}
		st.Persisted = true
	case host.EventFailed:
		st.State = "failed"
		if e.Attempt == 0 {
			st.Error = e.Error
		}
		end()
	case host.EventSkipped:
		st.State, st.Reason = "skipped", e.Reason
		if e.Attempt == 0 {
			st.Error = e.Error
		}
		end()
	case host.EventUndone:
		st.State = "undone"
	case host.EventUndoFailed:
		st.State, st.Error = "not undone", e.Error
	case host.EventCancelled:
		st.State = "cancelled"
		end()
	}
}

// ended: the state is one that a step keeps, unless its run goes on.
func (st *shownStep) ended() bool {
	switch st.State {
	case "reused", "failed", "skipped", "cancelled":
		return true
	}
	return false
}

// anew: an event of this type, of a step that had ended, says that it was not the end.
func anew(t host.EventType) bool {
	switch t {
	case host.EventExpanded, host.EventStarted, host.EventAttemptFailed, host.EventSucceeded, host.EventReused, host.EventFailed, host.EventSkipped, host.EventCancelled:
		return true
	}
	return false
}

// good: it ended well, whatever had failed before.
func (st *shownStep) good() bool { return st.State == "succeeded" || st.State == "reused" }

// stateIn is the step's state in its run, as a word.
func (st *shownStep) stateIn(s *story) string {
	if s.Status == checkpoint.RunInterrupted && (st.State == "running" || st.State == "preparing") {
		return "interrupted"
	}
	return st.State
}

// noStep says that nothing is known in the run of what a person named.
func noStep(s *story, named string) error {
	return exit(exitUsage, "run %s has no step %q; see: engine show %s", s.ID, named, s.ID)
}

func newShow(io streams) *cobra.Command {
	var state place
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [RUN] [STEP]",
		Short: "Show what a run did: states, attempts, errors, checkpoints, why steps were reused",
		Long: `RUN is a run's id, a unique prefix of it, or latest (the default). STEP may be an
instance, 'step.NAME["key"]', and needs no RUN before it. Works while the run
goes on.`,
		Example: `  engine show
  engine show step.summarize
  engine show r_ab12 step.summarize
  engine show latest --json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			run, step := runAndStep(args)
			s, err := findStory(stateDir(state, "."), run)
			if err != nil {
				return err
			}
			steps := s.steps()
			want, err := namedStep(step)
			if err != nil {
				return err
			}
			if want != "" {
				if steps = slices.DeleteFunc(steps, func(st *shownStep) bool { return !covers(want, st.Step) }); len(steps) == 0 {
					return noStep(s, step)
				}
			}
			if asJSON {
				writeVersion(io.out)
				b := billOf(steps)
				shown := map[string]any{"type": "run", "run": s.ID, "workflow": s.Workflow, "status": s.Status, "started": s.Started, "counts": s.Counts, "steps": steps}
				if len(b.Usage) > 0 {
					shown["usage"] = b.Usage
				}
				if b.Cost != (checkpoint.Cost{}) {
					shown["cost"] = b.Cost
				}
				writeJSON(io.out, shown)
				return nil
			}
			writeStory(io, s, steps, want != "")
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// maxFailed bounds how many failed instances of a step the overview names.
const maxFailed = 5

func writeStory(io streams, s *story, steps []*shownStep, full bool) {
	w := io.out
	fmt.Fprintf(w, "run %s of workflow %q: %s, started %s\n", s.ID, s.Workflow, s.Status, s.Started.Local().Format(time.DateTime))
	listed := map[string]bool{}
	for _, st := range steps {
		listed[st.Step] = true
	}
	for _, st := range steps {
		if as := around(st.Step); slices.ContainsFunc(as, func(a string) bool { return listed[a] }) || !full && len(as) > 0 {
			continue // told with its step
		}
		fmt.Fprintf(w, "  %-11s %s", st.stateIn(s), oneLine(st.Step))
		if st.Checkpoint != "" {
			fmt.Fprintf(w, " (%s", st.Checkpoint)
			if !st.Persisted {
				fmt.Fprint(w, notStored(s))
			}
			fmt.Fprint(w, ")")
		}
		if n := len(st.Attempts); n > 0 && st.Instances == nil {
			fmt.Fprintf(w, ", %s", count(n, "attempt"))
			if last := &st.Attempts[n-1]; !last.Open {
				fmt.Fprintf(w, ", %s", short(last.Took))
			}
		}
		if st.Instances == nil {
			b := st.bill()
			fmt.Fprint(w, b.String())
		} else {
			b := billOf(instancesOf(steps, st.Step))
			fmt.Fprint(w, b.String())
		}
		if st.Reason != "" {
			fmt.Fprintf(w, ": %s", oneLine(st.Reason))
		}
		if n := st.Instances.total(); n > 0 {
			fmt.Fprintf(w, ": %s: %s", count(n, "instance"), st.Instances)
		}
		fmt.Fprintln(w)
		if st.Instances != nil {
			is := instancesOf(steps, st.Step)
			if !full {
				is = slices.DeleteFunc(is, func(i *shownStep) bool { return i.stateIn(s) != "failed" })
			}
			writeInstances(io, s, st.Step, is, map[bool]int{true: maxListed, false: maxFailed}[full])
			continue
		}
		if st.Error != nil {
			fmt.Fprintf(w, "              %s\n", oneLine(st.Error.Error()))
		}
		for _, a := range st.Attempts {
			switch {
			case full:
				a.write(w)
			case a.Fallback && a.Error != nil:
				fmt.Fprintf(w, "              a fallback answered, because of %s\n", oneLine(a.Error.Error()))
			case a.Error != nil && !st.good():
				fmt.Fprintf(w, "              attempt %d: %s\n", a.Attempt, oneLine(a.Error.Error()))
			}
		}
	}
	if !full {
		c := s.Counts
		fmt.Fprintf(w, "%s: %d ran, %d reused, %d skipped, %d failed, %d cancelled\n", count(c.Total, "step"), c.Ran, c.Reused, c.Skipped, c.Failed, c.Cancelled)
		b := billOf(steps)
		if s := spent(b.Usage, b.Cost); s != "" {
			fmt.Fprintf(w, "used: %s\n", s)
		}
		if s := spared(steps); s != "" {
			fmt.Fprintf(w, "saved by reuse: %s\n", s)
		}
	}
}

// notStored says of a step that has succeeded that this was not on disk when the
// journal last told of it.
func notStored(s *story) string {
	if s.Status == checkpoint.RunInterrupted {
		return ", perhaps lost: it was not on disk yet"
	}
	return ", volatile"
}

func newOutput(io streams) *cobra.Command {
	var f flowFlags
	var state place
	var flow string
	var raw, asJSON bool
	c := &cobra.Command{
		Use:   "output [RUN] [NAME]",
		Short: "Print the outputs of a run",
		Long: `Prints the outputs of a run as they were when it ended. A sensitive one is not
kept: with --raw its value is made again of the flow and what is stored now.

RUN is a run's id, a unique prefix of it that begins with r_, or latest (the
default).`,
		Example: `  engine output
  engine output report --raw > report.md
  engine output r_ab12 report`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			run, name := runAndOutput(args)
			s, err := findStory(stateDir(state, "."), run)
			if err != nil {
				return err
			}
			outs := s.Outputs
			if name != "" {
				outs = nil
				var names []string
				for _, o := range s.Outputs {
					names = append(names, o.Name)
					if o.Name == name {
						outs = append(outs, o)
					}
				}
				if len(outs) == 0 && s.Ended.IsZero() {
					return exit(exitFailed, "run %s has not ended (%s); it has no outputs yet", s.ID, s.Status)
				}
				if len(outs) == 0 {
					return exit(exitUsage, "run %s has no output %q; it has: %s", s.ID, name, strings.Join(names, ", "))
				}
			}
			switch {
			case raw && len(outs) != 1:
				return exit(exitUsage, "--raw prints one output; name it")
			case raw && outs[0].Unavailable != "":
				return exit(exitFailed, "output %s is unavailable: %s", outs[0].Name, outs[0].Unavailable)
			case raw && outs[0].Sensitive:
				f.state = stateDir(state, ".")
				return writeSensitive(c.Context(), io, &f, flow, outs[0].Name)
			case raw:
				writeRaw(io, outs[0].Value)
			case asJSON:
				writeVersion(io.out)
				writeJSON(io.out, map[string]any{"type": "outputs", "run": s.ID, "outputs": outs})
			default:
				writeOutputs(io, outs)
			}
			if name != "" && outs[0].Unavailable != "" {
				return &exitError{code: exitFailed} // which was said
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&flow, "flow", ".", "the `flow` that a sensitive output is made of")
	c.Flags().StringArrayVar(&f.vars, "var", nil, "set a variable of that flow: `name=value`")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "read variables of that flow from a `file`")
	c.Flags().BoolVar(&raw, "raw", false, "print the value itself, a string byte for byte")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// writeRaw prints a value itself, a string byte for byte.
func writeRaw(io streams, v json.RawMessage) {
	var text string
	if json.Unmarshal(v, &text) != nil {
		text = string(v)
	}
	fmt.Fprint(io.out, text)
}

// writeSensitive prints the value of a sensitive output, made of what is stored
// now.
func writeSensitive(ctx context.Context, io streams, f *flowFlags, path, name string) error {
	v := newDiagView(io, false)
	l, h, done, err := f.reading(io, path, v)
	if err != nil {
		return err
	}
	defer done()
	outs, err := h.Outputs(ctx, l.flow, l.values)
	if err != nil {
		return failure(err, l.flow.Workflow(), v)
	}
	i := slices.IndexFunc(outs, func(o host.Output) bool { return o.Name == name })
	switch {
	case i < 0:
		return exit(exitUsage, "workflow %q has no output %q any more", l.flow.Workflow().Name, name)
	case outs[i].Unavailable != "":
		return exit(exitFailed, "output %s is unavailable: %s; see: engine plan", name, outs[i].Unavailable)
	}
	writeRaw(io, outs[i].Value)
	return nil
}

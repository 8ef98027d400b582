package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/host/control"
)

func newPlan(io streams) *cobra.Command {
	var f flowFlags
	var detailed bool
	c := &cobra.Command{
		Use:   "plan [FLOW]",
		Short: "Show what would run, what is reused, and why",
		Long: `Decides what apply would do and runs nothing. Each step has a reason, as a
difference where there is one. The plan is an upper bound: a step that waits for
another is reused if the other gives the answer it gave before.`,
		Example: `  engine plan flow.hcl
  engine plan flow.hcl --detailed-exitcode   exit 2 if something would run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v := newDiagView(io, f.json)
			if f.json {
				writeVersion(io.out)
			}
			l, h, done, err := f.reading(io, flowPath(args), v)
			if err != nil {
				return err
			}
			defer done()
			p, err := h.Plan(context.WithoutCancel(c.Context()), l.flow, l.values, l.options)
			if err != nil {
				return failure(err, l.flow.Workflow(), v)
			}
			if f.json {
				writeJSON(io.out, struct {
					Type string `json:"type"`
					*host.Plan
				}{"plan", p})
			} else {
				writePlan(io, p)
			}
			if detailed && p.Run+p.Decide+len(p.Undo) > 0 {
				return &exitError{code: exitChanges}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 2 if something would run, 0 if nothing")
	return c
}

// mayLack reports whether apply will find that records were lost.
func mayLack(state place, store checkpoint.Store) bool {
	p, ok := store.(*pebblestore.Store)
	return marked(state.dir) || isGone(state) || ok && p.Behind() > 0
}

// reading makes what a verb needs that plans and runs nothing. done must be
// called at its end.
func (f *flowFlags) reading(io streams, path string, v diagView) (l *loaded, h *host.Host, done func(), err error) {
	if l, err = f.load(io, path, false, v); err != nil {
		return nil, nil, nil, err
	}
	store, sealer, err := readStore(io, l)
	if err != nil {
		return nil, nil, nil, err
	}
	key, err := stateKey(l.flow.Workflow(), l.state.dir, sealer, false)
	if err == nil {
		h, err = host.New(host.Options{Store: store, Logger: l.log, Version: version, Behind: mayLack(l.state, store), Environ: os.Environ(), Key: key, Isolation: l.isolation})
		if err != nil {
			err = exit(exitInternal, "%w", err)
		}
	}
	if err != nil {
		_ = store.Close() // it was only read
		return nil, nil, nil, err
	}
	return l, h, func() { _ = store.Close() }, nil
}

// readStore opens the state to be read. Without one, everything would run.
func readStore(io streams, l *loaded) (checkpoint.Store, *checkpoint.Sealer, error) {
	s, err := l.state.openForReading(pebblestore.Options{Logger: l.log})
	var given *exitError
	switch {
	case err == nil:
		sealer, err := s.Sealer(tenant)
		if err != nil {
			_ = s.Close() // it was only read
			return nil, nil, storeError(err)
		}
		return s, sealer, nil
	case errors.As(err, &given):
		return nil, nil, err
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint.NewMemoryStore(), nil, nil
	case errors.Is(err, pebblestore.ErrLocked):
		return ofLiveRun(io, l.state, err, "a plan cannot be made")
	}
	return nil, nil, storeError(err)
}

// ofLiveRun reads the records of the run that has the state, as they are by now.
// cause is the lock's error, what is not possible if the run does not answer.
func ofLiveRun(io streams, state place, cause error, what string) (*control.Remote, *checkpoint.Sealer, error) {
	sealer, err := state.sealer() // the run has the key, and who asks must have it too
	if err != nil {
		return nil, nil, err
	}
	at, err := control.Ask(context.Background(), state.dir)
	if err != nil || at.Run == "" {
		return nil, nil, held(state.dir, cause, what)
	}
	records, err := control.Open(context.Background(), state.dir)
	if err != nil {
		return nil, nil, held(state.dir, cause, what)
	}
	fmt.Fprintf(io.err, "run %s of workflow %q is going on in pid %d since %s, %d of %d steps have ended; what follows is as it would be if it ended now\n",
		at.Run, oneLine(at.Workflow), at.PID, short(time.Since(at.Since)), at.Done, at.Total)
	return records, sealer, nil
}

// secretNote says who gets a secret and whether it counts.
func secretNote(s *host.PlannedSecret) string {
	note := "not part of the identity"
	if s.Fingerprint {
		note = "a keyed hash of it is part of the identity"
	}
	switch {
	case len(s.Steps) == 0 && len(s.Hosts) == 0:
		note += "; seen by no step"
	case len(s.Hosts) > 0:
		note += "; seen by no step, sent to " + strings.Join(s.Hosts, ", ")
	default:
		note += "; seen by " + someOf(s.Steps)
	}
	return note
}

// limiterNote says what the calls of a plugin wait for.
func limiterNote(x *host.PlannedLimiter) string {
	var bounds []string
	for _, b := range []struct {
		n    int64
		what string
	}{{x.Requests, "requests_per_minute"}, {x.Tokens, "tokens_per_minute"}, {int64(x.Concurrency), "concurrency"}} {
		if b.n > 0 {
			bounds = append(bounds, fmt.Sprintf("%s = %d", b.what, b.n))
		}
	}
	note := "all calls wait when one is told to"
	if len(bounds) > 0 {
		note = strings.Join(bounds, ", ") + "; " + note
	}
	if len(x.Steps) > 0 {
		note += "; shared by " + someOf(x.Steps)
	}
	return note
}

// someOf names the first of many.
func someOf(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func writePlan(io streams, p *host.Plan) {
	w := io.out
	if len(p.Undo) > 0 {
		fmt.Fprintf(w, "workflow %q: run %s is not undone yet; apply would undo %s, and run nothing\n", p.Workflow, p.Continues, oneLine(strings.Join(p.Undo, ", ")))
		return
	}
	switch {
	case p.Continues != "":
		fmt.Fprintf(w, "workflow %q: apply would continue run %s\n", p.Workflow, p.Continues)
	case p.Follows != "" && p.Run+p.Decide > 0:
		fmt.Fprintf(w, "workflow %q: apply would open a run that follows %s\n", p.Workflow, p.Follows)
	case p.Follows == "":
		fmt.Fprintf(w, "workflow %q: apply would open the first run with these values of its variables\n", p.Workflow)
		if p.Unfinished != "" {
			fmt.Fprintf(w, "  ! run %s, with other values, has not succeeded; it goes on with its own values, and what it did to the world is not known here\n", p.Unfinished)
		}
	default:
		fmt.Fprintf(w, "workflow %q\n", p.Workflow)
	}
	for _, s := range p.Steps { // what is not sandboxed comes first
		if s.Native && (s.Action == "run" || s.Action == "decide") {
			fmt.Fprintf(w, "  ! %s runs a native plugin, which is not sandboxed\n", oneLine(s.Step))
		}
	}
	for _, s := range p.Secrets {
		fmt.Fprintf(w, "  secret %s: %s\n", s.Name, secretNote(&s))
	}
	for _, g := range p.Grants {
		fmt.Fprintf(w, "  grant %s\n", oneLine(g.String()))
	}
	for _, m := range p.Models {
		fmt.Fprintf(w, "  model %s: it was %s when it answered %s, and is %s since %s; to ask it again: --rerun STEP\n",
			oneLine(m.Model), oneLine(m.Was), oneLine(someOf(m.Steps)), oneLine(m.Now), m.Since.Local().Format(time.DateTime))
	}
	for _, x := range p.Limiters {
		fmt.Fprintf(w, "  limiter of plugin %s: %s\n", x.Plugin, limiterNote(&x))
	}
	for _, s := range p.Steps {
		line := fmt.Sprintf("  %-7s %s: %s", s.Action, s.Step, oneLine(s.Reason))
		if s.Action == "reuse" {
			line = fmt.Sprintf("  %-7s %s: %s, %s saved (%s)", s.Action, s.Step, s.Checkpoint, saved(s.Saved, s.Tokens, s.Cost), oneLine(s.Reason))
		}
		switch {
		case s.Instances != nil:
			line += ", " + count(*s.Instances, "instance")
			if s.Reused > 0 {
				line += fmt.Sprintf(", %d of them reused", s.Reused)
			}
		case s.KnownAfter != "":
			line += ", instances known after " + oneLine(s.KnownAfter)
		}
		if s.Effects.Changes() && s.Action != "reuse" {
			line += fmt.Sprintf(" [effects: %s]", s.Effects)
		}
		if s.Isolation != "" && s.Action != "reuse" {
			line += fmt.Sprintf(" [isolation: %s]", s.Isolation)
		}
		fmt.Fprintln(w, line)
	}
	if p.Run+p.Decide == 0 {
		fmt.Fprintf(w, "Nothing to run: %d reused, %d skipped.\n", p.Reuse, p.Skip)
		return
	}
	fmt.Fprintf(w, "Plan: %d to run, %d to be decided while running, %d reused (%s saved), %d skipped.\n", p.Run, p.Decide, p.Reuse, saved(p.Saved, p.Tokens, p.Cost), p.Skip)
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/host"
)

func newLogs(io streams) *cobra.Command {
	var state place
	var follow, asJSON bool
	c := &cobra.Command{
		Use:   "logs [RUN] [STEP]",
		Short: "Print what the steps of a run logged; -f follows it until it ends",
		Long: `RUN is a run's id, a unique prefix of it, or latest (the default). STEP, with all
its instances, or 'step.NAME["key"]' needs no RUN before it. Works while the run
goes on.`,
		Example: `  engine logs
  engine logs -f
  engine logs r_ab12 step.summarize`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			run, named := runAndStep(args)
			dir := stateDir(state, ".")
			s, err := findStory(dir, run)
			if err != nil {
				return err
			}
			step, err := namedStep(named)
			if err != nil {
				return err
			}
			if asJSON {
				writeVersion(io.out)
			}
			known := step == ""
			show := func(e *host.Event) {
				known = known || e.Step != "" && covers(step, e.Step)
				switch {
				case e.Type != host.EventLog || !covers(step, e.Step):
				case asJSON:
					writeJSON(io.out, e)
				default:
					who := oneLine(e.Step)
					if e.Attempt > 0 { // else the plugin was being made ready
						who += fmt.Sprintf(", attempt %d", e.Attempt)
					}
					fmt.Fprintf(io.out, "%s %-5s %s: %s%s\n", e.Time.Local().Format("2006-01-02 15:04:05.000"), oneLine(e.Level), who, oneLine(e.Message), fields(e.Fields))
				}
			}
			if err := tail(c.Context(), dir, s, follow, show); err != nil {
				return storyError(err)
			}
			if !known {
				return noStep(s, named)
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// How often a journal that is followed is looked at, and every how many looks
// it is asked whether its writer still lives.
const (
	tailEvery = 100 * time.Millisecond
	tailAlive = 20
)

// tail gives show the events of a run's journal: those that are there, and
// with follow those to come until the run has ended, its writer is gone, or
// ctx ends.
func tail(ctx context.Context, state place, s *story, follow bool, show func(*host.Event)) error {
	sealer, err := state.sealer()
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(state.dir, "runs", string(s.ID)+".jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	lines := lineReader{sealer: sealer, run: s.ID}
	var part []byte // a line that its writer has not ended
	ended, gone := false, false
	for look := 1; ; look++ {
		for {
			line, err := r.ReadBytes('\n')
			part = append(part, line...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			e, ok, err := lines.decode(part)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
			if ok {
				show(&e)
				switch e.Type {
				case host.EventRunStarted:
					ended = false
				case host.EventRunEnded:
					ended = true
				}
			}
			part = part[:0]
		}
		if !follow || ended || gone {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailEvery):
		}
		if look%tailAlive == 0 {
			gone = !isLive(state.dir) // what it wrote last is still read
		}
	}
}

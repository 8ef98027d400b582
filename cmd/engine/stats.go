package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
)

// stats is what the journals of a state say together.
type stats struct {
	Type       string                       `json:"type"` // "stats"
	Workflow   string                       `json:"workflow,omitempty"`
	Since      time.Time                    `json:"since,omitzero"`
	Runs       int                          `json:"runs"`
	Statuses   map[checkpoint.RunStatus]int `json:"statuses"`
	Continued  int                          `json:"continued"` // continuations of runs that succeeded in the end
	Recovered  int                          `json:"recovered"` // runs that succeeded after at least one continuation
	Attempts   int                          `json:"attempts"`
	Failed     int                          `json:"failed"` // of Attempts
	Classes    map[string]int               `json:"classes"`
	Took       time.Duration                `json:"took_ns"` // of all attempts
	Saved      time.Duration                `json:"saved_ns"`
	SavedToken int64                        `json:"saved_tokens"`
	SavedCost  checkpoint.Cost              `json:"saved_cost,omitzero"`
	Tokens     int64                        `json:"tokens"`
	Cost       checkpoint.Cost              `json:"cost,omitzero"`
	Steps      []*stepStats                 `json:"steps"` // most failures first
	Hours      []hourStats                  `json:"hours"` // of the day, local time; those with attempts
	Days       []dayStats                   `json:"days"`  // local time, oldest first
}

// stepStats is one step of one workflow, with all its instances.
type stepStats struct {
	Workflow  string         `json:"workflow"`
	Step      string         `json:"step"`
	Attempts  int            `json:"attempts"`
	Failed    int            `json:"failed"`
	Classes   map[string]int `json:"classes,omitempty"`
	Succeeded int            `json:"succeeded"`
	Retried   int            `json:"retried"` // successes that took more than one attempt
	Worst     int            `json:"worst"`   // most attempts until a success
	Took      time.Duration  `json:"took_ns"`
	Reused    int            `json:"reused"`
}

// hourStats are the attempts that ended in one hour of the day.
type hourStats struct {
	Hour     int `json:"hour"`
	Attempts int `json:"attempts"`
	Failed   int `json:"failed"`
}

// dayStats are the runs that were opened, and attempts that ended, on one day.
type dayStats struct {
	Day      string `json:"day"`
	Runs     int    `json:"runs"`
	Attempts int    `json:"attempts"`
	Failed   int    `json:"failed"`
}

func newStats(io streams) *cobra.Command {
	var state place
	var workflow, since string
	var asJSON bool
	c := &cobra.Command{
		Use: "stats", Short: "Show what fails, when and how often, and what reuse saved", Args: cobra.NoArgs,
		Long: "Reads the journals of all runs of a state, also while one goes on.",
		Example: `  engine stats
  engine stats --workflow document --since 7d`,
		RunE: func(*cobra.Command, []string) error {
			var from time.Time
			if since != "" {
				d, err := parseDays("--since", since)
				if err != nil {
					return err
				}
				from = time.Now().Add(-d)
			}
			ss, err := stories(stateDir(state, "."))
			if err != nil {
				return storyError(err)
			}
			ss = readable(io, ss)
			st := sumUp(ss, workflow, from)
			if asJSON {
				writeVersion(io.out)
				writeJSON(io.out, st)
				return nil
			}
			if st.Runs == 0 {
				fmt.Fprintln(io.err, "no runs yet; see: engine apply")
				return nil
			}
			writeStats(io, st)
			return nil
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&workflow, "workflow", "", "only runs of this `workflow`")
	c.Flags().StringVar(&since, "since", "", "only what happened in this `time`: 12h, 7d")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

// parseDays reads a duration in which "7d" is seven days.
func parseDays(flag, s string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		if days, err := strconv.ParseFloat(n, 64); err == nil && days > 0 && days < 100*366 {
			return time.Duration(days * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, exit(exitUsage, "%s %q is no time; write it as 90m, 12h or 7d", flag, s)
}

// sumUp adds up what the events since a time say.
func sumUp(ss []*story, workflow string, since time.Time) *stats {
	t := summing{
		st:    &stats{Type: "stats", Workflow: workflow, Since: since, Statuses: map[checkpoint.RunStatus]int{}, Classes: map[string]int{}, Steps: []*stepStats{}, Hours: []hourStats{}, Days: []dayStats{}},
		steps: map[stepName]*stepStats{}, hours: map[int]*hourStats{}, days: map[string]*dayStats{},
	}
	for _, s := range ss {
		if workflow == "" || s.Workflow == workflow {
			t.run(s)
		}
	}
	st := t.st
	st.Steps = slices.SortedFunc(maps.Values(t.steps), func(a, b *stepStats) int {
		return cmp.Or(b.Failed-a.Failed, strings.Compare(a.Workflow, b.Workflow), strings.Compare(a.Step, b.Step))
	})
	for _, h := range sortedKeys(t.hours) {
		st.Hours = append(st.Hours, *t.hours[h])
	}
	for _, d := range sortedKeys(t.days) {
		st.Days = append(st.Days, *t.days[d])
	}
	return st
}

// summing is stats while they are counted.
type summing struct {
	st    *stats
	steps map[stepName]*stepStats
	hours map[int]*hourStats
	days  map[string]*dayStats
}

type stepName struct{ workflow, step string }

// run counts a run, of which something happened since then.
func (t *summing) run(s *story) {
	seen, parts := false, 0
	for i := range s.Events {
		e := &s.Events[i]
		if e.Type == host.EventRunStarted {
			parts++
		}
		if e.Time.Before(t.st.Since) {
			continue
		}
		day := at(t.days, e.Time.Local().Format(time.DateOnly), func(d string) *dayStats { return &dayStats{Day: d} })
		if !seen {
			seen = true
			t.st.Runs++
			day.Runs++
		}
		t.event(s.Workflow, e, day)
	}
	if !seen {
		return
	}
	t.st.Statuses[s.Status]++
	if s.Status == checkpoint.RunSucceeded && parts > 1 {
		t.st.Recovered++
		t.st.Continued += parts - 1
	}
}

func (t *summing) event(workflow string, e *host.Event, day *dayStats) {
	st := t.st
	if e.Type == host.EventRunEnded {
		st.Saved += e.Saved
		st.SavedToken += e.SavedTokens
		st.SavedCost = st.SavedCost.Plus(e.SavedCost)
	}
	if e.Step == "" {
		return
	}
	step := at(t.steps, stepName{workflow, stepOf(e.Step)}, func(k stepName) *stepStats {
		return &stepStats{Workflow: k.workflow, Step: k.step, Classes: map[string]int{}}
	})
	if e.Type == host.EventReused {
		step.Reused++
	}
	class, ended := attemptEnd(e)
	if !ended || e.Error != nil && e.Error.Code == host.CodeInstancesFailed {
		return
	}
	hour := at(t.hours, e.Time.Local().Hour(), func(h int) *hourStats { return &hourStats{Hour: h} })
	for _, n := range []*int{&st.Attempts, &step.Attempts, &hour.Attempts, &day.Attempts} {
		*n++
	}
	st.Took += e.Took
	step.Took += e.Took
	for _, u := range e.Usage {
		st.Tokens += u.InputTokens + u.OutputTokens
	}
	st.Cost = st.Cost.Plus(e.Cost)
	if class == "" {
		step.Succeeded++
		step.Worst = max(step.Worst, e.Attempt)
		if e.Attempt > 1 {
			step.Retried++
		}
		return
	}
	for _, n := range []*int{&st.Failed, &step.Failed, &hour.Failed, &day.Failed} {
		*n++
	}
	st.Classes[class]++
	step.Classes[class]++
}

// attemptEnd says of an event whether an attempt ended with it, and the class
// of its failure.
func attemptEnd(e *host.Event) (class string, ended bool) {
	switch e.Type {
	case host.EventSucceeded:
		return "", e.Attempt > 0 // else a collection was put together, or a person gave the answer
	case host.EventAttemptFailed, host.EventFailed:
		return string(e.Error.Class), true
	case host.EventSkipped: // it failed, if an attempt ended with it
		if e.Attempt > 0 && e.Error != nil {
			return string(e.Error.Class), true
		}
	}
	return "", false
}

// at finds the entry of k, or makes it.
func at[K comparable, V any](m map[K]*V, k K, make func(K) *V) *V {
	if m[k] == nil {
		m[k] = make(k)
	}
	return m[k]
}

func writeStats(io streams, st *stats) {
	w := tabwriter.NewWriter(io.out, 0, 4, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "%s:", count(st.Runs, "run"))
	for k, status := range sortedKeys(st.Statuses) {
		if k > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, " %d %s", st.Statuses[status], status)
	}
	fmt.Fprintln(w)
	if st.Recovered > 0 {
		fmt.Fprintf(w, "recovered: %s succeeded after %s\n", count(st.Recovered, "run"), count(st.Continued, "continuation"))
	}
	cost := ""
	if st.Cost != (checkpoint.Cost{}) {
		cost = ", " + st.Cost.String()
	}
	fmt.Fprintf(w, "attempts: %d, %d failed (%s), %s of work, %d tokens%s\n", st.Attempts, st.Failed, percent(st.Failed, st.Attempts), short(st.Took), st.Tokens, cost)
	fmt.Fprintf(w, "saved by reuse: %s\n", saved(st.Saved, st.SavedToken, st.SavedCost))
	fmt.Fprintln(w, "\nSTEP\tWORKFLOW\tATTEMPTS\tFAILED\tRATE\tRETRIED\tWORST\tREUSED\tCLASSES")
	for _, s := range st.Steps {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%s\n", escape(s.Step), escape(s.Workflow), s.Attempts, s.Failed, percent(s.Failed, s.Attempts), s.Retried, s.Worst, s.Reused, classes(s.Classes))
	}
	fmt.Fprintln(w, "\nHOUR\tATTEMPTS\tFAILED\tRATE")
	for _, h := range st.Hours {
		fmt.Fprintf(w, "%02d\t%d\t%d\t%s\n", h.Hour, h.Attempts, h.Failed, percent(h.Failed, h.Attempts))
	}
	fmt.Fprintln(w, "\nDAY\tRUNS\tATTEMPTS\tFAILED\tRATE")
	for _, d := range st.Days {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", d.Day, d.Runs, d.Attempts, d.Failed, percent(d.Failed, d.Attempts))
	}
}

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(n)/float64(of))
}

func classes(m map[string]int) string {
	if len(m) == 0 {
		return "-"
	}
	var b []string
	for _, c := range sortedKeys(m) {
		b = append(b, fmt.Sprintf("%s %d", c, m[c]))
	}
	return strings.Join(b, ", ")
}

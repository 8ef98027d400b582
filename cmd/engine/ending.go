package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

// result says how the run ended.
func (v *textApply) result(res *host.Result) {
	w := v.io.err
	switch {
	case !res.Opened:
		fmt.Fprintf(w, "nothing to run: run %s is current, %s reused, %s saved\n", res.Run.ID, count(res.Counts.Reused, "step"), saved(res.Saved, res.Tokens, res.SavedCost))
	default:
		c := res.Counts
		if res.Replayed {
			fmt.Fprintf(w, "replay of run %s %s in %s: %d answered", res.Run.ID, res.Run.Status, short(res.Run.Live), c.Ran)
		} else {
			fmt.Fprintf(w, "run %s %s in %s: %d ran, %d reused", res.Run.ID, res.Run.Status, short(res.Run.Live), c.Ran, c.Reused)
		}
		for _, x := range []struct {
			n    int
			what string
		}{{c.Supplied, "supplied"}, {c.Skipped, "skipped"}, {c.Failed, "failed"}, {c.Cancelled, "cancelled"}} {
			if x.n > 0 {
				fmt.Fprintf(w, ", %d %s", x.n, x.what)
			}
		}
		if c.Reused > 0 {
			fmt.Fprintf(w, "; reuse saved %s", saved(res.Saved, res.Tokens, res.SavedCost))
		}
		if s := spent(res.Usage, res.Cost); s != "" {
			fmt.Fprintf(w, "; %s", s)
			if res.Cost.USD > 0 {
				fmt.Fprintf(w, " at the prices of %s", res.PricesOf)
			}
		}
		fmt.Fprintln(w)
		if len(res.Unpriced) > 0 {
			fmt.Fprintf(w, "no price is known for %s; to give prices: --prices FILE\n", oneLine(someOf(res.Unpriced)))
		}
	}
	v.failures(res)
}

func (v *textApply) outputs(res *host.Result) { writeOutputs(v.io, res.Outputs) }

func (v *textApply) close() {}

// failures says what failed, what is safe, and how to go on.
func (v *textApply) failures(res *host.Result) {
	w := v.io.err
	v.covered(res)
	listed := map[string]int{} // instances that failed, by step
	for _, f := range res.Failures {
		if step, instance, err := hcl.SplitAddress(f.Step); err == nil && instance != "" {
			if listed[step]++; listed[step] > maxFailed {
				continue // its event has said it
			}
		}
		after := " after " + count(f.Attempts, "attempt")
		if f.Attempts == 0 {
			after = " before an attempt began"
		}
		fmt.Fprintf(w, "\n%s failed%s: %s\n", oneLine(f.Step), after, indented(f.Error.Error()))
		switch path := escape(f.Error.Path); {
		case path == "":
		case f.Place != hcl.Range{}:
			fmt.Fprintf(w, "  at %s of its input, %s\n", path, f.Place)
		case f.Error.Class == sdk.ClassInvalidInput:
			fmt.Fprintf(w, "  at %s of its input\n", path)
		default:
			fmt.Fprintf(w, "  at %s of its output\n", path)
		}
		if f.Error.Stderr != "" {
			fmt.Fprintf(w, "  last lines of its stderr:\n    %s\n", strings.ReplaceAll(escape(strings.TrimSpace(f.Error.Stderr)), "\n", "\n    "))
		}
	}
	for _, step := range slices.Sorted(maps.Keys(listed)) {
		if n := listed[step] - maxFailed; n > 0 {
			fmt.Fprintf(w, "\n%s: %d more of its instances failed; all of them: engine show %s '%s'\n", oneLine(step), n, res.Run.ID, oneLine(step))
		}
	}
	if e := res.Run.Error; e != nil {
		why := e.Error()
		if e.Class == sdk.ClassCancelled && e.Code == "" {
			why = e.Message // "cancelled by interrupt"
		}
		fmt.Fprintf(w, "\nthe run was ended: %s\n", indented(why))
	}
	if res.Replayed {
		return
	}
	switch rec := &res.Run; {
	case rec.Status == checkpoint.RunCompensated:
		fmt.Fprintf(w, "\nWhat the run and those it follows had done is undone. The same command begins anew;\nto see more: engine show %s\n", rec.ID)
		return
	case len(rec.NotUndone) > 0:
		fmt.Fprintf(w, "\nnot undone: %s\nThe same command tries to undo that, and does nothing else; to see more: engine show %s\n", escape(strings.Join(rec.NotUndone, ", ")), rec.ID)
		return
	}
	safe := "Nothing has succeeded yet"
	if n := res.Counts.Ran + res.Counts.Reused; n > 0 {
		safe = "Everything that succeeded is kept (" + count(n, "step") + ")"
	}
	if waits(res) {
		fmt.Fprintf(w, "\n%s. What is unknown must be settled first, as said above;\nto see more: engine show %s\n", safe, res.Run.ID)
	} else if res.Opened && (len(res.Failures) > 0 || res.Run.Error != nil) {
		next := "To go on, run the same command again"
		if e := res.Run.Error; e != nil && e.Class == sdk.ClassTimeout {
			next = "Its time is used up: raise the timeout of the workflow and run the same command, or begin anew with --new"
		} else if hopeless(res) {
			next = "Fix what is said above, then run the same command again"
		}
		fmt.Fprintf(w, "\n%s. %s;\nto see more: engine show %s\n", safe, next, res.Run.ID)
	}
}

// covered says which answers are not what the flow asked for, though the run
// went on.
func (v *textApply) covered(res *host.Result) {
	w := v.io.err
	for k, f := range res.Skipped {
		if k == maxListed {
			fmt.Fprintf(w, "skipped after a failure: and %d more\n", len(res.Skipped)-k)
			break
		}
		fmt.Fprintf(w, "skipped after a failure: %s: %s\n", oneLine(f.Step), oneLine(f.Error.Error()))
	}
	if n := len(res.Degraded); n > 0 {
		more := ""
		if n > maxListed {
			more = fmt.Sprintf(" and %d more", n-maxListed)
		}
		fmt.Fprintf(w, "degraded, answered by a fallback: %s%s\n", oneLine(strings.Join(res.Degraded[:min(n, maxListed)], ", ")), more)
	}
	if res.Run.Status == checkpoint.RunSucceeded && !res.Replayed && len(res.Skipped)+len(res.Degraded) > 0 {
		fmt.Fprintln(w, "The next apply asks these again.")
	}
}

// waits: every failure waits for a person, so the same command cannot help.
func waits(res *host.Result) bool {
	for _, f := range res.Failures {
		if f.Error.Code != host.CodeOutcomeUnknown {
			return false
		}
	}
	return len(res.Failures) > 0
}

// hopeless: nothing that failed can go well the next time as it is.
func hopeless(res *host.Result) bool {
	for _, f := range res.Failures {
		if !f.Error.Class.Deterministic() {
			return false
		}
	}
	return len(res.Failures) > 0
}

// indented is escaped text whose further lines cannot be taken for the engine's
// own.
func indented(s string) string {
	return strings.ReplaceAll(escape(strings.TrimSpace(s)), "\n", "\n    ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// writeOutputs prints outputs to stdout, strings as they are, and to stderr why
// one is missing.
func writeOutputs(io streams, outs []host.Output) {
	for _, o := range outs {
		if o.Unavailable != "" {
			fmt.Fprintf(io.err, "output %s is unavailable: %s\n", o.Name, oneLine(o.Unavailable))
			continue
		}
		var s string
		if json.Unmarshal(o.Value, &s) == nil && strings.Contains(s, "\n") {
			end := "EOT"
			for strings.Contains(s, end) { // the text must not end itself
				end += "_"
			}
			fmt.Fprintf(io.out, "%s = <<%s\n%s\n%s\n", o.Name, end, escape(strings.TrimSuffix(s, "\n")), end)
			continue
		}
		fmt.Fprintf(io.out, "%s = %s\n", o.Name, escape(string(o.Value)))
	}
}

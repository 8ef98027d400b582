package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

// uiVersion is the version of the JSON views. Unknown fields are to be ignored;
// a change that breaks a reader raises the first number.
const uiVersion = "1.0"

// diagView shows what is wrong with a flow and returns the exit that follows:
// nil if nothing but warnings was reported.
type diagView interface {
	report(wf *hcl.Workflow, diags hcl.Diagnostics) error
}

// newDiagView is the view of diagnostics: text on stderr, or JSON on stdout.
func newDiagView(io streams, asJSON bool) diagView {
	if asJSON {
		return &jsonDiags{io: io}
	}
	return &textDiags{io: io}
}

type textDiags struct{ io streams }

func (v *textDiags) report(wf *hcl.Workflow, diags hcl.Diagnostics) error {
	_ = diags.WriteText(v.io.err, files(wf), 0)
	return invalid(diags)
}

type jsonDiags struct{ io streams }

func (v *jsonDiags) report(wf *hcl.Workflow, diags hcl.Diagnostics) error {
	writeJSON(v.io.out, map[string]any{"type": "diagnostics", "valid": !diags.HasErrors(), "diagnostics": diags.JSON(files(wf))})
	return invalid(diags)
}

func invalid(diags hcl.Diagnostics) error {
	if diags.HasErrors() {
		return &exitError{code: exitInvalid}
	}
	return nil
}

func files(wf *hcl.Workflow) []hcl.File {
	if wf == nil {
		return nil
	}
	return wf.Files
}

// writeJSON writes one object on one line.
func writeJSON(w io.Writer, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // what views print can be encoded
	text := b.String()
	if strings.IndexFunc(text, hostile) >= 0 {
		// Such characters stand in strings only, where JSON has a spelling
		// for them that no terminal acts on.
		b.Reset()
		for _, r := range text {
			if hostile(r) {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
		text = b.String()
	}
	_, _ = io.WriteString(w, text) // stdout remembers its errors itself
}

func writeVersion(w io.Writer) {
	writeJSON(w, map[string]string{"type": "version", "ui": uiVersion, "engine": version})
}

// escape makes text that came from a step or a file harmless on a terminal:
// control characters and invalid bytes are shown, not sent. Newlines and tabs
// stay.
func escape(s string) string {
	if strings.IndexFunc(s, hostile) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hostile(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hostile runes move the cursor, change colours or the direction of text that
// follows. Right-to-left letters are not among them, nor are joiners inside
// emoji.
func hostile(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidirectional overrides and isolates
		return true
	case r == unicode.ReplacementChar:
		return false
	}
	return unicode.Is(unicode.Cc, r)
}

// oneLine is escaped text on one line.
func oneLine(s string) string {
	return escape(lineBreaks.Replace(strings.TrimSpace(s)))
}

// lineBreaks shows what would begin a line or move to a column.
var lineBreaks = strings.NewReplacer("\n", `\n`, "\t", " ", "\u2028", `\u2028`, "\u2029", `\u2029`)

// short is a duration as people read it.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// saved says what reuse spared, or what something took.
func saved(d time.Duration, tokens int64, c checkpoint.Cost) string {
	s := short(d)
	if tokens > 0 {
		s += fmt.Sprintf(" and %d tokens", tokens)
	}
	if c != (checkpoint.Cost{}) {
		s += " (" + c.String() + ")"
	}
	return s
}

// applyView shows a run while it goes on, and its result.
type applyView interface {
	diagView
	host.Observer
	// result tells how the run ended.
	result(*host.Result)
	// outputs prints the flow's outputs to stdout.
	outputs(*host.Result)
	// close is called once, before anything is printed by others.
	close()
}

// jsonApply prints the events as they are; the last line is outputs. story
// tells the same to a person on stderr, or is nil.
type jsonApply struct {
	jsonDiags
	story applyView
}

func (v *jsonApply) Observe(events []host.Event) {
	for i := range events {
		writeJSON(v.io.out, &events[i])
	}
	if v.story != nil {
		v.story.Observe(events)
	}
}

func (v *jsonApply) result(res *host.Result) {
	if v.story != nil {
		v.story.result(res)
	}
}

func (v *jsonApply) outputs(*host.Result) {} // an event

func (v *jsonApply) close() {
	if v.story != nil {
		v.story.close()
	}
}

// textApply prints one line per fact to stderr and the outputs to stdout.
type textApply struct{ textDiags }

func (v *textApply) Observe(events []host.Event) {
	for i := range events {
		if s := v.line(&events[i]); s != "" {
			fmt.Fprintln(v.io.err, s)
		}
	}
}

func (v *textApply) line(e *host.Event) string {
	word := func(format string, args ...any) string {
		return fmt.Sprintf("  %-10s %s", e.Type, oneLine(e.Step)) + fmt.Sprintf(format, args...)
	}
	switch e.Type {
	case host.EventRunStarted:
		how := ""
		switch {
		case e.Continued > 0:
			how = ", continued"
		case e.Follows != "":
			how = ", follows " + string(e.Follows)
		case e.Reason != "":
			how = ", " + oneLine(e.Reason)
		}
		c := e.Counts
		s := fmt.Sprintf("run %s of workflow %q%s: %s, %d to run", e.Run, e.Workflow, how, count(c.Total, "step"), c.ToRun)
		if c.ToDecide > 0 {
			s += fmt.Sprintf(", %d to be decided", c.ToDecide)
		}
		return s
	case host.EventReused:
		if e.Taken {
			return word(" (%s): recovery point, reused checkpoint, skipped %s of computation (%s)", e.Checkpoint, saved(e.Saved, e.SavedTokens, e.SavedCost), oneLine(e.Reason))
		}
		return word(" (%s): not needed again, %s saved", e.Checkpoint, saved(e.Saved, e.SavedTokens, e.SavedCost))
	case host.EventExpanded:
		return word(": %s", count(e.Instances, "instance"))
	case host.EventStarted:
		s := ""
		if e.Attempt > 1 {
			s = fmt.Sprintf(", attempt %d", e.Attempt)
		}
		if e.Reason != "" {
			s += ": " + oneLine(e.Reason)
		}
		return word("%s", s)
	case host.EventAttemptFailed:
		return fmt.Sprintf("  %-10s %s, attempt %d after %s: %s; %s", "retry", oneLine(e.Step), e.Attempt, short(e.Took), oneLine(e.Error.Error()), again(e))
	case host.EventWaiting:
		if e.Delay > 0 {
			return word(" for about %s: %s", short(e.Delay), oneLine(e.Reason))
		}
		return word(": %s", oneLine(e.Reason))
	case host.EventBypassed:
		return word(": %s; %s", oneLine(e.Error.Error()), oneLine(e.Reason))
	case host.EventSucceeded:
		s := " in " + short(e.Took)
		if e.Instances > 0 {
			s = fmt.Sprintf(": %s, %s of work", count(e.Instances, "instance"), short(e.Took))
		}
		if len(e.Usage) > 0 {
			s += ", " + spent(e.Usage, e.Cost)
		}
		if e.Degraded && e.Error != nil {
			s += ", by a fallback"
		}
		if e.Reason != "" {
			s = "" // no attempt was made
		}
		if e.Checkpoint != "" {
			s += fmt.Sprintf(" (%s)", e.Checkpoint)
		}
		if e.Reason != "" {
			s += ": " + oneLine(e.Reason)
		}
		return word("%s", s)
	case host.EventFailed:
		if e.Error.Code == host.CodeInstancesFailed {
			return word(": %s", oneLine(e.Error.Message))
		}
		if e.Attempt == 0 {
			return word(" before an attempt began: %s", oneLine(e.Error.Error()))
		}
		return word(", attempt %d after %s: %s", e.Attempt, short(e.Took), oneLine(e.Error.Error()))
	case host.EventSkipped:
		if e.Error != nil {
			return word(" (%s): %s", oneLine(e.Reason), oneLine(e.Error.Error()))
		}
		return word(" (%s)", oneLine(e.Reason))
	case host.EventCancelled:
		return word("")
	case host.EventUndoing:
		return word("")
	case host.EventUndone:
		return word(" in %s", short(e.Took))
	case host.EventUndoFailed:
		return fmt.Sprintf("  %-10s %s after %s: %s", "not undone", e.Step, short(e.Took), oneLine(e.Error.Error()))
	case host.EventLog:
		return fmt.Sprintf("  %-10s %s: %s", oneLine(e.Level), oneLine(e.Step), oneLine(e.Message)) + fields(e.Fields)
	}
	return ""
}

// again says what follows a failed attempt.
func again(e *host.Event) string {
	if e.Reason != "" {
		return oneLine(e.Reason)
	}
	return "again in " + short(e.Delay)
}

func fields(m map[string]any) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	return " " + escape(string(b))
}

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

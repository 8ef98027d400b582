package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host"
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
		return runStarted(e)
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
		return word("%s", stepSucceeded(e))
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

func runStarted(e *host.Event) string {
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
}

// stepSucceeded is what stands behind the step's name.
func stepSucceeded(e *host.Event) string {
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
	return s
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

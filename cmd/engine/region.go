package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/retrace-dev/engine/host"
)

// region is what the live view keeps in sight: what runs, waits for a retry or
// has failed, and how far the run is. It has no clock and no terminal.
type region struct {
	began    time.Time
	total    int // steps that end in this run, as planned
	done     int
	ran      int // of done, by running
	reused   int
	planning bool // the events of the plan are still coming in
	saved    time.Duration
	tokens   int64
	stopping bool // the run was cancelled

	steps                    map[string]*liveStep
	crowds                   crowds
	running, waiting, failed []*liveStep
}

// liveStep is a step in the region.
type liveStep struct {
	name     string
	attempt  int
	since    time.Time // running: since when
	until    time.Time // waiting: until when
	fraction float64
	text     string // progress message or reason, escaped
	emitted  string // the newest line of what it emits, raw
}

// maxEmitted bounds what is kept of a line of emitted text.
const maxEmitted = 1 << 10

func (r *region) observe(e *host.Event) {
	switch e.Type {
	case host.EventRunStarted:
		*r = region{began: e.Time, steps: map[string]*liveStep{}, crowds: crowds{}, planning: true, stopping: r.stopping}
		if e.Counts != nil {
			r.total = e.Counts.ToRun + e.Counts.ToDecide
		}
		return
	case host.EventReused:
		r.reused++
		r.saved += e.Saved
		r.tokens += e.SavedTokens
	case host.EventSkipped:
	default:
		r.planning = false
	}
	switch e.Type {
	case host.EventReused, host.EventSkipped:
		if r.planning {
			r.total++
		}
		r.end(e.Step)
	case host.EventExpanded:
		r.total += r.crowds.expanded(e)
	case host.EventStarted:
		r.leave(e.Step)
		s := &liveStep{name: oneLine(e.Step), attempt: e.Attempt, since: e.Time, text: oneLine(e.Reason)}
		r.steps[e.Step] = s
		r.running = append(r.running, s)
	case host.EventAttemptFailed:
		s := r.leave(e.Step)
		*s = liveStep{name: oneLine(e.Step), attempt: e.Attempt, until: e.Time.Add(e.Delay), text: oneLine(e.Error.Error())}
		r.steps[e.Step] = s
		r.waiting = append(r.waiting, s)
	case host.EventWaiting:
		s := r.leave(e.Step)
		*s = liveStep{name: oneLine(e.Step), text: oneLine(e.Reason)}
		if e.Delay > 0 {
			s.until = e.Time.Add(e.Delay)
		}
		r.steps[e.Step] = s
		r.waiting = append(r.waiting, s)
	case host.EventSucceeded:
		if !r.crowds.stand(e.Step) {
			r.ran++
		}
		r.end(e.Step)
	case host.EventCancelled:
		r.end(e.Step)
	case host.EventFailed:
		if r.crowds.stand(e.Step) {
			break // its instances say so
		}
		r.ran++
		r.end(e.Step)
		r.failed = append(r.failed, &liveStep{name: oneLine(e.Step), text: oneLine(e.Error.Error())})
	case host.EventProgress:
		if s := r.steps[e.Step]; s != nil {
			s.fraction = e.Fraction
			if e.Message != "" {
				s.text = oneLine(e.Message)
			}
		}
	case host.EventEmit:
		if s := r.steps[e.Step]; s != nil {
			s.emit(e.Message)
		}
	case host.EventRunEnded:
		r.running, r.waiting, r.failed = nil, nil, nil
	}
}

func (r *region) end(step string) {
	r.leave(step)
	if r.crowds.stand(step) {
		return
	}
	r.done++
}

// leave takes a step out of the region; it returns it, or a new one.
func (r *region) leave(step string) *liveStep {
	s := r.steps[step]
	if s == nil {
		return &liveStep{}
	}
	delete(r.steps, step)
	is := func(x *liveStep) bool { return x == s }
	r.running = slices.DeleteFunc(r.running, is)
	r.waiting = slices.DeleteFunc(r.waiting, is)
	return s
}

// emit keeps the last line that is not empty.
func (s *liveStep) emit(chunk string) {
	text := s.emitted + chunk
	if cut := strings.TrimRight(text, "\n"); cut == "" {
		text = ""
	} else if i := strings.LastIndexByte(cut, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if len(text) > maxEmitted {
		text = strings.ToValidUTF8(text[len(text)-maxEmitted:], "")
	}
	s.emitted = text
}

// lines draws the region for a window: at most height-2 lines (but one), each
// narrower than the window.
func (r *region) lines(width, height int, now time.Time) []string {
	if r.steps == nil || r.total == 0 {
		return nil
	}
	room := max(height-2, 1) - 1
	failed, waiting, running := r.failed, r.waiting, r.running
	hidden := 0
	if all := len(failed) + len(waiting) + len(running); all > room {
		space := max(room-1, 0) // a line says how many are not shown
		f, w := min(len(failed), space/4), min(len(waiting), space/4)
		n := min(len(running), space-f-w)
		w = min(len(waiting), space-f-n)
		f = min(len(failed), space-n-w)
		failed, waiting, running = failed[len(failed)-f:], waiting[:w], running[:n]
		hidden = all - f - w - n
	}
	var out []string
	column := "  %-10s "
	if width < 40 {
		column = "%s "
	}
	add := func(word, format string, args ...any) {
		out = append(out, cut(fmt.Sprintf(column+format, append([]any{word}, args...)...), width-1))
	}
	for _, s := range failed {
		add("failed", "%s: %s", s.name, s.text)
	}
	for _, s := range waiting {
		add("waiting", "%s", s.waits(now))
	}
	for _, s := range running {
		add("running", "%s", s.line(now, width-1-len(fmt.Sprintf(column, "running"))))
	}
	if hidden > 0 && room > 0 {
		add("…", "and %d more", hidden)
	}
	return append(out, r.counter(width-1, now))
}

// waits is a step that waits: for its next attempt, or for its plugin's limiter,
// of which the end is not always known.
func (s *liveStep) waits(now time.Time) string {
	switch {
	case s.attempt > 0:
		return fmt.Sprintf("%s, attempt %d in %s: %s", s.name, s.attempt+1, clock(s.until.Sub(now)), s.text)
	case s.until.After(now):
		return fmt.Sprintf("%s for %s: %s", s.name, clock(s.until.Sub(now)), s.text)
	}
	return s.name + ": " + s.text
}

// line is a running step within width columns; of emitted text the end is
// shown, for that is what is new.
func (s *liveStep) line(now time.Time, width int) string {
	b := s.name + " " + clock(now.Sub(s.since))
	if s.attempt > 1 {
		b += fmt.Sprintf(", attempt %d", s.attempt)
	}
	if s.fraction > 0 {
		b += fmt.Sprintf(", %d%%", int(100*min(s.fraction, 1)))
	}
	switch {
	case strings.TrimSpace(s.emitted) != "":
		if room := width - uniseg.StringWidth(b) - len(": "); room > 5 {
			b += ": " + cutLeft(oneLine(s.emitted), room)
		}
	case s.text != "":
		b += ": " + s.text
	}
	return b
}

// counter is the last line. Where it does not fit, the least important parts
// go.
func (r *region) counter(width int, now time.Time) string {
	parts := []struct {
		text string
		rank int // the largest goes first
	}{
		{fmt.Sprintf("%d/%d done", r.done, max(r.total, r.done)), 0},
		{counted(len(r.failed), "failed"), 1},
		{counted(len(r.running), "running"), 2},
		{counted(len(r.waiting), "waiting"), 3},
		{counted(r.reused, "reused"), 5},
		{r.savedText(), 6},
		{r.eta(now), 4},
	}
	if r.stopping {
		parts[len(parts)-1].text = "cancelling, again to end at once"
	}
	for rank := len(parts) - 1; ; rank-- {
		var b []string
		for _, p := range parts {
			if p.text != "" && p.rank <= rank {
				b = append(b, p.text)
			}
		}
		if s := strings.Join(b, " · "); rank == 0 || uniseg.StringWidth(s) <= width {
			return cut(s, width)
		}
	}
}

func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (r *region) savedText() string {
	switch {
	case r.reused == 0:
		return ""
	case r.tokens >= 10_000:
		return fmt.Sprintf("saved %s, %dk tokens", clock(r.saved), r.tokens/1000)
	case r.tokens > 0:
		return fmt.Sprintf("saved %s, %d tokens", clock(r.saved), r.tokens)
	}
	return "saved " + clock(r.saved)
}

// eta is the rest at the pace so far, once there is a pace: steps that ran
// take time, those that were reused do not count.
func (r *region) eta(now time.Time) string {
	rest, took := r.total-r.done, now.Sub(r.began)
	if r.ran < 3 || rest <= 0 || took < 2*time.Second {
		return ""
	}
	return "ETA " + clock(took/time.Duration(r.ran)*time.Duration(rest))
}

// clock is a duration in whole seconds: "40 s", "3m12s", "2h05m".
func clock(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// cut shortens text to so many columns of a terminal, never within a
// character as a reader sees it.
func cut(s string, width int) string {
	if width < 1 {
		return ""
	}
	if uniseg.StringWidth(s) <= width {
		return s
	}
	used, end, state := 0, 0, -1
	for rest := s; rest != ""; {
		var cluster string
		var w int
		cluster, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+w > width-1 {
			break
		}
		used += w
		end += len(cluster)
	}
	return s[:end] + "…"
}

// cutLeft is cut from the other end.
func cutLeft(s string, width int) string {
	over := uniseg.StringWidth(s) - width
	if over <= 0 {
		return s
	}
	state := -1
	for over >= 0 && s != "" { // one column more, for the ellipsis
		var w int
		_, s, w, state = uniseg.FirstGraphemeClusterInString(s, state)
		over -= w
	}
	return "…" + s
}

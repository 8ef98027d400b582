package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
)

// metrics sums a run up for Prometheus, from its events.
type metrics struct {
	workflow string
	status   checkpoint.RunStatus
	counts   host.Counts
	attempts map[string]int   // by class; "ok" for those that succeeded
	tokens   map[string]int64 // by labels
	took     time.Duration
	running  time.Duration // of all attempts
	saved    time.Duration
	spared   int64 // tokens
	cost     checkpoint.Cost
	kept     checkpoint.Cost // that reuse spared
	ended    time.Time
}

func newMetrics(workflow string) *metrics {
	return &metrics{workflow: workflow, attempts: map[string]int{}, tokens: map[string]int64{}}
}

// Observe adds events up.
func (m *metrics) Observe(events []host.Event) {
	for i := range events {
		e := &events[i]
		switch e.Type {
		case host.EventSucceeded:
			if e.Attempt > 0 { // else a collection was put together, or a person gave the answer
				m.attempts["ok"]++
				m.running += e.Took
			}
		case host.EventAttemptFailed, host.EventFailed, host.EventCancelled, host.EventSkipped:
			if e.Attempt > 0 && e.Error != nil {
				m.attempts[string(e.Error.Class)]++
			}
			m.running += e.Took
		case host.EventRunEnded:
			m.status, m.counts, m.took, m.saved, m.spared, m.kept, m.ended = e.Status, *e.Counts, e.Took, e.Saved, e.SavedTokens, e.SavedCost, e.Time
		case host.EventNothingToRun:
			m.status, m.counts, m.saved, m.spared, m.kept, m.ended = checkpoint.RunSucceeded, *e.Counts, e.Saved, e.SavedTokens, e.SavedCost, e.Time
		}
		if e.Step == "" {
			continue // that is the sum
		}
		m.cost = m.cost.Plus(e.Cost)
		for _, u := range e.Usage {
			for kind, n := range map[string]int64{"input": u.InputTokens, "output": u.OutputTokens, "cached": u.CachedTokens} {
				if n > 0 {
					m.tokens[labels("kind", kind, "model", u.Model)] += n
				}
			}
		}
	}
}

// String is the text that Prometheus reads.
func (m *metrics) String() string {
	var b strings.Builder
	head := func(name, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	}
	value := func(name, more string, v float64) {
		ls := labels("workflow", m.workflow)
		if more != "" {
			ls += "," + more
		}
		fmt.Fprintf(&b, "%s{%s} %s\n", name, ls, strconv.FormatFloat(v, 'f', -1, 64))
	}
	head("engine_run_status", "1 for how the run ended.")
	if m.status != "" {
		value("engine_run_status", labels("status", string(m.status)), 1)
	}
	head("engine_run_steps", "Steps by how they ended in the run.")
	for _, x := range []struct {
		state string
		n     int
	}{{"succeeded", m.counts.Ran}, {"reused", m.counts.Reused}, {"skipped", m.counts.Skipped}, {"failed", m.counts.Failed}, {"cancelled", m.counts.Cancelled}} {
		value("engine_run_steps", labels("state", x.state), float64(x.n))
	}
	head("engine_run_attempts", "Attempts by the class of their failure, ok for none.")
	for _, class := range sortedKeys(m.attempts) {
		value("engine_run_attempts", labels("class", class), float64(m.attempts[class]))
	}
	head("engine_run_attempt_seconds", "Time of all attempts together.")
	value("engine_run_attempt_seconds", "", m.running.Seconds())
	head("engine_run_duration_seconds", "Time from the start to the end of this part of the run.")
	value("engine_run_duration_seconds", "", m.took.Seconds())
	head("engine_run_saved_seconds", "Computation that reuse spared.")
	value("engine_run_saved_seconds", "", m.saved.Seconds())
	head("engine_run_tokens", "Tokens that attempts used.")
	for _, ls := range sortedKeys(m.tokens) {
		value("engine_run_tokens", ls, float64(m.tokens[ls]))
	}
	head("engine_run_saved_tokens", "Tokens that reuse spared.")
	value("engine_run_saved_tokens", "", float64(m.spared))
	// What has no known price is in no sum: a second line says that there is such.
	for _, x := range []struct {
		name, help string
		cost       checkpoint.Cost
	}{{"engine_run_cost", "What attempts cost", m.cost}, {"engine_run_saved_cost", "What had been paid for what reuse spared", m.kept}} {
		head(x.name+"_usd", x.help+", in USD, as far as prices are known.")
		value(x.name+"_usd", "", x.cost.USD)
		head(x.name+"_unknown", "1 if something of it has no known price.")
		value(x.name+"_unknown", "", float64(map[bool]int{true: 1}[x.cost.Unknown]))
	}
	head("engine_run_ended_timestamp_seconds", "When the run ended, in Unix time.")
	if !m.ended.IsZero() {
		value("engine_run_ended_timestamp_seconds", "", float64(m.ended.UnixMilli())/1000)
	}
	return b.String()
}

// labels are label pairs in Prometheus's text form.
func labels(pairs ...string) string {
	escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s="%s"`, pairs[i], escaped.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD")))
	}
	return b.String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// write puts the text into a file that a collector never sees half written. A
// path that is there and no regular file, such as a pipe, is written to.
func (m *metrics) write(path string) error {
	text := []byte(m.String())
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o644)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".engine-metrics-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

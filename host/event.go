package host

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// EventType names a fact of a run.
type EventType string

// The facts. What each carries beside Time and Run is said behind it.
const (
	EventRunStarted    EventType = "run_started"    // Workflow, Follows, Continued, Counts (run, decide, reused, skipped)
	EventReused        EventType = "reused"         // Step, State, Checkpoint, Reason, Saved, SavedTokens, SavedCost, Taken
	EventStarted       EventType = "started"        // Step, Attempt
	EventAttemptFailed EventType = "attempt_failed" // Step, Attempt, Error, Took, Delay, Usage, Cost: it is tried again, or a fallback answers (Reason)
	EventWaiting       EventType = "waiting"        // Step, Reason, Delay if it can be foreseen: the limiter of its plugin holds it back
	EventBypassed      EventType = "bypassed"       // Step, Error, Reason: its plugin was not asked, a fallback answers
	EventSucceeded     EventType = "succeeded"      // Step, Attempt, Checkpoint, Seq, Took, Usage, Cost: queued in commit order; Instances of a collection, and what they took together; Degraded, Error, if a fallback answers and why
	EventPersisted     EventType = "persisted"      // Step, Seq: survives a crash from now on
	EventFailed        EventType = "failed"         // Step, Attempt, Error, Place, Took, Usage, Cost
	EventSkipped       EventType = "skipped"        // Step, Reason; Attempt, Error, Took, Usage, Cost if it failed itself
	EventCancelled     EventType = "cancelled"      // Step, Error: before its first or next attempt, or during one; then Usage, Cost
	EventExpanded      EventType = "expanded"       // Step, Instances: its for_each is known; their events follow under step.x[KEY]
	EventLog           EventType = "log"            // Step, Attempt, Level, Message, Fields
	EventProgress      EventType = "progress"       // Step, Attempt, Fraction, Message
	EventEmit          EventType = "emit"           // Step, Attempt, Message
	EventUndoing       EventType = "undoing"        // Step, Attempt: its undo starts
	EventUndone        EventType = "undone"         // Step, Took: the effect is taken back
	EventUndoFailed    EventType = "undo_failed"    // Step, Error
	EventRunEnded      EventType = "run_ended"      // Status, Error, Counts, Took, Usage, Cost, PricesOf (of this process), Saved, SavedTokens, SavedCost
	EventNothingToRun  EventType = "nothing_to_run" // Run (the newest, which succeeded), Counts, Saved, SavedTokens, SavedCost: no run was opened
	EventOutputs       EventType = "outputs"        // Outputs: last, behind run_ended or nothing_to_run
)

// Event is one fact of a run. Every view, log and test reads the same events.
// Text that came from a step is untrusted: a terminal view escapes it.
type Event struct {
	Type        EventType            `json:"type"`
	Time        time.Time            `json:"time"`
	Run         checkpoint.RunID     `json:"run"`
	Workflow    string               `json:"workflow,omitempty"`
	Follows     checkpoint.RunID     `json:"follows,omitempty"`
	Continued   int                  `json:"continued,omitempty"`
	Step        string               `json:"step,omitempty"`
	Attempt     int                  `json:"attempt,omitempty"`
	State       *sdk.State           `json:"state,omitempty"`
	Checkpoint  checkpoint.ID        `json:"checkpoint,omitempty"`
	Seq         checkpoint.Seq       `json:"seq,omitempty"`
	Reason      string               `json:"reason,omitempty"`
	Error       *sdk.Error           `json:"error,omitempty"`
	Place       *hcl.Range           `json:"place,omitempty"` // where the part of the input is written that the step refused
	Took        time.Duration        `json:"took_ns,omitempty"`
	Delay       time.Duration        `json:"delay_ns,omitempty"`
	Saved       time.Duration        `json:"saved_ns,omitempty"`
	SavedTokens int64                `json:"saved_tokens,omitempty"`
	SavedCost   checkpoint.Cost      `json:"saved_cost,omitzero"` // when it was made
	Taken       bool                 `json:"taken,omitempty"`     // the output is read: one of the recovery set
	Usage       []sdk.Usage          `json:"usage,omitempty"`
	Cost        checkpoint.Cost      `json:"cost,omitzero"`       // of Usage
	PricesOf    string               `json:"prices_of,omitempty"` // the date of the prices
	Degraded    bool                 `json:"degraded,omitempty"`
	Level       string               `json:"level,omitempty"`
	Message     string               `json:"message,omitempty"`
	Fields      map[string]any       `json:"fields,omitempty"`
	Fraction    float64              `json:"fraction,omitempty"`
	Status      checkpoint.RunStatus `json:"status,omitempty"`
	Counts      *Counts              `json:"counts,omitempty"`
	Outputs     []Output             `json:"outputs,omitempty"`
	Instances   int                  `json:"instances,omitempty"`
}

// Counts says how the steps of a run stand.
type Counts struct {
	Total     int `json:"total"`              // steps of the workflow; of one with for_each, if it has any, its instances, once they are known, and none of their collections
	ToRun     int `json:"to_run"`             // at the start: will run
	ToDecide  int `json:"to_decide"`          // at the start: run unless their upstreams give the same answers
	Ran       int `json:"ran"`                // succeeded in this run's process
	Supplied  int `json:"supplied,omitempty"` // a person gave the answer
	Reused    int `json:"reused"`
	Skipped   int `json:"skipped"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
}

// String is the event as one line of text, without the time.
func (e *Event) String() string {
	var b strings.Builder
	b.WriteString(string(e.Type))
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	if e.Step != "" {
		add("%s", e.Step)
	}
	if e.Attempt > 0 {
		add("attempt=%d", e.Attempt)
	}
	if e.Checkpoint != "" {
		add("%s", e.Checkpoint)
	}
	if e.Status != "" {
		add("%s", e.Status)
	}
	if e.Reason != "" {
		add("(%s)", e.Reason)
	}
	if e.Error != nil {
		add("%v", e.Error)
	}
	if e.Message != "" {
		add("%q", e.Message)
	}
	return b.String()
}

// Observer sees every event of a run, in order, from one goroutine. It should
// not block: the run waits for it.
type Observer interface {
	// Observe receives the events of one turn of the loop. The slice is
	// reused; the events are not.
	Observe(events []Event)
}

// Observers lets several observers see the same events, in their order.
func Observers(os ...Observer) Observer { return observers(os) }

type observers []Observer

func (os observers) Observe(events []Event) {
	for _, o := range os {
		o.Observe(events)
	}
}

// DecodeEvent reads an event as it was written with encoding/json.
func DecodeEvent(b []byte) (Event, error) {
	var e Event
	err := json.Unmarshal(b, &e)
	return e, err
}

package control

import (
	"time"

	"github.com/retrace-dev/engine/checkpoint"
)

// Snapshot is how a run stands.
type Snapshot struct {
	PID      int                  `json:"pid"`
	Run      checkpoint.RunID     `json:"run,omitempty"` // "" before the run is opened
	Workflow string               `json:"workflow,omitempty"`
	Since    time.Time            `json:"since"`             // when this process began
	Total    int                  `json:"total"`             // steps and instances known so far
	Done     int                  `json:"done"`              // of them
	Running  []string             `json:"running,omitempty"` // addresses, in the order in which they began
	Stopping bool                 `json:"stopping,omitempty"`
	Status   checkpoint.RunStatus `json:"status,omitempty"` // how it ended; "" while it goes on
}

// Run is what a Server speaks for. Its methods are called from several
// goroutines.
type Run interface {
	// Snapshot says how the run stands.
	Snapshot() Snapshot
	// Cancel asks the run to end, and does not wait for it.
	Cancel(reason string)
}

// request is the one line that a client sends.
type request struct {
	V      int              `json:"v"`
	Verb   string           `json:"verb"` // "snapshot", "cancel", "records"
	Run    checkpoint.RunID `json:"run,omitempty"`
	Reason string           `json:"reason,omitempty"`
}

// reply is the one line that it receives: to cancel when the run has ended.
type reply struct {
	V        int      `json:"v"`
	Error    string   `json:"error,omitempty"`
	Snapshot Snapshot `json:"snapshot"`
}

const (
	protocol   = 1
	dirName    = "control"
	socketName = "run.sock"

	maxMessage = 1 << 20         // bytes of a line, either way
	patience   = 5 * time.Second // for a peer that is there and says nothing
)

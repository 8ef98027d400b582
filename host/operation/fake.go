package operation

import (
	"fmt"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// Recorder is a Sink for tests: it keeps what it received as lines of text.
// The zero value is ready; it is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	lines []string
}

var _ Sink = (*Recorder)(nil)

// Lines returns what was received so far, one line per call, such as
// `log info "hello" map[]`, `progress 0.5 "half"`, `emit "a"`.
func (r *Recorder) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func (r *Recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Log records one line.
func (r *Recorder) Log(level, message string, fields map[string]any) {
	r.add("log %s %q %v", level, message, fields)
}

// Progress records one line.
func (r *Recorder) Progress(fraction float64, message string) {
	r.add("progress %v %q", fraction, message)
}

// Emit records one line.
func (r *Recorder) Emit(chunk string) { r.add("emit %q", chunk) }

// Usage records one line.
func (r *Recorder) Usage(u sdk.Usage) { r.add("usage %+v", u) }

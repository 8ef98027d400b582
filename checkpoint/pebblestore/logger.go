package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/go-hclog"
)

// logger carries Pebble's messages into ours. Its Fatalf ends the store and not
// the process, as Pebble's own does; Pebble then returns the error that led
// there.
type logger struct {
	log     hclog.Logger
	failure *failure
}

var _ pebble.Logger = logger{}

func (l logger) Infof(format string, args ...any) {
	if l.log.IsTrace() {
		l.log.Trace(fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) { l.report(fmt.Sprintf(format, args...)) }

func (l logger) Fatalf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	l.failure.set(fmt.Errorf("database: %s", msg))
	l.report(msg)
}

// report logs what Pebble calls an error. After a failure these are echoes of
// it.
func (l logger) report(msg string) {
	if l.failure.cause() != nil {
		l.log.Debug(msg)
		return
	}
	l.log.Error(msg)
}

// listener turns what Pebble reports from its background work into the end of
// the store: it would try again at once and for ever.
func (l logger) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			l.failure.set(fmt.Errorf("database, in the background: %w", readError(err)))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if l.failure.cause() != nil {
				return // the file is one whose writing failed
			}
			l.log.Error("a file of the store does not verify", "file", info.Path, "error", info.Details)
		},
	}
}

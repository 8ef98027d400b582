package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
)

// maxTidy is how long an apply may remove at its end what is kept no longer.
const maxTidy = time.Second

// tidy removes what the flow keeps no longer (ttl, keep) and what exceeds the
// budget. What was begun and not ended in time, the next apply or gc goes on
// with; so it is no error of the run.
func tidy(ctx context.Context, io streams, l *loaded, store *pebblestore.Store, budget int64) {
	wf := l.flow.Workflow()
	p := checkpoint.Policy{Now: time.Now(), MaxBytes: budget, KeepSteps: map[checkpoint.StepOf]int{}}
	expires := false
	for i := range wf.Steps {
		st := &wf.Steps[i]
		expires = expires || st.TTL > 0
		if st.Keep > 0 {
			p.KeepSteps[checkpoint.StepOf{Workflow: wf.Name, Step: st.Address()}] = st.Keep
		}
	}
	if !expires && budget == 0 && len(p.KeepSteps) == 0 {
		return // there is nothing that this flow lets go
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTidy)
	defer cancel()
	c, err := store.Collect(ctx, tenant, p, false)
	switch {
	case err != nil:
		l.log.Info("what is kept no longer was not removed; engine gc takes its time", "cause", err)
	case c.Over > 0:
		fmt.Fprintf(io.err, "Warning: what unfinished and newest runs use exceeds --keep-bytes by %s, and stays; each set of values has a newest run, and engine gc --older-than forgets old ones.\n", formatSize(c.Over))
	}
}

// roomAgain adds to the error of a full disk what to do.
func roomAgain(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w; make room on that disk and run the same command again: what was persisted is kept", err)
}

// defaultFree is what the store and its database's log need to end a run in
// order: a table and two logs of 8 MiB, and some outputs.
const defaultFree = "32MiB"

// hasRoom is an error if the disk of the state is nearly full: a run that would
// end there for want of space is not begun.
func hasRoom(state string, store *pebblestore.Store, least string) error {
	if least == "0" {
		return nil
	}
	want, err := parseSize(least)
	if err != nil {
		return exit(exitUsage, "--min-free: %w", err)
	}
	free, known := store.Free()
	if known && free < want {
		return exit(exitStore, "the disk of %s has %s free, and no run is begun with less than %s; free some (engine gc), take another --state, or set --min-free", state, formatSize(free), formatSize(want))
	}
	return nil
}

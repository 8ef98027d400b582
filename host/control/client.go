package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
)

// ErrNoRun says that nobody answers at the socket of a state directory: no run
// is going on there, or its process has no socket.
var ErrNoRun = errors.New("no run answers")

// ErrGone says that a run's process ended without saying how the run did.
var ErrGone = errors.New("the run's process ended before it said how")

// Ask asks the run of a state directory how it stands.
func Ask(ctx context.Context, state string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return call(ctx, state, request{V: protocol, Verb: "snapshot"})
}

// Cancel ends the run of a state directory, if it is the one given or that is
// "", and returns when it has ended: nothing of it runs any more, and what it
// has finished is stored. When ctx ends the run is still being cancelled.
func Cancel(ctx context.Context, state string, run checkpoint.RunID, reason string) (*Snapshot, error) {
	return call(ctx, state, request{V: protocol, Verb: "cancel", Run: run, Reason: reason})
}

func call(ctx context.Context, state string, q request) (*Snapshot, error) {
	c, err := dial(ctx, state)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return send(ctx, c, bufio.NewReader(io.LimitReader(c, maxMessage)), q)
}

func dial(ctx context.Context, state string) (net.Conn, error) {
	socket := filepath.Join(state, dirName, socketName)
	short, done, err := shorten(socket)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoRun
		}
		return nil, fmt.Errorf("control socket %s: %w", socket, err)
	}
	defer done()
	c, err := new(net.Dialer).DialContext(ctx, "unix", short)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = ErrNoRun
		}
		return nil, fmt.Errorf("control socket %s: %w", socket, err)
	}
	return c, nil
}

// send asks one line and reads the answer.
func send(ctx context.Context, c net.Conn, from *bufio.Reader, q request) (*Snapshot, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append(b, '\n')); err != nil {
		return nil, ended(ctx, err)
	}
	line, err := from.ReadBytes('\n')
	if err != nil {
		return nil, ended(ctx, err)
	}
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("control socket: the answer cannot be read: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return &r.Snapshot, nil
}

// ended is why a connection gave no answer.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w (%w)", ErrGone, err)
}

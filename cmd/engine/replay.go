package main

import (
	"context"
	"errors"
	"os"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
)

// replay applies a flow with the answers of one of its runs. The state is only
// read.
func replay(ctx context.Context, f *applyFlags, l *loaded, io streams, v applyView) (err error) {
	s, err := findStory(l.state, f.replay)
	if err != nil {
		return err
	}
	store, err := openToRead(io, l.state, "a run cannot be replayed")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var seqs []checkpoint.Seq
	for i := range s.Events {
		if e := &s.Events[i]; e.Seq > 0 && (e.Type == host.EventSucceeded || e.Type == host.EventReused) {
			seqs = append(seqs, e.Seq)
		}
	}
	if l.options.Replay, err = host.ReadRecording(ctx, store, tenant, s.ID, seqs); err != nil {
		return failure(err, l.flow.Workflow(), v)
	}
	sealer, err := store.Sealer(tenant)
	if err != nil {
		return storeError(err)
	}
	key, err := stateKey(l.flow.Workflow(), l.state.dir, sealer, false)
	if err != nil {
		return err
	}
	list, err := prices(f.prices)
	if err != nil {
		return err
	}
	h, err := host.New(host.Options{Environ: os.Environ(), Key: key, Store: checkpoint.NewMemoryStore(), Observer: v, Logger: l.log,
		Concurrency: f.concurrency, Version: version, Prices: list, NoWait: true})
	if err != nil {
		return exit(exitInternal, "%w", err)
	}
	res, err := h.Apply(ctx, l.flow, l.values, l.options)
	if err != nil {
		return failure(err, l.flow.Workflow(), v)
	}
	v.close()
	v.result(res)
	v.outputs(res)
	return outcome(res)
}

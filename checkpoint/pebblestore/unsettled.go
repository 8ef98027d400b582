package pebblestore

import (
	"context"
	"slices"

	"github.com/retrace-dev/engine/checkpoint"
)

// begun are the attempts with effects of a tenant's runs, for Collect.
type begun struct {
	intents  []*checkpoint.Intent
	keys     map[*checkpoint.Intent][]byte // under which they lie
	attempts []*checkpoint.AttemptRecord
	open     map[*checkpoint.Intent]bool // those whose end nobody knows
}

func (s *Store) begun(ctx context.Context, tenant string) (*begun, error) {
	b := &begun{keys: map[*checkpoint.Intent][]byte{}, open: map[*checkpoint.Intent]bool{}}
	err := s.scan(ctx, tenantPrefix(nil, tenant, kindIntent), func(key, value []byte) error {
		in, err := checkpoint.DecodePart[checkpoint.Intent](value)
		if err != nil {
			return undecodable(key, err)
		}
		b.intents = append(b.intents, in)
		b.keys[in] = slices.Clone(key)
		return nil
	})
	if err != nil || len(b.intents) == 0 {
		return b, err
	}
	return b, s.scan(ctx, tenantPrefix(nil, tenant, kindAttempt), func(key, value []byte) error {
		a, err := checkpoint.DecodePart[checkpoint.AttemptRecord](value)
		if err != nil {
			return undecodable(key, err)
		}
		b.attempts = append(b.attempts, a)
		return nil
	})
}

// unsettled are the runs of those whose end nobody knows.
func (b *begun) unsettled(records []checkpoint.Stored, runs []*checkpoint.RunRecord) map[checkpoint.RunID]bool {
	of := map[checkpoint.RunID]bool{}
	for _, in := range checkpoint.Unsettled(records, runs, b.intents, b.attempts) {
		b.open[in] = true
		of[in.Run] = true
	}
	return of
}

// settledBy are the keys of intents whose attempts ended with records that go by d.
// Without them it would look as if nobody knew how they ended.
func (b *begun) settledBy(d checkpoint.Decision, records []checkpoint.Stored, runs []*checkpoint.RunRecord) (keys [][]byte) {
	if len(b.intents) == 0 || len(d.Records) == 0 {
		return nil
	}
	gone := map[checkpoint.Seq]bool{}
	for _, r := range d.Records {
		gone[r.Seq] = true
	}
	stay := slices.DeleteFunc(slices.Clone(records), func(r checkpoint.Stored) bool { return gone[r.Seq] })
	for _, in := range checkpoint.Unsettled(stay, runs, b.intents, b.attempts) {
		if !b.open[in] {
			keys = append(keys, b.keys[in])
		}
	}
	return keys
}

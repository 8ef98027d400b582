package checkpoint

import (
	"cmp"
	"slices"

	"github.com/retrace-dev/engine/sdk"
)

// Ambiguous classes of errors say that an attempt ended, and not what it had done to
// the world by then.
func Ambiguous(c sdk.Class) bool {
	return c == sdk.ClassTimeout || c == sdk.ClassPluginCrash || c == sdk.ClassCancelled
}

// Unsettled lists those of the intents whose attempts may have done what nobody knows
// of: none of the records is a result of the step instance since, and no attempt under
// the same idempotency key said itself that it failed. It errs on the side of keeping:
// who knows the flow may know better.
func Unsettled(records []Stored, runs []*RunRecord, intents []*Intent, attempts []*AttemptRecord) (open []*Intent) {
	if len(intents) == 0 {
		return nil
	}
	chains := map[RunID]RunID{}
	for _, r := range runs {
		chains[r.ID] = cmp.Or(r.Chain, r.ID)
	}
	type of struct {
		chain          RunID
		step, instance string
	}
	ended := map[of][]*Head{}
	for _, r := range records {
		k := of{cmp.Or(chains[r.Run], r.Chain, r.Run), r.Step, r.Instance}
		ended[k] = append(ended[k], r.Head)
	}
	type attempt struct {
		run            RunID
		step, instance string
		n              int
	}
	failed := map[attempt]bool{}
	for _, a := range attempts {
		if a.Error != nil && !Ambiguous(a.Error.Class) {
			failed[attempt{a.Run, a.Step, a.Instance, a.Attempt}] = true
		}
	}
	last := map[string]*Intent{} // by key: who took it up last
	for _, in := range intents {
		if old := last[in.IdempotencyKey]; old == nil || !in.Started.Before(old.Started) {
			last[in.IdempotencyKey] = in
		}
	}
	for _, in := range intents {
		by := in
		if in.IdempotencyKey != "" {
			by = last[in.IdempotencyKey]
		}
		k := of{cmp.Or(chains[by.Run], by.Run), by.Step, by.Instance}
		if failed[attempt{by.Run, by.Step, by.Instance, by.Attempt}] || slices.ContainsFunc(ended[k], func(h *Head) bool { return !h.Created.Before(by.Started) }) {
			continue
		}
		open = append(open, in)
	}
	return open
}

package main

import (
	"testing"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
	"github.com/retrace-dev/engine/sdk"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := newMetrics("w \"x\"\n")
	at := time.UnixMilli(1_767_323_045_250)
	m.Observe([]host.Event{
		{Type: host.EventRunStarted, Counts: &host.Counts{}},
		{Type: host.EventAttemptFailed, Step: "step.a", Attempt: 1, Error: &sdk.Error{Class: sdk.ClassRateLimited}, Took: time.Second},
		{Type: host.EventSucceeded, Step: "step.a", Attempt: 2, Took: 1500 * time.Millisecond, Usage: []sdk.Usage{{Model: "m", InputTokens: 10, OutputTokens: 5}, {Model: "m", InputTokens: 1}}, Cost: checkpoint.Cost{USD: 0.25}},
		{Type: host.EventFailed, Step: "step.b", Attempt: 1, Error: &sdk.Error{Class: sdk.ClassPluginCrash}, Cost: checkpoint.Cost{Unknown: true}},
		{Type: host.EventCancelled, Step: "step.c"},
		{Type: host.EventRunEnded, Status: "failed", Time: at, Took: 4 * time.Second, Saved: 2 * time.Minute, SavedTokens: 41_000, Usage: []sdk.Usage{{Model: "m", InputTokens: 11, OutputTokens: 5}}, Cost: checkpoint.Cost{USD: 0.25}, SavedCost: checkpoint.Cost{USD: 1.5}, Counts: &host.Counts{Ran: 1, Reused: 14, Failed: 1, Cancelled: 1}},
	})
	golden(t, "metrics.txt", m.String())
	idle := newMetrics("w")
	idle.Observe([]host.Event{{Type: host.EventNothingToRun, Time: at, Counts: &host.Counts{Reused: 3}, Saved: time.Second}})
	golden(t, "metrics_nothing.txt", idle.String())
}

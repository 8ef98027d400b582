package operation

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/retrace-dev/engine/sdk"
)

// What a step reports: these operations are done with the lock held, so that a
// Sink receives one at a time.

func (h *Host) log(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.LogOp](head)
	if e != nil {
		return e
	}
	switch op.Level {
	case "":
		op.Level = "info"
	case "debug", "info", "warn", "error":
	default:
		return &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/level", Message: fmt.Sprintf("log level %q: want debug, info, warn or error", op.Level)}
	}
	h.logs++
	switch {
	case h.logs <= h.o.MaxLogs:
		h.o.Sink.Log(op.Level, op.Message, op.Fields)
	case h.logs == h.o.MaxLogs+1:
		h.o.Sink.Log("warn", fmt.Sprintf("the step logged more than %d lines; the rest is dropped", h.o.MaxLogs), nil)
	}
	return nil
}

func (h *Host) progress(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.ProgressOp](head)
	if e != nil {
		return e
	}
	h.o.Sink.Progress(min(max(op.Fraction, 0), 1), op.Message)
	return nil
}

func (h *Host) emit(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.EmitOp](head)
	if e != nil {
		return e
	}
	h.o.Sink.Emit(op.Chunk)
	return nil
}

func (h *Host) addUsage(head json.RawMessage) *sdk.Error {
	op, e := read[sdk.UsageOp](head)
	if e != nil {
		return e
	}
	if err := op.Usage.Check(); err != nil {
		return &sdk.Error{Class: sdk.ClassInvalidInput, Message: err.Error()}
	}
	h.usage = Add(h.usage, op.Usage)
	h.o.Sink.Usage(op.Usage)
	return nil
}

// Add adds u to the entry of its model, or appends it. Counts stay at the
// largest int64 instead of wrapping around.
func Add(usage []sdk.Usage, u sdk.Usage) []sdk.Usage {
	for i := range usage {
		if t := &usage[i]; t.Model == u.Model {
			for to, n := range map[*int64]int64{
				&t.Calls: u.Calls, &t.Counted: u.Counted, &t.InputTokens: u.InputTokens, &t.OutputTokens: u.OutputTokens,
				&t.CachedTokens: u.CachedTokens, &t.CacheWriteTokens: u.CacheWriteTokens,
			} {
				*to = sum(*to, n)
			}
			return usage
		}
	}
	return append(usage, u)
}

func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (h *Host) respond(head json.RawMessage) *sdk.Error {
	r, err := sdk.ParseRespond(head)
	if err != nil {
		return sdk.AsError(err)
	}
	h.response = r
	return nil
}

type discard struct{}

func (discard) Log(string, string, map[string]any) {}
func (discard) Progress(float64, string)           {}
func (discard) Emit(string)                        {}
func (discard) Usage(sdk.Usage)                    {}

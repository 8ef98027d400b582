package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"time"

	"github.com/retrace-dev/engine/sdk"
)

// ask sends one request and reads what comes. The answer is never nil; with an
// error it holds what had come until then.
func ask(ctx context.Context, host sdk.Host, c *config, q *question) (*answer, *sdk.Error) {
	a := &answer{}
	op, body := c.dialect.request(c, q)
	text, err := sdk.Marshal(body)
	if err != nil {
		return a, sdk.AsError(err)
	}
	op.Headers["Content-Type"] = []string{"application/json"}
	if op.Stream = q.streams(); op.Stream {
		op.HeadTimeoutMS = time.Duration(q.FirstTokenTimeout).Milliseconds()
	}
	count(ctx, host, q, sdk.Usage{Calls: 1})
	began := time.Now()
	rep, data, err := sdk.HTTP(ctx, host, op, text)
	if err != nil {
		e := sdk.AsError(err)
		if e.Code == "head_timeout" {
			e = q.noToken()
		}
		return a, e
	}
	var failure *sdk.Error
	if op.Stream {
		s := &stream{ctx: ctx, host: host, id: rep.Stream, patience: patience{began: began, first: time.Duration(q.FirstTokenTimeout), idle: time.Duration(q.IdleTimeout)}}
		defer s.close()
		failure = a.readStream(c, rep, s)
		if failure != nil && failure.Code == "idle_timeout" {
			failure = q.noToken()
			if s.patience.begun {
				failure = &sdk.Error{Class: sdk.ClassTimeout, Code: "idle", Message: fmt.Sprintf("the answer stalled: no token came for %s (idle_timeout)", time.Duration(q.IdleTimeout))}
			}
		}
	} else {
		failure = a.readWhole(c, rep, data)
	}
	q.settle(ctx, host, a)
	if failure != nil && failure.Details == nil {
		failure = a.about(failure)
	}
	if a.id == "" {
		a.id = requestID(rep)
	}
	return a, failure
}

func (q *question) noToken() *sdk.Error {
	return &sdk.Error{Class: sdk.ClassTimeout, Code: "first_token", Message: fmt.Sprintf("no token came within %s (first_token_timeout)", time.Duration(q.FirstTokenTimeout))}
}

func (a *answer) readWhole(c *config, rep *sdk.HTTPReply, body []byte) *sdk.Error {
	if e := failed(rep, body); e != nil {
		return e
	}
	if err := c.dialect.take(body, a); err != nil {
		var e *sdk.Error
		if errors.As(err, &e) {
			return e
		}
		return strange(body, err)
	}
	if a.finish == "" && a.text.Len() == 0 && len(a.calls) == 0 {
		return strange(body, errors.New("it holds no answer"))
	}
	return nil
}

// readStream reads events until the stream ends. A server that was asked for a
// stream may also answer in one piece, and does when something is wrong.
func (a *answer) readStream(c *config, rep *sdk.HTTPReply, s *stream) *sdk.Error {
	kind, _, _ := mime.ParseMediaType(rep.Header("Content-Type"))
	if rep.Class != "" || kind != "text/event-stream" {
		body, err := io.ReadAll(io.LimitReader(s, maxBody))
		if err != nil {
			return sdk.AsError(err)
		}
		return a.readWhole(c, rep, body)
	}
	events := newEvents(s)
	for {
		data, err := events.next()
		if errors.Is(err, io.EOF) {
			return nil // the gate sees whether it had ended
		}
		if err != nil {
			return sdk.AsError(err)
		}
		if bytes.Equal(data, []byte("[DONE]")) {
			return nil
		}
		had := a.text.Len()
		if err := c.dialect.take(data, a); err != nil {
			var e *sdk.Error
			if errors.As(err, &e) {
				return e
			}
			return &sdk.Error{Class: sdk.ClassAPIError, Code: "malformed_event", Message: fmt.Sprintf("an event of the stream cannot be read: %v%s", err, sdk.Seen(data))}
		}
		if a.text.Len() > had {
			s.patience.token()
			emit(s.ctx, s.host, a.text.String()[had:])
		} else if len(a.calls) > 0 {
			s.patience.token()
		}
	}
}

// maxBody bounds a reply that should have been a stream.
const maxBody = 16 << 20

// emit shows a piece of the answer; nobody may be watching.
func emit(ctx context.Context, host sdk.Host, chunk string) {
	_, _, _ = sdk.Operate(ctx, host, sdk.EmitOp{Op: sdk.OpEmit, Chunk: chunk}, nil)
}

// settle reports what the call has cost. Counts that cannot be are as good as
// none.
func (q *question) settle(ctx context.Context, host sdk.Host, a *answer) {
	t := a.tokens
	if t == nil {
		return
	}
	if min(t.fresh, t.cached, t.written, t.output) < 0 {
		q.warn("", fmt.Sprintf("the server's count of tokens cannot be: %+v; what the call has used is unknown", *t))
		return
	}
	count(ctx, host, q, sdk.Usage{Counted: 1, InputTokens: t.fresh + t.cached + t.written, OutputTokens: t.output, CachedTokens: t.cached, CacheWriteTokens: t.written})
}

func count(ctx context.Context, host sdk.Host, q *question, u sdk.Usage) {
	u.Model = q.Model
	_, _, _ = sdk.Operate(ctx, host, sdk.UsageOp{Op: sdk.OpUsage, Usage: u}, nil) // a host that does not count loses nothing else
}

func (q *question) warn(path, message string) {
	q.warnings = append(q.warnings, sdk.Warning{Path: path, Message: message})
}

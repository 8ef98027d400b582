package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrace-dev/engine/sdk"
)

// Limits bound one attempt on the wire. Every field must be positive.
type Limits struct {
	Request  int64         // bytes of the request and of one operation message
	Response int64         // bytes of the response
	Grace    time.Duration // between CANCEL and giving the plugin up
}

// Broken is the error of an attempt after which the plugin must not be used
// again: it died, broke the rules of the wire, or did not stop when told to.
type Broken struct {
	Err          *sdk.Error // how the attempt ended
	Unresponsive bool       // it did not answer within Limits.Grace of CANCEL
	Gone         bool       // the stream ended: most likely the process did too
}

func (b *Broken) Error() string { return b.Err.Error() }

// Unwrap returns b.Err, so that sdk.AsError finds it.
func (b *Broken) Unwrap() error { return b.Err }

// Client is the host's end of a connection to one plugin. It is safe for
// concurrent use; whether the plugin is, its manifest says.
type Client struct{ step StepClient }

// NewClient makes a Client on a connection that the caller owns.
func NewClient(conn grpc.ClientConnInterface) *Client { return &Client{step: NewStepClient(conn)} }

// Step returns a Step whose every Run is one attempt of the plugin; the request
// says which step type.
func (c *Client) Step(l Limits) sdk.Step {
	return sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		return c.Run(ctx, req, host, l)
	})
}

// Run carries one attempt. Its error is an *sdk.Error, or a *Broken around one.
// When ctx ends the plugin is told to stop and gets Limits.Grace to do so; Run
// returns after it has answered, or as Broken. Whatever Run started has ended
// when it returns.
func (c *Client) Run(ctx context.Context, req *sdk.Request, host sdk.Host, l Limits) (*sdk.Response, error) {
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	b, err := sdk.Marshal(req)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "the request cannot be encoded: " + err.Error()}
	}
	if int64(len(b)) > l.Request {
		return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "request_too_large",
			Message: fmt.Sprintf("a request of %d bytes, the limit is %d; pass less, or a reference", len(b), l.Request)}
	}
	// The stream outlives ctx by the grace period.
	sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := c.step.Run(sctx)
	if err != nil {
		cancel()
		return nil, &Broken{Err: streamError(err), Gone: true}
	}
	a := &hostAttempt{
		host: host, limits: l, stream: stream,
		in:     make(chan *message),
		out:    make(chan message, 1),
		cancel: make(chan struct{}, 1),
		fatal:  make(chan *sdk.Error, 1),
	}
	callCtx, stopCalls := context.WithCancelCause(ctx)
	a.wg.Go(func() { a.receive(sctx) })
	a.wg.Go(func() { a.send(sctx) })
	a.out <- message{kind: Kind_REQUEST, data: b}
	r, err := a.loop(ctx, callCtx)
	stopCalls(errAttemptOver)
	cancel()
	a.wg.Wait()
	return r, err
}

var errAttemptOver = &sdk.Error{Class: sdk.ClassCancelled, Message: "the attempt is over"}

// hostAttempt is one attempt on the host's end. The loop decides; receive, send
// and the calls feed it.
type hostAttempt struct {
	host   sdk.Host
	limits Limits
	stream grpc.BidiStreamingClient[Frame, Frame]
	wg     sync.WaitGroup

	in     chan *message // closed at the end of the stream; then recvErr is set
	out    chan message
	cancel chan struct{}   // asks for CANCEL; the loop never waits for the stream
	fatal  chan *sdk.Error // a call says that the attempt is over

	recvErr error

	mu        sync.Mutex
	responded *sdk.Response // by the respond operation
	open      map[uint32]bool
}

// receive puts frames together until the stream ends.
func (a *hostAttempt) receive(ctx context.Context) {
	defer close(a.in)
	asm := newAssembler(map[Kind]int64{Kind_CALL: a.limits.Request, Kind_RESPONSE: a.limits.Response})
	for {
		f, err := a.stream.Recv()
		if err != nil {
			a.recvErr = &Broken{Err: streamError(err), Gone: true}
			return
		}
		m, err := asm.add(f)
		if err != nil {
			a.recvErr = &Broken{Err: sdk.AsError(err)}
			return
		}
		if m == nil {
			continue
		}
		select {
		case a.in <- m:
		case <-ctx.Done():
			a.recvErr = ctx.Err()
			return
		}
		if m.kind == Kind_RESPONSE {
			return
		}
	}
}

// send writes what the loop and the calls queue. An error is not reported: the
// receiving side meets the same end and knows more about it.
func (a *hostAttempt) send(ctx context.Context) {
	for {
		var m message
		select {
		case m = <-a.out:
		case <-a.cancel:
			m = message{kind: Kind_CANCEL}
		case <-ctx.Done():
			return
		}
		if split(m, a.stream.Send) != nil {
			return
		}
	}
}

func (a *hostAttempt) loop(ctx, callCtx context.Context) (*sdk.Response, error) {
	var why *sdk.Error // set once the attempt is to stop
	var grace <-chan time.Time
	stop := func(e *sdk.Error) {
		why = e
		t := time.NewTimer(a.limits.Grace)
		grace = t.C
		a.cancel <- struct{}{}
	}
	done := ctx.Done()
	for {
		select {
		case m, ok := <-a.in:
			switch {
			case !ok && why != nil:
				return nil, &Broken{Err: why, Gone: true}
			case !ok:
				return nil, a.recvErr
			case m.kind == Kind_RESPONSE && why != nil:
				// What was done before the plugin could stop is done, and paid for.
				if r, err := a.answer(ctx, m.data); why.Class == sdk.ClassCancelled && err == nil {
					return r, nil
				}
				return nil, why
			case m.kind == Kind_RESPONSE:
				return a.answer(ctx, m.data)
			case why != nil: // a call that crossed the CANCEL; nobody waits for its reply
			default:
				if err := a.call(callCtx, m); err != nil {
					return nil, &Broken{Err: err}
				}
			}
		case e := <-a.fatal:
			if why == nil {
				stop(e)
			}
		case <-done:
			done = nil
			if why == nil {
				stop(sdk.Ended(ctx))
			}
		case <-grace:
			return nil, &Broken{Err: why, Unresponsive: true}
		}
	}
}

// call runs one operation beside the loop.
func (a *hostAttempt) call(ctx context.Context, m *message) *sdk.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.open[m.id]:
		return broken("call %d is already open", m.id)
	case len(a.open) == MaxCalls:
		return broken("more than %d calls wait for their replies", MaxCalls)
	case a.open == nil:
		a.open = map[uint32]bool{}
	}
	a.open[m.id] = true
	a.wg.Go(func() {
		defer a.close(m.id)
		reply, err := a.operate(ctx, m.data)
		if err != nil {
			select {
			case a.fatal <- sdk.AsError(err):
			default: // the first reason counts
			}
			return
		}
		select {
		case a.out <- message{Kind_REPLY, m.id, reply}:
		case <-ctx.Done():
		}
	})
	return nil
}

func (a *hostAttempt) close(id uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

func (a *hostAttempt) operate(ctx context.Context, msg []byte) ([]byte, error) {
	r, err := sdk.ParseRespond(msg)
	if err != nil {
		return sdk.Marshal(sdk.Reply{Error: sdk.AsError(err)})
	}
	if r != nil {
		a.mu.Lock()
		a.responded = r
		a.mu.Unlock()
		return []byte(`{"ok":{}}`), nil
	}
	reply, err := a.host.Call(ctx, msg)
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	return reply, err
}

// answer judges the response. An empty one stands for what the respond
// operation gave.
func (a *hostAttempt) answer(ctx context.Context, data []byte) (*sdk.Response, error) {
	a.mu.Lock()
	r := a.responded
	a.mu.Unlock()
	if len(data) > 0 || r == nil {
		var err error
		if r, err = sdk.ParseResponse(data); err != nil {
			return nil, err
		}
	}
	if r.Error == nil {
		return r, nil
	}
	for _, u := range r.Usage { // would be lost with the response otherwise
		_, _, _ = sdk.Operate(context.WithoutCancel(ctx), a.host, sdk.UsageOp{Op: sdk.OpUsage, Usage: u}, nil)
	}
	return nil, r.Error
}

// streamError words the end of a stream that brought no response.
func streamError(err error) *sdk.Error {
	switch {
	case errors.Is(err, io.EOF):
		return &sdk.Error{Class: sdk.ClassProtocol, Message: "the plugin ended the attempt without a response"}
	case status.Code(err) == codes.Unimplemented:
		return &sdk.Error{Class: sdk.ClassProtocol, Message: "the plugin does not serve engine.step.v1.Step; build it with the engine's SDK, or serve step.proto"}
	case status.Code(err) == codes.Unavailable:
		return &sdk.Error{Class: sdk.ClassPluginCrash, Message: "the plugin went away during the attempt"}
	}
	return &sdk.Error{Class: sdk.ClassPluginCrash, Message: "the plugin gave the attempt up: " + status.Convert(err).Message()}
}

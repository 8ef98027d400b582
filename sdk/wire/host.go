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

// NewClient makes a Client on a connection that the caller owns and has dialled
// with DialOptions.
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
// when it returns, but for gRPC, which may still read the bytes of an input that
// the plugin did not take: req's Input and Config must never change.
func (c *Client) Run(ctx context.Context, req *sdk.Request, host sdk.Host, l Limits) (*sdk.Response, error) {
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	data, err := sdk.MarshalParts(req)
	if err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "the request cannot be encoded: " + err.Error()}
	}
	var size int64
	for _, d := range data {
		size += int64(len(d))
	}
	if size > l.Request {
		return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "request_too_large",
			Message: fmt.Sprintf("a request of %d bytes, the limit is %d; pass less, or a reference", size, l.Request)}
	}
	a := &hostAttempt{host: host, limits: l}
	// The stream outlives ctx by the grace period.
	streamCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	a.end = end
	if a.stream, err = c.step.Run(streamCtx, grpc.ForceCodecV2(codec{})); err != nil {
		end()
		return nil, &Broken{Err: streamError(err), Gone: true}
	}
	calls, stopCalls := context.WithCancelCause(ctx)
	a.calls = calls
	told := make(chan struct{})
	watching := context.AfterFunc(ctx, func() {
		defer close(told)
		a.stop(sdk.Ended(ctx))
	})
	a.sending.Lock() // no CANCEL goes before the request
	if size <= MaxFrame {
		a.sendLocked(Kind_REQUEST, 0, data)
	} else {
		a.wg.Go(func() { a.sendLocked(Kind_REQUEST, 0, data) }) // the plugin may answer before it has all
	}
	r, err := a.receive(ctx)
	stopCalls(errAttemptOver)
	end()
	if !watching() {
		<-told
	}
	a.wg.Wait()
	if a.patience != nil {
		a.patience.Stop()
	}
	return r, err
}

var errAttemptOver = &sdk.Error{Class: sdk.ClassCancelled, Message: "the attempt is over"}

// hostAttempt is one attempt on the host's end. The goroutine of Run receives and
// decides; calls run beside it and send their replies themselves.
type hostAttempt struct {
	host   sdk.Host
	limits Limits
	stream grpc.BidiStreamingClient[Frame, Frame]
	end    context.CancelFunc // of the stream
	calls  context.Context    // what calls run under
	wg     sync.WaitGroup     // of calls, and of a long request

	sending sync.Mutex
	slots   chan struct{} // taken by calls until their replies are sent; made by the first

	mu        sync.Mutex
	why       *sdk.Error    // set once the attempt is to stop
	patience  *time.Timer   // set with why
	tired     bool          // patience ended
	responded *sdk.Response // by the respond operation
	open      map[uint32]bool
}

// send writes a message. An error is not reported: the receiving side meets the
// same end and knows more about it.
func (a *hostAttempt) send(kind Kind, id uint32, data [][]byte) {
	a.sending.Lock()
	a.sendLocked(kind, id, data)
}

func (a *hostAttempt) sendLocked(kind Kind, id uint32, data [][]byte) {
	defer a.sending.Unlock()
	_ = split(kind, id, data, func(f *frame) error { return a.stream.SendMsg(f) })
}

// stop tells the plugin to stop; the first reason counts. What waits for a stream
// that is not taken from ends with the plugin's grace.
func (a *hostAttempt) stop(why *sdk.Error) {
	a.mu.Lock()
	first := a.why == nil
	if first {
		a.why = why
		a.patience = time.AfterFunc(a.limits.Grace, func() {
			a.mu.Lock()
			a.tired = true
			a.mu.Unlock()
			a.end()
		})
	}
	a.mu.Unlock()
	if first {
		a.send(Kind_CANCEL, 0, nil)
	}
}

// receive takes messages until the attempt has ended.
func (a *hostAttempt) receive(ctx context.Context) (*sdk.Response, error) {
	asm := newAssembler(map[Kind]int64{Kind_CALL: a.limits.Request, Kind_RESPONSE: a.limits.Response})
	for {
		var f frame
		if err := a.stream.RecvMsg(&f); err != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.why != nil {
				return nil, &Broken{Err: a.why, Unresponsive: a.tired, Gone: !a.tired}
			}
			return nil, &Broken{Err: streamError(err), Gone: true}
		}
		m, err := asm.add(&f)
		switch {
		case err != nil:
			return nil, &Broken{Err: sdk.AsError(err)}
		case m == nil:
		case m.kind == Kind_RESPONSE:
			return a.judge(ctx, m.data)
		default:
			if err := a.call(m); err != nil {
				return nil, &Broken{Err: sdk.AsError(err)}
			}
		}
	}
}

// call runs one operation beside what is received. A plugin that does not take
// its replies gets no more operations.
func (a *hostAttempt) call(m *message) error {
	if open, err := a.begin(m.id); !open {
		return err
	}
	if a.slots == nil {
		a.slots = make(chan struct{}, 2*MaxCalls)
	}
	a.slots <- struct{}{}
	a.wg.Go(func() {
		defer func() { <-a.slots }()
		reply, err := a.operate(m.data)
		a.mu.Lock()
		delete(a.open, m.id)
		a.mu.Unlock()
		if err != nil {
			a.stop(sdk.AsError(err))
			return
		}
		a.send(Kind_REPLY, m.id, [][]byte{reply})
	})
	return nil
}

// begin registers a call. One that crossed the CANCEL is not opened: nobody waits
// for its reply.
func (a *hostAttempt) begin(id uint32) (open bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.why != nil:
		return false, nil
	case a.open[id]:
		return false, broken("call %d is already open", id)
	case len(a.open) == MaxCalls:
		return false, broken("more than %d calls wait for their replies", MaxCalls)
	case a.open == nil:
		a.open = map[uint32]bool{}
	}
	a.open[id] = true
	return true, nil
}

func (a *hostAttempt) operate(msg []byte) ([]byte, error) {
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
	reply, err := a.host.Call(a.calls, msg)
	if a.calls.Err() != nil {
		return nil, sdk.Ended(a.calls)
	}
	return reply, err
}

// judge decides what a response is worth. What was done before the plugin could
// stop is done, and paid for; past the deadline it is too late. Of an error that
// came too late the details stay.
func (a *hostAttempt) judge(ctx context.Context, data []byte) (*sdk.Response, error) {
	r, err := a.answer(ctx, data)
	a.mu.Lock()
	why := a.why
	a.mu.Unlock()
	if why == nil && ctx.Err() != nil {
		why = sdk.Ended(ctx)
	}
	if why == nil || err == nil && why.Class == sdk.ClassCancelled {
		return r, err
	}
	own := *why
	if err != nil && own.Details == nil {
		own.Details = sdk.AsError(err).Details
	}
	return nil, &own
}

// answer reads the response. An empty one stands for what the respond
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
	case status.Code(err) == codes.ResourceExhausted: // gRPC's own limit
		return broken("%s; a frame has at most %d", status.Convert(err).Message(), MaxFrame)
	case status.Code(err) == codes.Unavailable:
		return &sdk.Error{Class: sdk.ClassPluginCrash, Message: "the plugin went away during the attempt"}
	}
	return &sdk.Error{Class: sdk.ClassPluginCrash, Message: "the plugin gave the attempt up: " + status.Convert(err).Message()}
}

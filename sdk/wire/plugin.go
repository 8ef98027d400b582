package wire

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrace-dev/engine/sdk"
)

// Register serves step on s, the plugin's end of the wire, which NewServer has
// made. Panics of step are not caught here.
func Register(s grpc.ServiceRegistrar, step sdk.Step) {
	RegisterStepServer(s, &server{step: step})
}

type server struct {
	UnimplementedStepServer
	step sdk.Step
}

var errCancelled = errors.New("the host cancelled the attempt")

// Run serves one attempt. The goroutine that receives ends with the stream,
// which ends when Run returns.
func (s *server) Run(stream grpc.BidiStreamingServer[Frame, Frame]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	asm := newAssembler(map[Kind]int64{Kind_REQUEST: MaxMessage, Kind_REPLY: MaxMessage, Kind_CANCEL: 0})
	first, err := receive(stream, asm)
	if err != nil {
		return err
	}
	var req sdk.Request
	if first.kind != Kind_REQUEST {
		return status.Errorf(codes.InvalidArgument, "the first message is %s, not REQUEST", first.kind)
	}
	if err := sdk.Unmarshal(first.data, &req); err != nil {
		return status.Errorf(codes.InvalidArgument, "request: %v", err)
	}
	host := &pluginHost{ctx: ctx, stream: stream, waiting: map[uint32]chan []byte{}}
	go host.listen(asm, cancel)

	r, err := s.step.Run(ctx, &req, host)
	if err != nil {
		r = &sdk.Response{Error: sdk.AsError(err)}
	}
	var b [][]byte // empty: the respond operation gave the response
	if r != nil {
		if b, err = sdk.MarshalParts(r); err != nil {
			return status.Errorf(codes.Internal, "the response cannot be encoded: %v", err)
		}
	}
	return host.send(Kind_RESPONSE, 0, b)
}

func receive(stream grpc.BidiStreamingServer[Frame, Frame], asm *assembler) (*message, error) {
	for {
		var f frame
		if err := stream.RecvMsg(&f); err != nil {
			return nil, err
		}
		if m, err := asm.add(&f); m != nil || err != nil {
			return m, err
		}
	}
}

// pluginHost is the sdk.Host of one attempt, on the plugin's end.
type pluginHost struct {
	ctx    context.Context // the attempt's; Call may be given another one
	stream grpc.BidiStreamingServer[Frame, Frame]
	sendMu sync.Mutex

	mu      sync.Mutex
	last    uint32
	waiting map[uint32]chan []byte
}

// listen hands replies to those who wait and cancels the attempt when it is
// told to, or when the host is gone.
func (h *pluginHost) listen(asm *assembler, cancel context.CancelCauseFunc) {
	for {
		m, err := receive(h.stream, asm)
		switch {
		case err != nil:
			cancel(errCancelled)
			return
		case m.kind == Kind_CANCEL:
			cancel(errCancelled)
		case m.kind == Kind_REPLY:
			h.mu.Lock()
			ch := h.waiting[m.id]
			delete(h.waiting, m.id)
			h.mu.Unlock()
			if ch != nil {
				ch <- m.data
			}
		default:
			cancel(broken("a second request in one attempt"))
			return
		}
	}
}

// send writes one message; messages of several goroutines do not mix, which
// costs nothing and keeps the stream readable for people.
func (h *pluginHost) send(kind Kind, id uint32, data [][]byte) error {
	h.sendMu.Lock()
	defer h.sendMu.Unlock()
	return split(kind, id, data, func(f *frame) error { return h.stream.SendMsg(f) })
}

// Call sends one operation and waits for its reply.
func (h *pluginHost) Call(ctx context.Context, msg []byte) ([]byte, error) {
	ch := make(chan []byte, 1)
	h.mu.Lock()
	h.last++
	id := h.last
	h.waiting[id] = ch
	h.mu.Unlock()
	if err := h.send(Kind_CALL, id, [][]byte{msg}); err != nil {
		return nil, err
	}
	select {
	case reply := <-ch:
		return reply, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.ctx.Done():
		return nil, context.Cause(h.ctx)
	}
}

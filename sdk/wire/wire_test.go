package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/retrace-dev/engine/sdk"
)

// connect serves s in memory and returns a client.
func connect(t *testing.T, s StepServer) *Client {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := NewServer(nil)
	RegisterStepServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient("passthrough:x", append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		wg.Wait()
	})
	return NewClient(conn)
}

func stepFunc(t *testing.T, f sdk.StepFunc) *Client { return connect(t, &server{step: f}) }

var limits = Limits{Request: 1 << 20, Response: 1 << 20, Grace: 10 * time.Second}

type hostFunc func(ctx context.Context, msg []byte) ([]byte, error)

func (f hostFunc) Call(ctx context.Context, msg []byte) ([]byte, error) { return f(ctx, msg) }

var echoHost = hostFunc(func(_ context.Context, msg []byte) ([]byte, error) { return msg, nil })

func request(input string) *sdk.Request {
	return &sdk.Request{V: 1, StepType: "s", Input: json.RawMessage(input), Config: json.RawMessage(`{}`)}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		for _, n := range []int{1, MaxFrame - 1, MaxFrame, MaxFrame + 1, 3 * MaxFrame} {
			msg := strings.Repeat("m", n)
			if reply, err := host.Call(ctx, []byte(msg)); err != nil || string(reply) != msg {
				return nil, errors.New("the reply differs")
			}
		}
		return &sdk.Response{Output: req.Input}, nil
	})
	for _, in := range []string{`{"text":"中文 🏴 עברית"}`, `{"x":"` + strings.Repeat("x", MaxFrame) + `"}`} {
		r, err := c.Step(limits).Run(t.Context(), request(in), echoHost)
		if err != nil || string(r.Output) != in {
			t.Errorf("%.50s: %v", in, err)
		}
	}
}

func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(ctx context.Context, _ *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		var wg sync.WaitGroup
		for i := range MaxCalls {
			wg.Go(func() {
				msg := strings.Repeat(string(rune('a'+i%26)), 1+i*MaxFrame/20)
				if reply, err := host.Call(ctx, []byte(msg)); err != nil || string(reply) != msg {
					t.Errorf("call %d: %d bytes, %v", i, len(reply), err)
				}
			})
		}
		wg.Wait()
		return sdk.Output(1)
	})
	if _, err := c.Run(t.Context(), request(`{}`), echoHost, limits); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepTheirFields(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(context.Context, *sdk.Request, sdk.Host) (*sdk.Response, error) {
		return &sdk.Response{Error: &sdk.Error{Class: sdk.ClassRateLimited, Code: "slow", RetryAfterMS: 7, Stderr: "forged"}, Usage: []sdk.Usage{{Model: "m", InputTokens: 5}}}, nil
	})
	var ops []string
	_, err := c.Run(t.Context(), request(`{}`), hostFunc(func(_ context.Context, msg []byte) ([]byte, error) {
		ops = append(ops, string(msg))
		return []byte(`{"ok":{}}`), nil
	}), limits)
	if e := sdk.AsError(err); e.Class != sdk.ClassRateLimited || e.Code != "slow" || e.RetryAfterMS != 7 || e.Stderr != "" {
		t.Errorf("%+v", e)
	}
	if len(ops) != 1 || !strings.Contains(ops[0], `"input_tokens":5`) {
		t.Errorf("usage of a failed response: %q", ops)
	}
}

// TestCancelAndDeadline: an attempt that is cancelled ends with the cause, unless the
// step has an answer all the same; past its deadline an answer is too late.
func TestCancelAndDeadline(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 3)
	c := stepFunc(t, func(ctx context.Context, r *sdk.Request, _ sdk.Host) (*sdk.Response, error) {
		entered <- struct{}{}
		<-ctx.Done()
		if string(r.Input) == `"obey"` {
			return nil, context.Cause(ctx)
		}
		return sdk.Output("done")
	})
	for _, input := range []string{`"obey"`, `"finish"`} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			<-entered
			cancel(errors.New("fail fast"))
		})
		r, err := c.Run(ctx, request(input), echoHost, limits)
		wg.Wait()
		var broken *Broken
		switch e := sdk.AsError(err); {
		case input == `"finish"`:
			if err != nil || string(r.Output) != `"done"` {
				t.Error(r, err)
			}
		case e.Class != sdk.ClassCancelled || e.Message != "fail fast" || errors.As(err, &broken):
			t.Error(err)
		}
	}
	ctx2, cancel2 := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel2()
	if _, err := c.Run(ctx2, request(`{}`), echoHost, limits); sdk.AsError(err).Class != sdk.ClassTimeout {
		t.Error(err)
	}
}

// TestLateErrors: of an error that comes after the attempt was told to stop, the
// details stay; the reason is the host's.
func TestLateErrors(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(ctx context.Context, _ *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		_, err := host.Call(ctx, []byte(`{}`))
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprint(err), Details: json.RawMessage(`{"done":"中"}`)}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := c.Run(ctx, request(`{}`), hostFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
		cancel(errors.New("fail fast"))
		<-ctx.Done()
		return nil, ctx.Err()
	}), limits)
	var broken *Broken
	if e := sdk.AsError(err); e.Class != sdk.ClassCancelled || e.Message != "fail fast" || string(e.Details) != `{"done":"中"}` || errors.As(err, &broken) {
		t.Errorf("%+v", err)
	}
}

// TestRepliesThatNobodyTakes: a plugin that takes nothing from the wire does not
// make the host run operations without end.
func TestRepliesThatNobodyTakes(t *testing.T) {
	t.Parallel()
	served, ran := make(chan struct{}), make(chan struct{}, 1)
	c := connect(t, serverFunc(func(stream grpc.BidiStreamingServer[Frame, Frame]) error {
		defer close(served)
		for id := uint32(1); ; id++ {
			if err := stream.Send(&Frame{Kind: Kind_CALL, Id: id, Data: []byte(`{}`)}); err != nil {
				return nil
			}
			select {
			case <-ran:
			case <-stream.Context().Done():
				return nil
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// As many replies as may wait, and what gRPC holds below a window of 16 MiB.
	const most = 2*MaxCalls + 16<<20/MaxFrame + 1
	var calls atomic.Int64
	go func() { // no more come, or too many have come
		defer cancel()
		for last := int64(-1); ; {
			select {
			case <-served:
				return
			case <-time.After(100 * time.Millisecond):
			}
			n := calls.Load()
			if n == last && n > 0 || n > most {
				return
			}
			last = n
		}
	}()
	big := bytes.Repeat([]byte("x"), MaxFrame)
	_, err := c.Run(ctx, request(`{}`), hostFunc(func(context.Context, []byte) ([]byte, error) {
		calls.Add(1)
		ran <- struct{}{}
		return big, nil
	}), Limits{Request: 1 << 20, Response: 1, Grace: 10 * time.Millisecond})
	<-served
	if err == nil || calls.Load() > most {
		t.Errorf("%d operations ran, %v", calls.Load(), err)
	}
}

// TestUnresponsive: a step that ignores CANCEL is given up after the grace, also
// while it takes nothing from the wire.
func TestUnresponsive(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{})
	defer close(release)
	c := connect(t, serverFunc(func(stream grpc.BidiStreamingServer[Frame, Frame]) error {
		close(entered)
		<-release
		return nil
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		<-entered
		cancel(context.DeadlineExceeded)
	})
	defer wg.Wait()
	big := request(`{"x":"` + strings.Repeat("x", 900<<10) + `"}`)
	_, err := c.Run(ctx, big, echoHost, Limits{Request: 1 << 20, Response: 1, Grace: 10 * time.Millisecond})
	var broken *Broken
	if !errors.As(err, &broken) || !broken.Unresponsive || broken.Err.Class != sdk.ClassTimeout {
		t.Errorf("%+v", err)
	}
}

// TestTheHostEndsTheAttempt: an error of Host.Call cancels the step and is the
// attempt's.
func TestTheHostEndsTheAttempt(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(ctx context.Context, _ *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		if _, err := host.Call(ctx, []byte(`{}`)); err == nil {
			t.Error("the call returned")
		}
		return sdk.Output(1)
	})
	_, err := c.Run(t.Context(), request(`{}`), hostFunc(func(context.Context, []byte) ([]byte, error) {
		return nil, &sdk.Error{Class: sdk.ClassResourceExhausted, Code: "host_calls"}
	}), limits)
	if sdk.AsError(err).Code != "host_calls" {
		t.Error(err)
	}
}

func TestRespond(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(ctx context.Context, _ *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		_, _, err := sdk.Operate(ctx, host, sdk.RespondOp{Op: sdk.OpRespond, Response: sdk.Response{Output: []byte(`"early"`)}}, nil)
		return nil, err
	})
	if r, err := c.Run(t.Context(), request(`{}`), echoHost, limits); err != nil || string(r.Output) != `"early"` {
		t.Errorf("%+v, %v", r, err)
	}
}

type serverFunc func(grpc.BidiStreamingServer[Frame, Frame]) error

func (f serverFunc) Run(s grpc.BidiStreamingServer[Frame, Frame]) error { return f(s) }
func (serverFunc) mustEmbedUnimplementedStepServer()                    {}

// TestHostIsStrict: plugins that break the rules end the attempt and are not
// used again.
func TestHostIsStrict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		frames []*Frame
		want   string
	}{
		"nothing":             {nil, "protocol: the plugin ended the attempt without a response"},
		"kind of the host":    {[]*Frame{{Kind: Kind_REQUEST}}, "kind REQUEST is not for this direction"},
		"no kind":             {[]*Frame{{}}, "kind KIND_UNSPECIFIED"},
		"unknown kind":        {[]*Frame{{Kind: 77}}, "kind 77"},
		"response with an id": {[]*Frame{{Kind: Kind_RESPONSE, Id: 1}}, "with id 1"},
		"call without an id":  {[]*Frame{{Kind: Kind_CALL}}, "with id 0"},
		"call twice":          {[]*Frame{{Kind: Kind_CALL, Id: 1}, {Kind: Kind_CALL, Id: 1}}, "call 1 is already open"},
		"big frame":           {[]*Frame{{Kind: Kind_RESPONSE, Data: make([]byte, MaxFrame+1)}}, "a frame of 262145 bytes"},
		"empty and more":      {[]*Frame{{Kind: Kind_RESPONSE, More: true}}, "to be continued"},
		"big response":        {many(Kind_RESPONSE, 0, 5), "resource_exhausted/output_too_large"},
		"big call":            {many(Kind_CALL, 1, 5), "resource_exhausted/message_too_large"},
		"many unfinished":     {append(append(many(Kind_CALL, 1, 4), many(Kind_CALL, 2, 4)...), many(Kind_CALL, 3, 1)...), "unfinished messages"},
		"no json":             {[]*Frame{{Kind: Kind_RESPONSE, Data: []byte("hello")}}, `saw "hello"`},
		"an empty response":   {[]*Frame{{Kind: Kind_RESPONSE}}, "saw nothing"},
		"calls without end":   {manyCalls(), "more than 64 calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, serverFunc(func(s grpc.BidiStreamingServer[Frame, Frame]) error {
				for _, f := range c.frames {
					if err := s.Send(f); err != nil {
						return nil
					}
				}
				if c.frames != nil {
					<-s.Context().Done()
				}
				return nil
			}))
			waiting := hostFunc(func(ctx context.Context, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			r, err := client.Run(t.Context(), request(`{}`), waiting, limits)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%+v, %v, want %q", r, err, c.want)
			}
		})
	}
}

func many(kind Kind, id uint32, n int) (fs []*Frame) {
	for range n {
		fs = append(fs, &Frame{Kind: kind, Id: id, More: true, Data: make([]byte, MaxFrame)})
	}
	return fs
}

func manyCalls() (fs []*Frame) {
	for i := range MaxCalls + 1 {
		fs = append(fs, &Frame{Kind: Kind_CALL, Id: uint32(i + 1)})
	}
	return fs
}

// TestPluginIsStrict: the plugin's end refuses what is not a request.
func TestPluginIsStrict(t *testing.T) {
	t.Parallel()
	c := stepFunc(t, func(context.Context, *sdk.Request, sdk.Host) (*sdk.Response, error) { return sdk.Output(1) })
	for name, f := range map[string]*Frame{
		"no json":   {Kind: Kind_REQUEST, Data: []byte(`{"v":1,"v":2}`)},
		"a cancel":  {Kind: Kind_CANCEL},
		"a reply":   {Kind: Kind_REPLY, Id: 1},
		"a call":    {Kind: Kind_CALL, Id: 1},
		"wrong id":  {Kind: Kind_REQUEST, Id: 1},
		"too large": {Kind: Kind_CANCEL, Data: []byte("x")},
	} {
		stream, err := c.step.Run(t.Context()) // as any other gRPC library does
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(f); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err == nil {
			t.Errorf("%s was answered with %v", name, got)
		}
	}
}

// FuzzAssembler: frames cut out of any bytes never make it panic or hold more
// than its limits allow, and a message that was split comes back whole.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte("\x02\x01\x01abc\x02\x01\x00def"), uint16(3))
	f.Add([]byte("\x05\x00\x00{}"), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		asm := newAssembler(map[Kind]int64{Kind_CALL: 64, Kind_RESPONSE: 32})
		for rest := b; len(rest) > 3; {
			n := min(int(rest[2]>>1), len(rest)-3)
			m, err := asm.add(&frame{kind: Kind(rest[0] % 8), id: uint32(rest[1] % 4), more: rest[2]&1 == 1, size: n, data: [][]byte{rest[3 : 3+n]}})
			if err != nil {
				break
			}
			if m != nil && int64(len(m.data)) > asm.limits[m.kind] {
				t.Fatalf("a message of %d bytes", len(m.data))
			}
			var held int64
			for _, p := range asm.parts {
				held += int64(len(bytes.Join(p.data, nil)))
			}
			if held != asm.held || held > 128 {
				t.Fatalf("holds %d, counts %d", held, asm.held)
			}
			rest = rest[3+n:]
		}
		data := bytes.Repeat(append([]byte{0}, b...), 1+int(size)*16/(len(b)+1))
		back := newAssembler(map[Kind]int64{Kind_CALL: int64(len(data))})
		var got *message
		at := len(data) / 3
		err := split(Kind_CALL, 1, [][]byte{data[:at], {}, data[at:]}, func(f *frame) error {
			m, err := back.add(f)
			if m != nil {
				got = m
			}
			return err
		})
		if err != nil || got == nil || !bytes.Equal(got.data, data) || len(back.parts) != 0 || back.held != 0 {
			t.Fatalf("%d bytes came back as %d, %v", len(data), len(got.data), err)
		}
	})
}

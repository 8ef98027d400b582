package main

import (
	"net"

	"google.golang.org/grpc"

	"github.com/retrace-dev/engine/sdk/wire"
)

// bare echoes frames: what gRPC alone costs, for benchmarks.
type bare struct{ wire.UnimplementedStepServer }

func (bare) Run(stream grpc.BidiStreamingServer[wire.Frame, wire.Frame]) error {
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&wire.Frame{Kind: wire.Kind_RESPONSE, Data: f.GetData()}); err != nil || !f.GetMore() {
			return err
		}
	}
}

func serveBare(socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	wire.RegisterStepServer(s, bare{})
	return s.Serve(l)
}

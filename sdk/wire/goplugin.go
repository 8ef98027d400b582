package wire

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/retrace-dev/engine/sdk"
)

// What both sides of go-plugin's handshake must agree on. A plugin starts only
// when the environment variable CookieKey is CookieValue.
const (
	CookieKey       = "ENGINE_PLUGIN"
	CookieValue     = "step"
	ProtocolVersion = 1
	PluginName      = "step"
)

// Handshake is go-plugin's form of the constants above.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// Plugins is the plugin set of the host's end: dispensing PluginName gives a
// *Client.
func Plugins() goplugin.PluginSet { return goplugin.PluginSet{PluginName: &grpcPlugin{}} }

// maxReceive is gRPC's own limit for a message, which go-plugin lifts. No frame
// comes near it.
const maxReceive = 4 << 20

// DialOptions are those of the host's end of a connection.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive))}
}

// NewServer makes the plugin's end of a connection, for goplugin.ServeConfig.
func NewServer(o []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(o, grpc.ForceServerCodecV2(codec{}))...)
}

// Serve serves step to the engine that started this process, until that engine
// shuts it down. os.Stdout and os.Stderr stay what they are: the engine logs
// what is written to stderr and drops what is written to stdout.
func Serve(step sdk.Step) {
	stdout, stderr := os.Stdout, os.Stderr
	var restore sync.Once
	kept := sdk.StepFunc(func(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
		restore.Do(func() { os.Stdout, os.Stderr = stdout, stderr }) // go-plugin swapped them
		return step.Run(ctx, req, host)
	})
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{PluginName: &grpcPlugin{step: kept}},
		GRPCServer:      NewServer,
		Logger:          hclog.NewNullLogger(), // stderr is the step's
	})
}

// grpcPlugin is what go-plugin wants on either side.
type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	step sdk.Step // nil on the host's end
}

var _ goplugin.GRPCPlugin = (*grpcPlugin)(nil)

func (p *grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if p.step == nil {
		return errors.New("wire: this is the host's end")
	}
	Register(s, p.step)
	return nil
}

func (p *grpcPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn), nil
}

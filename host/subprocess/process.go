package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

func exited(code int) string { return fmt.Sprintf("exited with status %d", code) }

// process is one run of a plugin's executable.
type process struct {
	*child
	client *wire.Client
	plugin *goplugin.Client
	kills  sync.Once
}

// politely is how long an idle plugin may take to end when it is asked to.
const politely = time.Second

// settle is how long a process may take to end whose connection is gone.
const settle = 5 * time.Second

// start runs the executable, with more variables than it gets by itself, and
// waits for its handshake.
func start(ctx context.Context, o Options, path, exe, dir string, env []string) (*process, error) {
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInternal, Message: fmt.Sprintf("plugin %s: %v", path, err)}
	}
	c := newChild(o, path, exe, tmp)
	c.cmd.Env = append(c.cmd.Env, env...)
	return launch(ctx, c, o.StartTimeout, dir)
}

// launch starts a child whose socket lies in dir and waits for its handshake.
func launch(ctx context.Context, c *child, timeout time.Duration, dir string) (*process, error) {
	p := &process{child: c}
	p.plugin = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		Plugins:          wire.Plugins(),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		AutoMTLS:         autoMTLS,
		GRPCDialOptions:  wire.DialOptions(),
		StartTimeout:     timeout,
		Logger:           hclog.NewNullLogger(), // what it says, our errors say better
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			p.child.prepare(cmd.Env, socketDir)
			return p.child, nil
		},
	})
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { // go-plugin's Start knows no context
		select {
		case <-ctx.Done():
			p.child.killTree()
		case <-done:
		}
	})
	err := p.connect()
	close(done)
	watching.Wait()
	if err == nil && ctx.Err() == nil {
		return p, nil
	}
	how, ended := p.awaitExit() // lets the last output arrive
	p.kill()
	if ctx.Err() != nil {
		return nil, sdk.Ended(ctx)
	}
	return nil, p.startError(c.path, timeout, err, how, ended && p.byItself(how))
}

func (p *process) connect() error {
	rpc, err := p.plugin.Client()
	if err != nil {
		return err
	}
	raw, err := rpc.Dispense(wire.PluginName)
	if err != nil {
		return err
	}
	p.client = raw.(*wire.Client) // what wire.Plugins dispenses
	return nil
}

// startError says why there was no handshake, by what was seen.
func (p *process) startError(path string, timeout time.Duration, err error, how string, ended bool) *sdk.Error {
	e := &sdk.Error{Class: sdk.ClassPluginCrash, Code: loader.CodeStart, Stderr: p.stderr.text()}
	first, whole := p.stdout.firstLine()
	handshake := looksLikeHandshake(first)
	switch {
	case p.startErr != nil:
		e.Message = fmt.Sprintf("plugin %s cannot be started: %v", path, p.startErr)
		if errors.Is(p.startErr, os.ErrPermission) {
			e.Message += "; files in " + filepath.Dir(p.exe) + " must be allowed to run (noexec?)"
		}
	case len(first) > 0 && !handshake:
		e.Class = sdk.ClassProtocol
		e.Message = fmt.Sprintf("plugin %s printed something before its handshake; the first line on stdout must be the handshake, log to stderr%s", path, sdk.Seen(p.stdout.seen()))
	case handshake && whole && err != nil && !ended:
		e.Class = sdk.ClassProtocol
		e.Message = fmt.Sprintf("plugin %s: its handshake is not one of this engine (%v)%s", path, err, sdk.Seen(first))
	case ended:
		e.Message = fmt.Sprintf("plugin %s %s before its handshake%s", path, how, sdk.Seen(p.stdout.seen()))
	default:
		e.Class = sdk.ClassTimeout
		e.Message = fmt.Sprintf("plugin %s gave no handshake within %s%s; is it a plugin for this engine?", path, timeout, sdk.Seen(p.stdout.seen()))
	}
	return e
}

// alive reports whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// awaitExit waits a moment for a process whose connection has ended, and says
// how it died.
func (p *process) awaitExit() (how string, ended bool) {
	t := time.NewTimer(settle)
	defer t.Stop()
	select {
	case <-p.exited:
		return p.how(), true
	case <-t.C:
		return "", false
	}
}

// shutdown asks an idle plugin to end, and kills it if it does not.
func (p *process) shutdown() {
	asked := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		defer close(asked)
		p.plugin.Kill()
	})
	t := time.NewTimer(politely)
	defer t.Stop()
	select {
	case <-asked:
	case <-t.C:
	}
	p.kill()
	asking.Wait()
}

// kill ends the process with everything it has started, and returns when that
// is so. It may be called often.
func (p *process) kill() {
	p.kills.Do(func() {
		p.child.killTree()
		<-p.exited
		p.plugin.Kill() // closes the connection; there is nobody left to ask
	})
}

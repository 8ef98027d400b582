package subprocess

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

// BenchmarkNativeStart is the way of a plugin's process, its runner included, to
// its handshake, and a bare exec of the same file. The claim is at most twice the
// time. "load" is what comes before the first process too: that the file is read,
// compared with what was planned and copied.
func BenchmarkNativeStart(b *testing.B) {
	path := probe(b, probeManifest)
	l := newLoader(b, true)
	a, err := l.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		copy bool
	}{{"load", true}, {"plugin", false}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if !c.copy {
					b.StopTimer()
				}
				p, err := l.newCopy(a)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				started, err := p.started(context.Background(), a.Env)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := started.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(path, "--engine-manifest").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAttempt is an attempt that answers with its input, by a native plugin
// and by a worker, and by turns a bare gRPC stream to another process that gives
// the same bytes back. The claims are 1.5 times the bare stream, and 0.5 ms for
// 1 KiB. What a step does with its input, such as decoding it, is its own.
func BenchmarkAttempt(b *testing.B) {
	plugin := loadertest.Step(b, loadertest.Load(b, newLoader(b, true), probe(b, probeManifest)), "echo", loader.Limits{})
	worker := works(b, newWorkers(b), `"echo"`, loader.Limits{})
	client := bareClient(b)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		req := request(`{"text":"` + strings.Repeat("x", size) + `"}`)
		data, err := sdk.Marshal(req)
		if err != nil {
			b.Fatal(err)
		}
		attempt := func(s sdk.Step) func() error {
			return func() error { _, err := s.Run(context.Background(), req, &recorder{}); return err }
		}
		bare := func() error { return echo(client, data) }
		b.Run(fmt.Sprintf("plugin/%d", size), func(b *testing.B) { loadertest.ByTurns(b, bare, attempt(plugin)) })
		b.Run(fmt.Sprintf("worker/%d", size), func(b *testing.B) { loadertest.ByTurns(b, bare, attempt(worker)) })
	}
}

// echo sends data in frames and waits for all of it.
func echo(client wire.StepClient, data []byte) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := client.Run(ctx)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		for rest := data; ; {
			n := min(len(rest), wire.MaxFrame)
			err := stream.Send(&wire.Frame{Kind: wire.Kind_REQUEST, More: n < len(rest), Data: rest[:n]})
			if rest = rest[n:]; err != nil || len(rest) == 0 {
				sent <- err
				return
			}
		}
	}()
	for got := 0; got < len(data); {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		got += len(f.GetData())
	}
	return <-sent
}

func bareClient(b *testing.B) wire.StepClient {
	b.Helper()
	dir := tempDir(b)
	socket := filepath.Join(dir, "s")
	c := exec.Command(workerExe(b), "bare", socket)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	for {
		if _, err := os.Stat(socket); err == nil || b.Context().Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		_ = c.Process.Kill()
		_ = c.Wait() // killed
		_ = os.Remove(socket)
	})
	return wire.NewStepClient(conn)
}

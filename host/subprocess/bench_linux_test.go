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
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

// BenchmarkNativeStart is the way from an executable to its first answer, and a
// bare exec of the same file. The claim is at most twice the time.
func BenchmarkNativeStart(b *testing.B) {
	path := probe(b, probeManifest)
	b.Run("plugin", func(b *testing.B) {
		l := newLoader(b, true)
		a, err := l.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			p, err := l.Load(context.Background(), a)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(path, "--engine-manifest").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAttempt is an attempt that echoes its input, by a native plugin and by
// a worker, and a bare gRPC stream to another process that echoes the same
// request. The claims are 1.5 times the bare stream, and 0.5 ms for 1 KiB.
func BenchmarkAttempt(b *testing.B) {
	steps := map[string]sdk.Step{
		"plugin": stepOf(b, load(b, newLoader(b, true), probe(b, probeManifest)), "probe", loader.Limits{}),
		"worker": acts(b, newWorkers(b), loader.Limits{}),
	}
	client := bareClient(b)
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		req := request(`{"do":"echo","text":"` + strings.Repeat("x", size) + `"}`)
		for name, s := range steps {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Run(context.Background(), req, &recorder{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		data, err := sdk.Marshal(req)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("bare/%d", size), func(b *testing.B) {
			for b.Loop() {
				if err := echo(client, data); err != nil {
					b.Fatal(err)
				}
			}
		})
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

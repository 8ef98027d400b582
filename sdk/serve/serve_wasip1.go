package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// serve runs one attempt: the request is on stdin, the response goes to stdout.
func serve(step sdk.Step) int {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "request:", err)
		return 1
	}
	var req sdk.Request
	if err := sdk.Unmarshal(b, &req); err != nil {
		fmt.Fprintln(os.Stderr, "this is a module for the engine; it reads a request from stdin:", err)
		return 64
	}
	host := &callFile{}
	defer host.close()
	r, err := step.Run(context.Background(), &req, host)
	if err != nil {
		r = &sdk.Response{Error: sdk.AsError(err)}
	}
	if r == nil { // the respond operation gave the response
		return 0
	}
	if b, err = sdk.Marshal(r); err == nil {
		_, err = os.Stdout.Write(b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "response:", err)
		return 1
	}
	return 0
}

// callFile is the sdk.Host of a module: the file /engine/call. Operations take
// turns; a module has one thread.
type callFile struct {
	mu   sync.Mutex
	file *os.File
}

func (c *callFile) Call(ctx context.Context, msg []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(msg) == 0 {
		return nil, errors.New("an operation message is empty")
	}
	if c.file == nil {
		f, err := os.OpenFile("/engine/call", os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		c.file = f
	}
	if _, err := c.file.Write(msg); err != nil {
		return nil, err
	}
	return io.ReadAll(c.file)
}

func (c *callFile) close() {
	if c.file != nil {
		_ = c.file.Close() // nothing is unread
	}
}

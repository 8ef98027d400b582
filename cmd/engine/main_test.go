package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// broken is a stdout that panics, as only a fault of the engine itself does.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("stdout is\nbroken") }

// A fault of the engine itself is one line and an exit code of its own; --debug
// tells where.
func TestOwnFault(t *testing.T) {
	t.Parallel()
	for _, debug := range []bool{false, true} {
		args := []string{"version"}
		if debug {
			args = append(args, "--debug")
		}
		var stderr bytes.Buffer
		code := run(context.Background(), args, streams{in: strings.NewReader(""), out: broken{}, err: &stderr})
		if code != exitInternal || !strings.Contains(stderr.String(), `Error: the engine itself is at fault: stdout is\nbroken`) || strings.Contains(stderr.String(), "main_test.go") != debug {
			t.Errorf("debug %v: exit %d, stderr:\n%s", debug, code, stderr.String())
		}
	}
}

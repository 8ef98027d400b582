//go:build unix

package hcl

import (
	"testing"

	"golang.org/x/sys/unix"
)

func makeFIFO(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

//go:build unix

package wasm

import (
	"fmt"
	"syscall"
)

func reserve(n uint64) []byte {
	if n == 0 {
		return nil
	}
	b, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Errorf("memory of %d bytes: %w", n, err)) // caught by program.call
	}
	preferHuge(b)
	return b
}

func release(b []byte) { _ = syscall.Munmap(b) }

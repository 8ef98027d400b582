//go:build unix

package wasm

import "syscall"

const openNonblock = syscall.O_NONBLOCK

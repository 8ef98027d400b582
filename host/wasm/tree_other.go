//go:build !unix

package wasm

const openNonblock = 0 // there are no named pipes to wait for

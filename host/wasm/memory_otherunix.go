//go:build unix && !linux

package wasm

func preferHuge([]byte) {}

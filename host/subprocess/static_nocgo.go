//go:build !cgo

package subprocess

// static says why this build cannot be a worker.
var static error

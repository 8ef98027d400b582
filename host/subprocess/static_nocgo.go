//go:build !cgo

package subprocess

// errCgo says why this build cannot be a worker.
var errCgo error

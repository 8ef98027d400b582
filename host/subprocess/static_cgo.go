//go:build cgo

package subprocess

import "errors"

// errCgo says why this build cannot be a worker.
var errCgo = errors.New("this engine was built with cgo, whose threads cannot be confined; build it with CGO_ENABLED=0")

//go:build !wasip1

package serve

import (
	"fmt"
	"os"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/wire"
)

// serve answers the engine that started this process.
func serve(step sdk.Step) int {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		fmt.Fprintf(os.Stderr, "%s is a plugin of the engine and does nothing by itself.\nName it in a flow: plugin \"NAME\" { source = %q }\n", os.Args[0], os.Args[0])
		return 64
	}
	wire.Serve(step)
	return 0
}

package checkpoint_test

import (
	"testing"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) checkpoint.Store { return checkpoint.NewMemoryStore() })
}

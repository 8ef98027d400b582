package host

import (
	"encoding/json"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// A fake has no secrets: what is in keys is the input.

func (k *fake) KeyInput(i int, input json.RawMessage, s hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	if input == nil {
		return k.Input(i, s)
	}
	return input, nil
}

func (k *fake) KeyCheck(_, _ int, input json.RawMessage, _ hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return input, nil
}

func (k *fake) KeyFallback(_, _ int, input json.RawMessage, _ hcl.Scope) (json.RawMessage, hcl.Diagnostics) {
	return input, nil
}

func (k *fake) Shown(_ int, input json.RawMessage) json.RawMessage { return input }

func (k *fake) Stored(_ int, input json.RawMessage) json.RawMessage { return input }

func (k *fake) FileBlob(sdk.Digest) []byte { return nil }

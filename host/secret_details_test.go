package host

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// TestDetailsAreMasked: what a plugin adds to an error is recorded and shown, so
// no secret is in it; it stays JSON.
func TestDetailsAreMasked(t *testing.T) {
	t.Parallel()
	s := &secrets{}
	s.mask.Store((*operation.Redactor)(nil).With("key", "s3cr3t-value"))
	e := s.maskError(&sdk.Error{Class: sdk.ClassValidation, Details: json.RawMessage(`{"answer":"the key is s3cr3t-value","n":1.50}`)})
	if text := string(e.Details); strings.Contains(text, "s3cr3t-value") || !strings.Contains(text, "the key is ") || !strings.Contains(text, `"n":1.50`) || sdk.CheckJSON(e.Details) != nil {
		t.Errorf("details are %s", text)
	}
	if e := s.maskError(&sdk.Error{Class: sdk.ClassInternal}); e.Details != nil {
		t.Errorf("details came from nowhere: %s", e.Details)
	}
}

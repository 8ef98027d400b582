package steptest

import (
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrace-dev/engine/sdk"
)

// schema is a JSON Schema of a manifest; a nil one accepts everything.
type schema struct{ s *jsonschema.Schema }

// compile reads a schema that refers to nothing outside itself.
func compile(text json.RawMessage) (*schema, error) {
	if len(text) == 0 {
		return nil, nil
	}
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return nil, err
	}
	const self = "manifest:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(outside{})
	if err := c.AddResource(self, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(self)
	if err != nil {
		return nil, err
	}
	return &schema{s}, nil
}

// outside refuses to load what a schema refers to, as the engine does.
type outside struct{}

func (outside) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, which is outside the manifest", url)
}

func (s *schema) check(text json.RawMessage) error {
	if s == nil {
		return nil
	}
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return err
	}
	return s.s.Validate(doc)
}

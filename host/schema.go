package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

// compileSchema compiles a schema of a manifest.
func compileSchema(text json.RawMessage) (*jsonschema.Schema, error) {
	return jsonschema.Compile(text, jsonschema.Options{})
}

// hidden are the attributes of a use's input of which nothing may be shown.
func hidden(u hcl.Use) []string {
	if u.Sensitive {
		return []string{""}
	}
	return nil
}

// fits reports what in v does not fit a schema as an error of the given class: the
// message names the first places, the path is the first one's JSON Pointer. Of
// the members of v that are hidden it tells no more than that they do not fit;
// "" hides all.
func fits(s *jsonschema.Schema, v json.RawMessage, class sdk.Class, what string, hidden ...string) *sdk.Error {
	ms, err := s.Check(v)
	if err != nil {
		if len(hidden) > 0 {
			err = errors.New("it has a number that is out of range")
		}
		return &sdk.Error{Class: class, Code: "schema", Message: what + ": " + err.Error()}
	}
	if len(ms) == 0 {
		return nil
	}
	for i := range ms {
		top, _, _ := strings.Cut(strings.TrimPrefix(ms[i].Path, "/"), "/")
		if name := strings.NewReplacer("~1", "/", "~0", "~").Replace(top); slices.Contains(hidden, "") || top != "" && slices.Contains(hidden, name) {
			ms[i] = jsonschema.Mistake{Path: strings.TrimSuffix("/"+top, "/"), Message: "what stands there is sensitive and does not fit"}
		}
	}
	ms = slices.Compact(ms)
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not fit the schema of its plugin: ", what)
	for i, m := range ms {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(ms)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if m.Path != "" {
			b.WriteString("at " + m.Path + ": ")
		}
		b.WriteString(m.Message)
	}
	return &sdk.Error{Class: class, Code: "schema", Path: ms[0].Path, Message: b.String()}
}

// schemas are those of one step type.
type schemas struct{ input, output *jsonschema.Schema }

func compileSchemas(st sdk.StepType) (c schemas, err error) {
	if c.input, err = compileSchema(st.Input); err != nil {
		return c, fmt.Errorf("input schema: %w", err)
	}
	if c.output, err = compileSchema(st.Output); err != nil {
		return c, fmt.Errorf("output schema: %w", err)
	}
	return c, nil
}

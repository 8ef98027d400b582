package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/sdk"
)

// schema is a JSON Schema of a manifest, compiled. A nil schema accepts
// everything. It is safe for concurrent use.
type schema struct{ s *jsonschema.Schema }

// compileSchema compiles a schema that refers to nothing outside itself.
func compileSchema(text json.RawMessage) (*schema, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return nil, err
	}
	const self = "manifest:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{}) // a manifest is third-party text: it must not make the host read anything
	if err := c.AddResource(self, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(self)
	if err != nil {
		return nil, err
	}
	return &schema{s}, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, which is outside the manifest", url)
}

// hidden are the attributes of a use's input of which nothing may be shown.
func hidden(u hcl.Use) []string {
	if u.Sensitive {
		return []string{""}
	}
	return nil
}

// check reports what in v does not fit as an error of the given class: the
// message names the first places, the path is the first one's JSON Pointer. Of
// the members of v that are hidden it tells no more than that they do not fit;
// "" hides all.
func (s *schema) check(v json.RawMessage, class sdk.Class, what string, hidden ...string) *sdk.Error {
	if s == nil {
		return nil
	}
	doc, err := sdk.DecodeAny(v)
	if err != nil && len(hidden) > 0 {
		err = errors.New("it has a number that is out of range")
	}
	if err != nil {
		return &sdk.Error{Class: class, Code: "schema", Message: what + ": " + err.Error()}
	}
	var invalid *jsonschema.ValidationError
	if err := s.s.Validate(doc); err == nil {
		return nil
	} else if !errors.As(err, &invalid) {
		return &sdk.Error{Class: class, Code: "schema", Message: what + ": " + err.Error()}
	}
	places := leaves(invalid, nil)
	for i := range places {
		top, _, _ := strings.Cut(strings.TrimPrefix(places[i].path, "/"), "/")
		if name := strings.NewReplacer("~1", "/", "~0", "~").Replace(top); slices.Contains(hidden, "") || top != "" && slices.Contains(hidden, name) {
			places[i] = place{strings.TrimSuffix("/"+top, "/"), "what stands there is sensitive and does not fit"}
		}
	}
	places = slices.Compact(places)
	slices.SortStableFunc(places, func(a, b place) int { return strings.Compare(a.path, b.path) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s does not fit the schema of its plugin: ", what)
	for i, p := range places {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(places)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if p.path != "" {
			b.WriteString("at " + p.path + ": ")
		}
		b.WriteString(p.text)
	}
	return &sdk.Error{Class: class, Code: "schema", Path: places[0].path, Message: b.String()}
}

type place struct{ path, text string }

var english = message.NewPrinter(language.English)

// leaves lists the mistakes that explain the others.
func leaves(e *jsonschema.ValidationError, ps []place) []place {
	if len(e.Causes) == 0 {
		return append(ps, place{pointer(e.InstanceLocation), e.ErrorKind.LocalizedString(english)})
	}
	for _, c := range e.Causes {
		ps = leaves(c, ps)
	}
	return ps
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}

// schemas are those of one step type.
type schemas struct{ input, output *schema }

func compileSchemas(st sdk.StepType) (c schemas, err error) {
	if c.input, err = compileSchema(st.Input); err != nil {
		return c, fmt.Errorf("input schema: %w", err)
	}
	if c.output, err = compileSchema(st.Output); err != nil {
		return c, fmt.Errorf("output schema: %w", err)
	}
	return c, nil
}

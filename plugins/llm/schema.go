package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	textmessage "golang.org/x/text/message"

	"github.com/retrace-dev/engine/sdk"
)

// schema is a JSON Schema that an answer must fit.
type schema struct{ s *jsonschema.Schema }

// mistake is one place where an answer does not fit.
type mistake struct {
	Path    string `json:"path"` // JSON Pointer into the answer
	Message string `json:"message"`
}

func compileSchema(text json.RawMessage) (*schema, error) {
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return nil, err
	}
	const self = "answer:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
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
	return nil, fmt.Errorf("it refers to %s, which is outside of it", url)
}

// check lists every mistake, by path.
func (s *schema) check(text json.RawMessage) []mistake {
	doc, err := sdk.DecodeAny(text)
	if err == nil {
		err = s.s.Validate(doc)
	}
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &invalid):
		return []mistake{{Message: err.Error()}}
	}
	ms := leaves(invalid, nil)
	slices.SortStableFunc(ms, func(a, b mistake) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(ms)
}

var english = textmessage.NewPrinter(language.English)

func leaves(e *jsonschema.ValidationError, ms []mistake) []mistake {
	if len(e.Causes) == 0 {
		var path strings.Builder
		for _, t := range e.InstanceLocation {
			path.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
		}
		return append(ms, mistake{path.String(), e.ErrorKind.LocalizedString(english)})
	}
	for _, c := range e.Causes {
		ms = leaves(c, ms)
	}
	return ms
}

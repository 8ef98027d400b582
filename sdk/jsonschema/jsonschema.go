// Package jsonschema checks JSON texts against JSON Schemas (2020-12) that refer to
// nothing outside themselves: the schemas of manifests and of answers that are asked
// for are third-party text, and must not make who reads them read anything else.
//
// It is one reading for all: the engine checks with it what steps receive and answer,
// steptest what a step's examples say, and the step that asks models whether an answer
// is what was asked for. What a mistake is called then is for them to say. It is not
// about the schemas of the step contract itself, which are in ../schema.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/retrace-dev/engine/sdk"
)

// Schema is a compiled schema. A nil one accepts everything. It is safe for concurrent
// use.
type Schema struct{ s *jsonschema.Schema }

// Options say how a schema is read.
type Options struct {
	Formats bool // "format" is checked, not only noted
}

// Compile reads a schema. Of no text, and of null, it is nil.
func Compile(text json.RawMessage, o Options) (*Schema, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return nil, err
	}
	const self = "schema:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if o.Formats {
		c.AssertFormat()
	}
	c.UseLoader(nothing{})
	if err := c.AddResource(self, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(self)
	if err != nil {
		return nil, err
	}
	return &Schema{s}, nil
}

type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %s, which is outside of it", url)
}

// Mistake is one place of a text that does not fit.
type Mistake struct {
	Path    string `json:"path"` // JSON Pointer into the text
	Message string `json:"message"`
}

// Check lists every mistake, by path; each stands once. The error is for what cannot be
// judged: a text that is not JSON, or a number out of range.
func (s *Schema) Check(text json.RawMessage) ([]Mistake, error) {
	if s == nil {
		return nil, nil
	}
	doc, err := sdk.DecodeAny(text)
	if err != nil {
		return nil, err
	}
	if err = s.s.Validate(doc); err == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	ms := leaves(invalid, nil)
	slices.SortStableFunc(ms, func(a, b Mistake) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(ms), nil
}

var (
	english = message.NewPrinter(language.English)
	escaped = strings.NewReplacer("~", "~0", "/", "~1")
)

// leaves lists the mistakes that explain the others.
func leaves(e *jsonschema.ValidationError, ms []Mistake) []Mistake {
	if len(e.Causes) == 0 {
		var path strings.Builder
		for _, t := range e.InstanceLocation {
			path.WriteString("/" + escaped.Replace(t))
		}
		return append(ms, Mistake{path.String(), e.ErrorKind.LocalizedString(english)})
	}
	for _, c := range e.Causes {
		ms = leaves(c, ms)
	}
	return ms
}

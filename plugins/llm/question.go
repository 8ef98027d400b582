package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

// question is the input of chat.
type question struct {
	Model    string     `json:"model"` // Defaults to the config's
	System   string     `json:"system"`
	Prompt   *string    `json:"prompt"`
	Messages []message  `json:"messages"`
	Images   []sdk.Blob `json:"images"` // beside the prompt

	Temperature *json.Number    `json:"temperature"`
	TopP        *json.Number    `json:"top_p"`
	Seed        *json.Number    `json:"seed"`
	MaxTokens   int64           `json:"max_tokens"`
	Stop        words           `json:"stop"`
	Schema      json.RawMessage `json:"schema"`
	Strict      *bool           `json:"strict"`     // OpenAI: the server must refuse a schema it cannot keep to
	Structured  string          `json:"structured"` // what the server is told of the schema: schema (default), json or none
	Tools       []tool          `json:"tools"`
	ToolChoice  string          `json:"tool_choice"` // auto, none, required, or a tool's name
	Extra       map[string]any  `json:"extra"`       // further fields of the request's body

	Stream            *bool    `json:"stream"` // Defaults to true
	FirstTokenTimeout duration `json:"first_token_timeout"`
	IdleTimeout       duration `json:"idle_timeout"`

	LastError *lastError `json:"last_error"` // what was wrong with the attempt before
	Previous  *string    `json:"previous"`   // its answer; defaults to the one in last_error's details

	schema   *jsonschema.Schema
	warnings []sdk.Warning
}

// message is one turn of the conversation.
type message struct {
	Role       string     `json:"role"` // system, user, assistant or tool
	Content    content    `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls"`   // of an assistant
	ToolCallID string     `json:"tool_call_id"` // of a tool's result
	Name       string     `json:"name"`         // of the tool
}

// content is a text, or parts of text and images.
type content []part

type part struct {
	Text  string    `json:"text"`
	Image *sdk.Blob `json:"image"`
	URL   string    `json:"image_url"`

	data []byte // of the image
}

func (c *content) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		var text string
		err := json.Unmarshal(b, &text)
		*c = content{{Text: text}}
		return err
	case 'n':
		return nil
	}
	return json.Unmarshal(b, (*[]part)(c))
}

// text is the content without its images.
func (c content) text() string {
	var b strings.Builder
	for i := range c {
		b.WriteString(c[i].Text)
	}
	return b.String()
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
}

// toolCall is what a model wants a tool to do.
type toolCall struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// words are one or several strings.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	if b[0] != '"' {
		return json.Unmarshal(b, (*[]string)(w))
	}
	*w = words{""}
	return json.Unmarshal(b, &(*w)[0])
}

// duration is written as "30s".
type duration time.Duration

func (d *duration) UnmarshalText(b []byte) error {
	t, err := time.ParseDuration(string(b))
	if err == nil && t < 0 {
		err = fmt.Errorf("duration %q is negative", b)
	}
	*d = duration(t)
	return err
}

// lastError is attempt.last_error.
type lastError struct {
	Class   sdk.Class `json:"class"`
	Message string    `json:"message"`
	Details *struct {
		Answer *string `json:"answer"` // that the gate refused
		Output *struct {
			Text *string `json:"text"`
		} `json:"output"` // that the flow refused
	} `json:"details"`
}

// answer is the one before; nil if it is not known.
func (e *lastError) answer() *string {
	switch d := e.Details; {
	case d == nil:
		return nil
	case d.Output != nil:
		return d.Output.Text
	default:
		return d.Answer
	}
}

// defaultIdle is how long a stream may pause between two tokens. Servers that
// reason pause before the first one.
const defaultIdle = duration(time.Minute)

func parseQuestion(ctx context.Context, host sdk.Host, c *config, input json.RawMessage) (*question, error) {
	q := question{Model: c.Model, IdleTimeout: defaultIdle}
	if len(c.Defaults) > 0 {
		if err := sdk.Unmarshal(c.Defaults, &q); err != nil {
			return nil, invalid("", "config.defaults cannot be read: %v", err)
		}
	}
	if err := sdk.Unmarshal(input, &q); err != nil {
		return nil, invalid("", "the input cannot be read: %v", err)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.Prompt != nil {
		m := message{Role: "user", Content: content{{Text: *q.Prompt}}}
		for i := range q.Images {
			m.Content = append(m.Content, part{Image: &q.Images[i]})
		}
		q.Messages = append(q.Messages, m)
	}
	if q.Messages[0].Role == "system" && q.System == "" {
		q.System = q.Messages[0].Content.text()
		q.Messages = q.Messages[1:]
	}
	q.askAgain()
	return &q, q.fetch(ctx, host)
}

func (q *question) check() error {
	if given(q.Schema) {
		s, err := jsonschema.Compile(q.Schema, jsonschema.Options{Formats: true})
		if err != nil {
			return invalid("/schema", "the schema cannot be used: %v", err)
		}
		q.schema = s
	}
	switch {
	case q.Model == "":
		return invalid("/model", "no model is named; give model in the plugin's config or in the input")
	case q.Prompt == nil && len(q.Messages) == 0:
		return invalid("/prompt", "there is nothing to ask; give prompt or messages")
	case q.MaxTokens < 0:
		return invalid("/max_tokens", "max_tokens %d is negative", q.MaxTokens)
	case len(q.Images) > 0 && q.Prompt == nil:
		return invalid("/images", "images go with prompt; in messages, put {image = BLOB} into a content")
	case !slices.Contains([]string{"", "schema", "json", "none"}, q.Structured):
		return invalid("/structured", "structured is %q; it may be schema, json or none", q.Structured)
	}
	for i, m := range q.Messages {
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return invalid(fmt.Sprintf("/messages/%d/role", i), "role %q is none of system, user, assistant, tool", m.Role)
		}
		if m.Role == "system" && (i > 0 || q.System != "") {
			return invalid(fmt.Sprintf("/messages/%d/role", i), "a system message must be the only one, and the first")
		}
	}
	if len(q.Messages) == 1 && q.Messages[0].Role == "system" && q.Prompt == nil {
		return invalid("/messages", "there is nothing to ask but a system message")
	}
	return nil
}

// askAgain adds what was wrong with the answer before to the conversation. A
// server that was away needs no words.
func (q *question) askAgain() {
	e := q.LastError
	if e == nil || e.Class != sdk.ClassValidation {
		q.LastError = nil
		return
	}
	previous := q.Previous
	if previous == nil {
		previous = e.answer()
	}
	if previous != nil && *previous != "" {
		q.Messages = append(q.Messages, message{Role: "assistant", Content: content{{Text: *previous}}})
	}
	text := "That answer cannot be used: " + e.Message + "\nAnswer the question again."
	if q.schema != nil {
		text += " Give nothing but the JSON value."
	}
	q.Messages = append(q.Messages, message{Role: "user", Content: content{{Text: text}}})
}

func (q *question) streams() bool { return q.Stream == nil || *q.Stream }

// sent is what the server is told of the schema.
func (q *question) sent() string {
	switch {
	case q.schema == nil:
		return "none"
	case q.Structured == "":
		return "schema"
	}
	return q.Structured
}

// parameters are those of the context.
func (q *question) parameters() map[string]any {
	p := map[string]any{"stream": q.streams()}
	for name, n := range map[string]*json.Number{"temperature": q.Temperature, "top_p": q.TopP, "seed": q.Seed} {
		if n != nil {
			p[name] = *n
		}
	}
	if q.MaxTokens > 0 {
		p["max_tokens"] = q.MaxTokens
	}
	if len(q.Stop) > 0 {
		p["stop"] = q.Stop
	}
	if q.schema != nil {
		p["schema"], p["structured"] = sdk.Sum(q.Schema), q.sent()
	}
	if len(q.Extra) > 0 {
		p["extra"] = q.Extra
	}
	return p
}

// given: not absent, and not HCL's null.
func given(v json.RawMessage) bool { return len(v) > 0 && string(v) != "null" }

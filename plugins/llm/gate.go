package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/jsonschema"
)

// details go with every error about an answer. An attempt that asks again is
// given them as last_error.details.
type details struct {
	Answer       *string              `json:"answer,omitempty"` // byte for byte
	FinishReason string               `json:"finish_reason,omitempty"`
	Model        string               `json:"model,omitempty"` // that answered
	RequestID    string               `json:"request_id,omitempty"`
	Status       int                  `json:"status,omitempty"` // of HTTP
	Mistakes     []jsonschema.Mistake `json:"mistakes,omitempty"`
}

func (d details) encode() json.RawMessage {
	b, err := sdk.Marshal(d)
	if err != nil {
		return nil // strings and numbers can be encoded
	}
	return b
}

// about is an error about an answer.
func (a *answer) about(e *sdk.Error, mistakes ...jsonschema.Mistake) *sdk.Error {
	text := a.text.String()
	e.Details = details{Answer: &text, FinishReason: a.finish, Model: a.model, RequestID: a.id, Mistakes: mistakes}.encode()
	return e
}

// judge lets an answer through or says why not: first how it ended, then what
// it is. Nothing is repaired.
func (q *question) judge(c *config, a *answer) *sdk.Error {
	if e := q.ended(c, a); e != nil {
		return a.about(e)
	}
	if e := a.settle(); e != nil {
		return a.about(e)
	}
	if len(a.calls) > 0 {
		return nil // the answer comes when the tools have been asked
	}
	text := strings.TrimSpace(a.text.String())
	if text == "" {
		return a.about(&sdk.Error{Class: sdk.ClassValidation, Code: "empty_answer", Message: "the answer is empty"})
	}
	if q.schema == nil {
		return nil
	}
	value := []byte(unfenced(text))
	if err := sdk.CheckJSON(value); err != nil {
		return a.about(&sdk.Error{Class: sdk.ClassValidation, Code: "json", Message: fmt.Sprintf("the answer is not one JSON value: %v%s", err, sdk.Seen(value))}, jsonschema.Mistake{Message: err.Error()})
	}
	ms, err := q.schema.Check(value)
	if err != nil {
		ms = []jsonschema.Mistake{{Message: err.Error()}}
	}
	if len(ms) > 0 {
		return a.about(&sdk.Error{Class: sdk.ClassValidation, Code: "schema", Message: "the answer does not fit the schema: " + list(ms)}, ms...)
	}
	a.json = value
	return nil
}

// ended judges the finish reason.
func (q *question) ended(c *config, a *answer) *sdk.Error {
	if said := a.refusal.String(); said != "" {
		return &sdk.Error{Class: sdk.ClassRefused, Code: "refusal", Message: "the model refused: " + said}
	}
	if a.finish == "" {
		return &sdk.Error{Class: sdk.ClassUnavailable, Code: "no_finish_reason",
			Message: fmt.Sprintf("the answer broke off after %d bytes: the server ended it without a finish reason", a.text.Len())}
	}
	switch c.dialect.outcome(a.finish) {
	case complete:
		return nil
	case truncated:
		return &sdk.Error{Class: sdk.ClassTruncated, Code: "length", Message: fmt.Sprintf("the answer was cut off after %d bytes (finish reason %s); raise max_tokens, now %s, or ask for less", a.text.Len(), a.finish, q.limit())}
	case refused:
		return &sdk.Error{Class: sdk.ClassRefused, Code: "content_filter", Message: fmt.Sprintf("the answer was withheld (finish reason %s)", a.finish)}
	case malformed:
		return &sdk.Error{Class: sdk.ClassValidation, Code: "tool_call", Message: fmt.Sprintf("the model called a tool in a way that cannot be understood (finish reason %s)", a.finish)}
	case broken:
		return &sdk.Error{Class: sdk.ClassUnavailable, Code: "gave_up", Message: fmt.Sprintf("the server gave up (finish reason %s)", a.finish)}
	}
	return &sdk.Error{Class: sdk.ClassAPIError, Code: "finish_reason", Message: fmt.Sprintf("the answer ended for a reason that this plugin does not know: %q", a.finish)}
}

func (q *question) limit() string {
	if q.MaxTokens == 0 {
		return "the server's default"
	}
	return fmt.Sprint(q.MaxTokens)
}

// settle puts the pieces of the tool calls together.
func (a *answer) settle() *sdk.Error {
	var calls []toolCall
	for k, call := range a.calls {
		text := strings.TrimSpace(a.arguments[k].String())
		switch {
		case call.Name == "" && text == "":
			continue // a block of text has this number
		case text == "":
			text = "{}"
		}
		if err := sdk.CheckJSON([]byte(text)); err != nil || call.Name == "" {
			return &sdk.Error{Class: sdk.ClassValidation, Code: "tool_call", Message: fmt.Sprintf("the arguments of the call of tool %q are not JSON%s", call.Name, sdk.Seen([]byte(text)))}
		}
		call.Arguments = json.RawMessage(text)
		calls = append(calls, call)
	}
	a.calls = calls
	return nil
}

// unfenced is the content of an answer that is one fenced block of Markdown as a
// whole, which models without structured output like to give; any other text as
// it is.
func unfenced(text string) string {
	body, opened := strings.CutPrefix(text, "```")
	body, closed := strings.CutSuffix(body, "```")
	if !opened || !closed || strings.Contains(body, "```") {
		return text
	}
	if language, rest, ok := strings.Cut(body, "\n"); ok && !strings.ContainsAny(language, "{[\" ") {
		body = rest
	}
	return strings.TrimSpace(body)
}

// mostTold is how many mistakes a message names; the details have all.
const mostTold = 10

func list(ms []jsonschema.Mistake) string {
	var b strings.Builder
	for i, m := range ms {
		if i == mostTold {
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
	return b.String()
}

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/retrace-dev/engine/sdk"
)

// anthropic is the dialect of Anthropic's messages.
type anthropic struct{}

var _ dialect = anthropic{}

// defaultMaxTokens is sent to Anthropic, which demands a number.
const defaultMaxTokens = 4096

func (anthropic) operation(c *config, method, path string) sdk.HTTPOp {
	op := c.operation(method, path, "X-Api-Key", "")
	if op.Headers["anthropic-version"] == nil && op.Headers["Anthropic-Version"] == nil {
		op.Headers["Anthropic-Version"] = []string{"2023-06-01"}
	}
	return op
}

func (d anthropic) request(c *config, q *question) (sdk.HTTPOp, any) {
	var messages []any
	for _, m := range q.Messages {
		messages = append(messages, anthropicTurn(&m))
	}
	body := object{"model": q.Model, "messages": messages, "max_tokens": int64(defaultMaxTokens)}
	if q.MaxTokens > 0 {
		body["max_tokens"] = q.MaxTokens
	}
	if q.System != "" {
		body["system"] = q.System
	}
	body.number("temperature", q.Temperature)
	body.number("top_p", q.TopP)
	if q.Seed != nil {
		q.warn("/seed", "Anthropic takes no seed; it was not sent")
	}
	if len(q.Stop) > 0 {
		body["stop_sequences"] = q.Stop
	}
	if q.streams() {
		body["stream"] = true
	}
	if q.sent() == "schema" {
		body["output_config"] = object{"format": object{"type": "json_schema", "schema": q.Schema}}
	}
	if len(q.Tools) > 0 {
		var tools []any
		for _, t := range q.Tools {
			tools = append(tools, t.describe("input_schema"))
		}
		body["tools"] = tools
	}
	switch q.ToolChoice {
	case "":
	case "auto", "none":
		body["tool_choice"] = object{"type": q.ToolChoice}
	case "required":
		body["tool_choice"] = object{"type": "any"}
	default:
		body["tool_choice"] = object{"type": "tool", "name": q.ToolChoice}
	}
	return d.operation(c, "POST", "/messages"), body.with(q.Extra)
}

func anthropicTurn(m *message) object {
	if m.Role == "tool" {
		return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": m.ToolCallID, "content": m.Content.text()}}}
	}
	var parts []any
	for i := range m.Content {
		p := &m.Content[i]
		switch {
		case p.Image != nil:
			parts = append(parts, object{"type": "image", "source": object{"type": "base64", "media_type": p.mediaType(), "data": base64.StdEncoding.EncodeToString(p.data)}})
		case p.URL != "":
			parts = append(parts, object{"type": "image", "source": object{"type": "url", "url": p.URL}})
		default:
			parts = append(parts, object{"type": "text", "text": p.Text})
		}
	}
	for _, t := range m.ToolCalls {
		parts = append(parts, object{"type": "tool_use", "id": t.ID, "name": t.Name, "input": t.Arguments})
	}
	return object{"role": m.Role, "content": parts}
}

// anthropicReply is a reply, or one event of it.
type anthropicReply struct {
	Type             string            `json:"type"`
	anthropicMessage                   // of a reply that is whole; the usage also of message_delta
	Message          *anthropicMessage `json:"message"` // of message_start
	Index            int               `json:"index"`
	Block            *anthropicBlock   `json:"content_block"`
	Delta            struct {
		Text       string `json:"text"`
		Partial    string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
}

type anthropicMessage struct {
	ID         string           `json:"id"`
	Model      string           `json:"model"`
	StopReason string           `json:"stop_reason"`
	Content    []anthropicBlock `json:"content"`
	Usage      *anthropicUsage  `json:"usage"`
}

type anthropicBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// anthropicUsage is cumulative; an event names what has changed.
type anthropicUsage struct {
	Input   *int64 `json:"input_tokens"` // without those of the cache
	Output  *int64 `json:"output_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
}

func (anthropic) take(data []byte, a *answer) error {
	var r anthropicReply
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if r.Index < 0 || r.Index > maxCalls {
		return fmt.Errorf("its block has the number %d", r.Index)
	}
	switch r.Type {
	case "error":
		return told(data)
	case "message":
		r.takeMessage(a)
		for i := range r.Content {
			r.Content[i].take(a, i)
		}
	case "message_start":
		if r.Message != nil {
			r.Message.takeMessage(a)
		}
	case "content_block_start":
		if r.Block != nil {
			r.Block.Input = nil // the pieces follow
			r.Block.take(a, r.Index)
		}
	case "content_block_delta":
		a.text.WriteString(r.Delta.Text)
		if r.Delta.Partial != "" {
			_, arguments := a.call(r.Index)
			arguments.WriteString(r.Delta.Partial)
		}
	case "message_delta":
		r.StopReason = r.Delta.StopReason
		r.takeMessage(a)
	}
	return nil
}

func (m *anthropicMessage) takeMessage(a *answer) {
	first(&a.id, m.ID)
	first(&a.model, m.Model)
	if m.StopReason != "" {
		a.finish = m.StopReason
	}
	if m.Usage == nil {
		return
	}
	if a.tokens == nil {
		a.tokens = &tokens{}
	}
	for to, n := range map[*int64]*int64{&a.tokens.fresh: m.Usage.Input, &a.tokens.output: m.Usage.Output, &a.tokens.cached: m.Usage.Read, &a.tokens.written: m.Usage.Written} {
		if n != nil {
			*to = *n
		}
	}
}

func (b *anthropicBlock) take(a *answer, k int) {
	switch b.Type {
	case "text":
		a.text.WriteString(b.Text)
	case "tool_use":
		call, arguments := a.call(k)
		call.ID, call.Name = b.ID, b.Name
		arguments.Write(b.Input)
	}
}

func (anthropic) outcome(reason string) outcome {
	switch reason {
	case "end_turn", "stop_sequence", "tool_use":
		return complete
	case "max_tokens", "model_context_window_exceeded":
		return truncated
	case "refusal":
		return refused
	}
	return unknown
}

func (d anthropic) list(c *config) sdk.HTTPOp { return d.operation(c, "GET", "/models?limit=1000") }

func (anthropic) names(body []byte) ([]string, error) { return ids(body) }

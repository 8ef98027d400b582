package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// openAI is the dialect of chat completions: OpenAI, Ollama, llama.cpp, vLLM and
// many others.
type openAI struct{}

var _ dialect = openAI{}

func (openAI) request(c *config, q *question) (sdk.HTTPOp, any) {
	var messages []any
	if q.System != "" {
		messages = append(messages, object{"role": "system", "content": q.System})
	}
	for _, m := range q.Messages {
		messages = append(messages, openAITurn(&m))
	}
	body := object{"model": q.Model, "messages": messages}
	body.number("temperature", q.Temperature)
	body.number("top_p", q.TopP)
	body.number("seed", q.Seed)
	if q.MaxTokens > 0 {
		// OpenAI's newer models refuse the older name, other servers ignore the
		// newer one.
		name := "max_tokens"
		if strings.HasPrefix(c.BaseURL, "https://api.openai.com/") {
			name = "max_completion_tokens"
		}
		body[name] = q.MaxTokens
	}
	if len(q.Stop) > 0 {
		body["stop"] = q.Stop
	}
	if q.streams() {
		body["stream"], body["stream_options"] = true, object{"include_usage": true}
	}
	switch q.sent() {
	case "schema":
		s := object{"name": "answer", "schema": q.Schema}
		if q.Strict != nil {
			s["strict"] = *q.Strict
		}
		body["response_format"] = object{"type": "json_schema", "json_schema": s}
	case "json":
		body["response_format"] = object{"type": "json_object"}
	}
	if len(q.Tools) > 0 {
		var tools []any
		for _, t := range q.Tools {
			tools = append(tools, object{"type": "function", "function": t.describe("parameters")})
		}
		body["tools"] = tools
	}
	switch q.ToolChoice {
	case "":
	case "auto", "none", "required":
		body["tool_choice"] = q.ToolChoice
	default:
		body["tool_choice"] = object{"type": "function", "function": object{"name": q.ToolChoice}}
	}
	return c.operation("POST", "/chat/completions", "Authorization", "Bearer "), body.with(q.Extra)
}

func openAITurn(m *message) object {
	o := object{"role": m.Role}
	plain := true
	var parts []any
	for i := range m.Content {
		p := &m.Content[i]
		switch {
		case p.Image != nil:
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": "data:" + p.mediaType() + ";base64," + base64.StdEncoding.EncodeToString(p.data)}})
			plain = false
		case p.URL != "":
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": p.URL}})
			plain = false
		default:
			parts = append(parts, object{"type": "text", "text": p.Text})
		}
	}
	o["content"] = parts
	if plain {
		o["content"] = m.Content.text()
	}
	if m.ToolCallID != "" {
		o["tool_call_id"] = m.ToolCallID
	}
	var calls []any
	for _, t := range m.ToolCalls {
		calls = append(calls, object{"id": t.ID, "type": "function", "function": object{"name": t.Name, "arguments": string(t.Arguments)}})
	}
	if calls != nil {
		o["tool_calls"] = calls
	}
	return o
}

// openAIReply is a reply, or one chunk of it.
type openAIReply struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Message      openAIDelta `json:"message"`
		Delta        openAIDelta `json:"delta"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type openAIDelta struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
	ToolCalls []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (openAI) take(data []byte, a *answer) error {
	var r openAIReply
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if given(r.Error) {
		return told(data)
	}
	first(&a.id, r.ID)
	first(&a.model, r.Model)
	if u := r.Usage; u != nil {
		a.tokens = &tokens{fresh: u.Prompt - u.Details.Cached, output: u.Completion, cached: u.Details.Cached}
	}
	if len(r.Choices) == 0 {
		return nil
	}
	c := &r.Choices[0]
	if c.FinishReason != "" {
		a.finish = c.FinishReason
	}
	for _, d := range []*openAIDelta{&c.Message, &c.Delta} {
		a.text.WriteString(d.Content)
		a.refusal.WriteString(d.Refusal)
		for i, t := range d.ToolCalls {
			if t.Index != nil {
				i = *t.Index
			}
			if i < 0 || i > maxCalls {
				return fmt.Errorf("it calls tool number %d", i)
			}
			call, arguments := a.call(i)
			first(&call.ID, t.ID)
			first(&call.Name, t.Function.Name)
			arguments.WriteString(t.Function.Arguments)
		}
	}
	return nil
}

func (openAI) outcome(reason string) outcome {
	switch reason {
	case "stop", "tool_calls", "function_call":
		return complete
	case "length":
		return truncated
	case "content_filter":
		return refused
	case "error", "abort":
		return broken
	}
	return unknown
}

func (openAI) list(c *config) sdk.HTTPOp {
	return c.operation("GET", "/models", "Authorization", "Bearer ")
}

func (openAI) names(body []byte) ([]string, error) { return ids(body) }

// ids reads a list of models as OpenAI and Anthropic give it.
func ids(body []byte) ([]string, error) {
	var r struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	names := []string{}
	for _, m := range r.Data {
		names = append(names, m.ID)
	}
	return names, nil
}

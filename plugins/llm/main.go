// Command llm is the plugin std/llm: one call of a language model, and the gate
// its answer must pass.
//
// It speaks the dialects of OpenAI (which Ollama, llama.cpp and vLLM speak too),
// Anthropic and Gemini. One attempt is one HTTP request; retries, fallbacks,
// limits and budgets are the engine's. The token is a secret that the host puts
// into a header: the module never sees it.
//
// # Design
//
// Why is the gate here, when providers promise to keep to a schema? They promise
// it for some models, for some schemas, and not when the answer was cut off. What
// passes here is stored and may be reused for years.
//
// Why is nothing repaired? JSON that a parser had to complete says what the
// parser thought. A truncated answer is truncated; asking again with more tokens
// is the flow's decision.
//
// Why is streaming the default? A watcher sees the answer come, and only a
// stream shows the difference between a model that thinks, one that has stalled
// and one that has gone.
//
// Why does usage name the model that was asked for and not the one that
// answered? What is reserved before a call and settled after it must meet under
// one name. The model that answered is in the context.
package main

import (
	"context"
	"encoding/json"

	"github.com/retrace-dev/engine/sdk"
	"github.com/retrace-dev/engine/sdk/serve"
)

func main() {
	serve.Main(map[string]sdk.Step{"chat": sdk.StepFunc(chat), "models": sdk.StepFunc(models)})
}

// chat asks the model once and judges what it answers.
func chat(ctx context.Context, req *sdk.Request, host sdk.Host) (*sdk.Response, error) {
	c, err := parseConfig(req.Config)
	if err != nil {
		return nil, err
	}
	q, err := parseQuestion(ctx, host, c, req.Input)
	if err != nil {
		return nil, err
	}
	a, failure := ask(ctx, host, c, q)
	if failure == nil {
		failure = q.judge(c, a)
	}
	r := &sdk.Response{Context: explain(c, q, a), Warnings: q.warnings}
	if failure != nil {
		r.Error = failure
		return r, nil
	}
	out := output{Text: a.text.String(), JSON: a.json, ToolCalls: a.calls}
	if r.Output, err = sdk.Marshal(out); err != nil {
		return nil, err
	}
	return r, nil
}

type output struct {
	Text      string          `json:"text"`           // the answer, byte for byte
	JSON      json.RawMessage `json:"json,omitempty"` // the answer's value, if a schema was given
	ToolCalls []toolCall      `json:"tool_calls,omitempty"`
}

// explained is the context of a response: what a reader of the run wants to know
// and no step depends on.
type explained struct {
	API          string         `json:"api"`
	Endpoint     string         `json:"endpoint"`
	Model        string         `json:"model"`                    // asked for
	Resolved     string         `json:"resolved_model,omitempty"` // that answered
	FinishReason string         `json:"finish_reason,omitempty"`
	RequestID    string         `json:"request_id,omitempty"`
	Parameters   map[string]any `json:"parameters,omitempty"`
	Asked        string         `json:"asked_again,omitempty"` // what was wrong with the answer before
}

func explain(c *config, q *question, a *answer) json.RawMessage {
	e := explained{API: c.API, Endpoint: c.BaseURL, Model: q.Model, Resolved: a.model, FinishReason: a.finish, RequestID: a.id, Parameters: q.parameters()}
	if q.LastError != nil {
		e.Asked = q.LastError.Message
	}
	b, err := sdk.Marshal(e)
	if err != nil || len(b) > sdk.MaxContext {
		e.Parameters, e.Asked = nil, ""
		b, _ = sdk.Marshal(e) // strings alone
	}
	if len(b) > sdk.MaxContext {
		return nil
	}
	return b
}

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// gemini is the dialect of Gemini's generateContent.
type gemini struct{}

var _ dialect = gemini{}

func (gemini) request(c *config, q *question) (sdk.HTTPOp, any) {
	var contents []any
	for _, m := range q.Messages {
		contents = append(contents, geminiTurn(&m))
	}
	how := object{}
	how.number("temperature", q.Temperature)
	how.number("topP", q.TopP)
	how.number("seed", q.Seed)
	if q.MaxTokens > 0 {
		how["maxOutputTokens"] = q.MaxTokens
	}
	if len(q.Stop) > 0 {
		how["stopSequences"] = q.Stop
	}
	switch q.sent() {
	case "schema":
		how["responseMimeType"], how["responseJsonSchema"] = "application/json", q.Schema
	case "json":
		how["responseMimeType"] = "application/json"
	}
	body := object{"contents": contents, "generationConfig": how}
	if q.System != "" {
		body["systemInstruction"] = object{"parts": []any{object{"text": q.System}}}
	}
	if len(q.Tools) > 0 {
		var tools []any
		for _, t := range q.Tools {
			tools = append(tools, t.describe("parametersJsonSchema"))
		}
		body["tools"] = []any{object{"functionDeclarations": tools}}
	}
	if q.ToolChoice != "" {
		choice := object{"mode": map[string]string{"auto": "AUTO", "none": "NONE"}[q.ToolChoice]}
		if choice["mode"] == "" {
			choice["mode"] = "ANY"
			if q.ToolChoice != "required" {
				choice["allowedFunctionNames"] = []string{q.ToolChoice}
			}
		}
		body["toolConfig"] = object{"functionCallingConfig": choice}
	}
	method := ":generateContent"
	if q.streams() {
		method = ":streamGenerateContent?alt=sse"
	}
	return c.operation("POST", "/models/"+url.PathEscape(q.Model)+method, "X-Goog-Api-Key", ""), body.with(q.Extra)
}

func geminiTurn(m *message) object {
	if m.Role == "tool" {
		response := json.RawMessage(m.Content.text())
		if sdk.CheckJSON(response) != nil || response[0] != '{' {
			response, _ = sdk.Marshal(object{"result": m.Content.text()}) // Gemini wants an object
		}
		return object{"role": "user", "parts": []any{object{"functionResponse": object{"name": m.Name, "response": response}}}}
	}
	var parts []any
	for i := range m.Content {
		p := &m.Content[i]
		switch {
		case p.Image != nil:
			parts = append(parts, object{"inlineData": object{"mimeType": p.mediaType(), "data": base64.StdEncoding.EncodeToString(p.data)}})
		case p.URL != "":
			parts = append(parts, object{"fileData": object{"fileUri": p.URL}})
		default:
			parts = append(parts, object{"text": p.Text})
		}
	}
	for _, t := range m.ToolCalls {
		parts = append(parts, object{"functionCall": object{"name": t.Name, "args": t.Arguments}})
	}
	role := "user"
	if m.Role == "assistant" {
		role = "model"
	}
	return object{"role": role, "parts": parts}
}

// geminiReply is a reply, or one chunk of it.
type geminiReply struct {
	ID         string `json:"responseId"`
	Model      string `json:"modelVersion"`
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
				Call    *struct {
					ID   string          `json:"id"`
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Reason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt    int64 `json:"promptTokenCount"`
		Cached    int64 `json:"cachedContentTokenCount"`
		Candidate int64 `json:"candidatesTokenCount"`
		Thoughts  int64 `json:"thoughtsTokenCount"`
		ToolUse   int64 `json:"toolUsePromptTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

func (gemini) take(data []byte, a *answer) error {
	var r geminiReply
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	if given(r.Error) {
		return told(data)
	}
	first(&a.id, r.ID)
	first(&a.model, r.Model)
	if u := r.Usage; u != nil {
		a.tokens = &tokens{fresh: u.Prompt + u.ToolUse - u.Cached, cached: u.Cached, output: u.Candidate + u.Thoughts}
	}
	if r.Feedback.Reason != "" {
		a.finish = "PROMPT_" + r.Feedback.Reason
	}
	if len(r.Candidates) == 0 {
		return nil
	}
	c := &r.Candidates[0]
	for _, p := range c.Content.Parts {
		if !p.Thought {
			a.text.WriteString(p.Text)
		}
		if p.Call != nil {
			if len(a.calls) > maxCalls {
				return fmt.Errorf("it calls more than %d tools", maxCalls)
			}
			call, arguments := a.call(len(a.calls))
			call.ID, call.Name = p.Call.ID, p.Call.Name
			arguments.Write(p.Call.Args)
		}
	}
	if c.FinishReason != "" {
		a.finish = c.FinishReason
	}
	return nil
}

func (gemini) outcome(reason string) outcome {
	switch reason {
	case "STOP":
		return complete
	case "MAX_TOKENS":
		return truncated
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return malformed
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return refused
	case "OTHER", "FINISH_REASON_UNSPECIFIED":
		return broken
	}
	if strings.HasPrefix(reason, "PROMPT_") {
		return refused
	}
	return unknown
}

func (gemini) list(c *config) sdk.HTTPOp {
	return c.operation("GET", "/models?pageSize=1000", "X-Goog-Api-Key", "")
}

func (gemini) names(body []byte) ([]string, error) {
	var r struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	names := []string{}
	for _, m := range r.Models {
		names = append(names, strings.TrimPrefix(m.Name, "models/"))
	}
	return names, nil
}

package fault

import "encoding/json"

const made = 1_700_000_000 // when every answer was made

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return string(b)
}

type openAI struct{}

func (openAI) finish(word string) string {
	return map[string]string{"complete": "stop", "truncated": "length", "filter": "content_filter", "refusal": "stop", "tool": "tool_calls", "oddfinish": "because"}[word]
}

// refuses: OpenAI has no finish reason for what the model does not want.
func message(text, finish string, tool any) object {
	m := object{"role": "assistant", "content": text}
	if finish == "tool_calls" {
		m["content"], m["tool_calls"] = nil, tool
	}
	return m
}

func (openAI) usage(u usage) any {
	if u == nil {
		return nil
	}
	return object{"prompt_tokens": u.in, "completion_tokens": u.out, "total_tokens": u.in + u.out, "prompt_tokens_details": object{"cached_tokens": 3}}
}

func (d openAI) whole(text, finish, model string, u usage) any {
	call := []any{object{"id": "call_1", "type": "function", "function": object{"name": "get_weather", "arguments": `{"city":"東京"}`}}}
	m := message(text, finish, call)
	if model == "refusal" {
		m["content"], m["refusal"] = nil, "I cannot help with that."
	}
	r := object{"id": "chatcmpl-1", "object": "chat.completion", "created": made, "model": model + "-2030-01-01",
		"choices": []any{object{"index": 0, "message": m, "finish_reason": finish, "logprobs": nil}}}
	if u != nil {
		r["usage"] = d.usage(u)
	}
	return r
}

func (d openAI) events(pieces []string, finish, model string, u usage) (es []event) {
	chunk := func(choices []any, usage any) {
		c := object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": made, "model": model + "-2030-01-01", "choices": choices}
		if usage != nil {
			c["usage"] = usage
		}
		es = append(es, event{"", encode(c)})
	}
	delta := func(d object, finish any) {
		chunk([]any{object{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	switch {
	case model == "refusal":
		delta(object{"refusal": "I cannot "}, nil)
		delta(object{"refusal": "help with that."}, nil)
	case finish == "tool_calls":
		delta(object{"tool_calls": []any{object{"index": 0, "id": "call_1", "type": "function", "function": object{"name": "get_weather", "arguments": ""}}}}, nil)
		for _, a := range []string{`{"city":`, `"東京"}`} {
			delta(object{"tool_calls": []any{object{"index": 0, "function": object{"arguments": a}}}}, nil)
		}
	default:
		for _, p := range pieces {
			delta(object{"content": p}, nil)
		}
	}
	if finish == "" {
		return append(es, event{"", "[DONE]"})
	}
	delta(object{}, finish)
	if u != nil {
		chunk([]any{}, d.usage(u))
	}
	return append(es, event{"", "[DONE]"})
}

type anthropic struct{}

func (anthropic) finish(word string) string {
	return map[string]string{"complete": "end_turn", "truncated": "max_tokens", "filter": "refusal", "refusal": "refusal", "tool": "tool_use", "oddfinish": "because"}[word]
}

func (anthropic) whole(text, finish, model string, u usage) any {
	content := []any{object{"type": "text", "text": text}}
	if finish == "tool_use" {
		content = []any{object{"type": "text", "text": "Let me look."}, object{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": object{"city": "東京"}}}
	}
	var stop any
	if finish != "" {
		stop = finish
	}
	r := object{"id": "msg_1", "type": "message", "role": "assistant", "model": model + "-20300101", "content": content, "stop_reason": stop, "stop_sequence": nil}
	if u != nil {
		r["usage"] = object{"input_tokens": u.in - 3, "output_tokens": u.out, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}
	}
	return r
}

func (anthropic) events(pieces []string, finish, model string, u usage) (es []event) {
	send := func(name string, o object) {
		o["type"] = name
		es = append(es, event{name, encode(o)})
	}
	m := object{"id": "msg_1", "type": "message", "role": "assistant", "model": model + "-20300101", "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
	if u != nil {
		m["usage"] = object{"input_tokens": u.in - 3, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 0}
	}
	send("message_start", object{"message": m})
	// Its first block goes out with the message, so that every dialect has one
	// event before the text.
	start := event{"content_block_start", encode(object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})}
	es[0].data += "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: " + start.name + "\ndata: " + start.data
	for _, p := range pieces {
		send("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": p}})
	}
	if finish == "" {
		return es
	}
	send("content_block_stop", object{"index": 0})
	if finish == "tool_use" {
		send("content_block_start", object{"index": 1, "content_block": object{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": object{}}})
		for _, p := range []string{`{"city":`, `"東京"}`} {
			send("content_block_delta", object{"index": 1, "delta": object{"type": "input_json_delta", "partial_json": p}})
		}
		send("content_block_stop", object{"index": 1})
	}
	end := object{"delta": object{"stop_reason": finish, "stop_sequence": nil}}
	if u != nil {
		end["usage"] = object{"output_tokens": u.out}
	}
	send("message_delta", end)
	send("message_stop", object{})
	return es
}

type gemini struct{}

func (gemini) finish(word string) string {
	return map[string]string{"complete": "STOP", "truncated": "MAX_TOKENS", "filter": "SAFETY", "refusal": "PROHIBITED_CONTENT", "tool": "STOP", "oddfinish": "BECAUSE"}[word]
}

func (gemini) whole(text, finish, model string, u usage) any {
	parts := []any{object{"text": text}}
	if model == "tool" {
		parts = []any{object{"functionCall": object{"id": "f1", "name": "get_weather", "args": object{"city": "東京"}}}}
	}
	return geminiChunk(parts, finish, model, u)
}

func geminiChunk(parts []any, finish, model string, u usage) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		c["finishReason"] = finish
	}
	r := object{"responseId": "r1", "modelVersion": model + "-001", "candidates": []any{c}}
	if u != nil {
		r["usageMetadata"] = object{"promptTokenCount": u.in, "cachedContentTokenCount": 3, "candidatesTokenCount": u.out - 2, "thoughtsTokenCount": 2, "totalTokenCount": u.in + u.out}
	}
	return r
}

func (d gemini) events(pieces []string, finish, model string, u usage) (es []event) {
	es = append(es, event{"", encode(geminiChunk([]any{object{"text": "thinking", "thought": true}}, "", model, nil))})
	for _, p := range pieces {
		es = append(es, event{"", encode(geminiChunk([]any{object{"text": p}}, "", model, nil))})
	}
	if finish == "" {
		return es
	}
	if model == "tool" {
		return append(es[:1], event{"", encode(d.whole("", finish, model, u))})
	}
	return append(es, event{"", encode(geminiChunk([]any{object{"text": ""}}, finish, model, u))})
}

package clients

import (
	"context"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"
)

type openAI struct{ c openai.Client }

func (o openAI) params(model, prompt string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}}
}

func (o openAI) whole(ctx context.Context, model, prompt string) (s said, err error) {
	p := o.params(model, prompt)
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	r, err := o.c.Chat.Completions.New(ctx, p)
	if err != nil {
		return s, err
	}
	return o.said(r), nil
}

func (o openAI) stream(ctx context.Context, model, prompt string) (said, error) {
	st := o.c.Chat.Completions.NewStreaming(ctx, o.params(model, prompt))
	defer st.Close()
	acc := openai.ChatCompletionAccumulator{}
	for st.Next() {
		acc.AddChunk(st.Current())
	}
	return o.said(&acc.ChatCompletion), st.Err()
}

func (openAI) said(r *openai.ChatCompletion) (s said) {
	s.in, s.out = r.Usage.PromptTokens, r.Usage.CompletionTokens
	if len(r.Choices) == 0 {
		return s
	}
	c := r.Choices[0]
	s.text, s.finish, s.refusal = c.Message.Content, c.FinishReason, c.Message.Refusal
	for _, t := range c.Message.ToolCalls {
		s.tool, s.arguments = t.Function.Name, t.Function.Arguments
	}
	return s
}

func (openAI) read(err error) (status int, message string) {
	if e, ok := as[*openai.Error](err); ok {
		return e.StatusCode, e.Message
	}
	return 0, ""
}

type claude struct{ c anthropic.Client }

func (claude) params(model, prompt string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))}}
}

func (a claude) whole(ctx context.Context, model, prompt string) (s said, err error) {
	r, err := a.c.Messages.New(ctx, a.params(model, prompt))
	if err != nil {
		return s, err
	}
	return a.said(r), nil
}

func (a claude) stream(ctx context.Context, model, prompt string) (s said, err error) {
	st := a.c.Messages.NewStreaming(ctx, a.params(model, prompt))
	defer st.Close()
	m := anthropic.Message{}
	for st.Next() {
		if err := m.Accumulate(st.Current()); err != nil {
			return s, err
		}
	}
	return a.said(&m), st.Err()
}

func (claude) said(m *anthropic.Message) (s said) {
	s.finish, s.in, s.out = string(m.StopReason), m.Usage.InputTokens+m.Usage.CacheReadInputTokens, m.Usage.OutputTokens
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			s.text += b.Text
		case "tool_use":
			s.tool, s.arguments = b.Name, string(b.Input)
		}
	}
	return s
}

func (claude) read(err error) (status int, message string) {
	if e, ok := as[*anthropic.Error](err); ok {
		return e.StatusCode, e.Error() // which has the body
	}
	return 0, ""
}

type gemini struct{ c *genai.Client }

func (g gemini) whole(ctx context.Context, model, prompt string) (s said, err error) {
	r, err := g.c.Models.GenerateContent(ctx, model, genai.Text(prompt), nil)
	if err != nil {
		return s, err
	}
	s.add(r)
	return s, nil
}

func (g gemini) stream(ctx context.Context, model, prompt string) (s said, err error) {
	for r, err := range g.c.Models.GenerateContentStream(ctx, model, genai.Text(prompt), nil) {
		if err != nil {
			return s, err
		}
		s.add(r)
	}
	return s, nil
}

func (s *said) add(r *genai.GenerateContentResponse) {
	if u := r.UsageMetadata; u != nil {
		s.in, s.out = int64(u.PromptTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
	}
	for _, c := range r.Candidates {
		if c.FinishReason != "" {
			s.finish = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if !p.Thought {
				s.text += p.Text
			}
			if p.FunctionCall != nil {
				b, _ := json.Marshal(p.FunctionCall.Args)
				s.tool, s.arguments = p.FunctionCall.Name, string(b)
			}
		}
	}
}

func (gemini) read(err error) (status int, message string) {
	if e, ok := as[genai.APIError](err); ok {
		return e.Code, e.Message
	}
	return 0, ""
}

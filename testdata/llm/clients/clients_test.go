package clients

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"

	"github.com/retrace-dev/engine/plugins/llm/fault"
)

// said is what a client has understood.
type said struct {
	text, finish, refusal string
	tool, arguments       string
	in, out               int64
}

// client asks once, by the official client of a provider.
type client interface {
	whole(ctx context.Context, model, prompt string) (said, error)
	stream(ctx context.Context, model, prompt string) (said, error)
	read(err error) (status int, message string)
}

func clients(t *testing.T, s *fault.Server) map[string]client {
	t.Helper()
	g, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]client{
		"openai":    openAI{openai.NewClient(openaioption.WithBaseURL(s.URL+"/v1"), openaioption.WithAPIKey("key"), openaioption.WithMaxRetries(0))},
		"anthropic": claude{anthropic.NewClient(anthropicoption.WithBaseURL(s.URL), anthropicoption.WithAPIKey("key"), anthropicoption.WithMaxRetries(0))},
		"gemini":    gemini{g},
	}
}

// each runs f with every client, whole and streamed, each with a server of its
// own.
func each(t *testing.T, f func(t *testing.T, name string, c client, s *fault.Server, ask func(model, prompt string) (said, error))) {
	t.Helper()
	for _, name := range []string{"openai", "anthropic", "gemini"} {
		for _, how := range []string{"whole", "stream"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := fault.New()
				t.Cleanup(s.Close)
				c := clients(t, s)[name]
				f(t, name, c, s, func(model, prompt string) (said, error) {
					if how == "whole" {
						return c.whole(t.Context(), model, prompt)
					}
					return c.stream(t.Context(), model, prompt)
				})
			})
		}
	}
}

const text = `{"label":"débogage 虫 🏴"}`

func TestAnswers(t *testing.T) {
	t.Parallel()
	finish := map[string]map[string]string{
		"ok":        {"openai": "stop", "anthropic": "end_turn", "gemini": "STOP"},
		"truncated": {"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"},
		"filter":    {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"},
	}
	each(t, func(t *testing.T, name string, _ client, s *fault.Server, ask func(string, string) (said, error)) {
		for word, by := range finish {
			got, err := ask(word, "say "+text)
			if err != nil {
				t.Errorf("%s: %v", word, err)
				continue
			}
			if word == "ok" && got.text != text || word != "ok" && (got.text == "" || got.text == text || !strings.HasPrefix(text, got.text)) {
				t.Errorf("%s: text %q", word, got.text)
			}
			if got.finish != by[name] {
				t.Errorf("%s: finish reason %q, want %q", word, got.finish, by[name])
			}
			if got.in == 0 || got.out != 7 {
				t.Errorf("%s: %d tokens in, %d out", word, got.in, got.out)
			}
		}
		if n := len(s.Requests()); n != len(finish) {
			t.Errorf("%d requests", n)
		}
	})
}

func TestTools(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, _ client, _ *fault.Server, ask func(string, string) (said, error)) {
		got, err := ask("tool", "weather?")
		if err != nil || got.tool != "get_weather" || got.arguments != `{"city":"東京"}` {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name string, _ client, _ *fault.Server, ask func(string, string) (said, error)) {
		got, err := ask("refusal", "say no")
		want := map[string]string{"openai": "stop", "anthropic": "refusal", "gemini": "PROHIBITED_CONTENT"}[name]
		if err != nil || got.finish != want || name == "openai" && got.refusal != "I cannot help with that." {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name string, c client, _ *fault.Server, ask func(string, string) (said, error)) {
		for word, f := range fault.Failures {
			_, err := ask(word, "hi")
			if err == nil {
				t.Errorf("%s succeeds", word)
				continue
			}
			want := f.Status
			if name == "gemini" && want == 529 {
				want = http.StatusServiceUnavailable // it has no 529
			}
			if status, message := c.read(err); status != want || !strings.Contains(message, f.Message) {
				t.Errorf("%s: the client reads %d, %q (%v)", word, status, message, err)
			}
		}
	})
}

// TestBroken: what breaks off is an error for the clients, or an answer without
// a finish reason.
func TestBroken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, _ client, _ *fault.Server, ask func(string, string) (said, error)) {
		for _, word := range []string{"reset", "early", "malformed", "cut", "nofinish", "errorevent"} {
			if got, err := ask(word, "say "+text); err == nil && got.finish != "" {
				t.Errorf("%s is an answer: %+v", word, got)
			}
		}
	})
}

// as finds the error of a client in err.
func as[E error](err error) (e E, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

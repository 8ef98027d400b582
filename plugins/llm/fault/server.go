// Package fault is a server that speaks the dialects of OpenAI, Anthropic and
// Gemini, and fails in every way that servers of models do. It is for tests.
//
// What it does is said by the name of the model, so that a flow can say it: the
// words of "overloaded,truncated,ok" are what the first, the second and every
// further request that names this model gets. The words are in Words.
//
// # Design
//
// Why is it not a fake of the client's own reading? Its fidelity is proved from
// the other side: the official Go clients of the three providers talk to it, in
// the module testdata/llm/clients.
//
// Why does it wait for the client to go, and not for a time? A test that must
// see a timeout then needs no race between two clocks.
package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is started by New. It is safe for concurrent use.
type Server struct {
	URL string // without a path

	http  *httptest.Server
	mu    sync.Mutex
	asked []Request
	times map[string]int // requests by model
}

// Request is one that arrived, in any state.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         json.RawMessage
	Model        string
	Texts        []string // of the conversation; the last is what is asked
	Word         string   // what it was given
}

// New starts a server. A good answer is what follows a line's beginning "say " in
// the last text, or "always say " in any; without one, the least value that fits
// the schema of the request. Close ends the server.
func New() *Server {
	s := &Server{times: map[string]int{}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Close ends the server and whatever still waits.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests are all that arrived so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// dialect writes what one family of servers says.
type dialect interface {
	whole(text, finish, model string, usage usage) any
	events(pieces []string, finish, model string, usage usage) []event
	failure(f *Failure) any
	finish(word string) string // the finish reason for a word
}

type event struct{ name, data string }

// usage is what is counted; nil is not told.
type usage *struct{ in, out int }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	q := Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Texts: texts(body)}
	var asked struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &asked)
	var d dialect
	switch path := r.URL.Path; {
	case r.Method == "GET" && strings.HasSuffix(path, "/models"):
		s.keep(&q)
		models(w, path)
		return
	case path == "/v1/chat/completions":
		d = openAI{}
	case path == "/v1/messages":
		d = anthropic{}
	case strings.HasPrefix(path, "/v1beta/models/"):
		name := strings.TrimPrefix(path, "/v1beta/models/")
		k := max(strings.LastIndexByte(name, ':'), 0) // a word has colons of its own
		asked.Model, asked.Stream = name[:k], name[k:] == ":streamGenerateContent"
		d = gemini{}
	default:
		s.keep(&q)
		http.NotFound(w, r)
		return
	}
	q.Model = asked.Model
	s.keep(&q)
	c := &call{w: w, r: r, d: d, q: &q, stream: asked.Stream, text: say(q.Texts, body)}
	c.play()
}

// keep records a request and chooses its word.
func (s *Server) keep(q *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.Split(q.Model, ",")
	q.Word = words[min(s.times[q.Model], len(words)-1)]
	s.times[q.Model]++
	s.asked = append(s.asked, *q)
}

func models(w http.ResponseWriter, path string) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/v1beta/") {
		fmt.Fprint(w, `{"models":[{"name":"models/ok"}]}`)
		return
	}
	fmt.Fprint(w, `{"object":"list","data":[{"id":"ok","object":"model","type":"model"}],"has_more":false}`)
}

// texts are those of a request, in order: what the model is asked is the last.
func texts(body []byte) (all []string) {
	var q struct {
		Messages []struct{ Content any } `json:"messages"`
		Contents []struct{ Parts any }   `json:"contents"`
	}
	if json.Unmarshal(body, &q) != nil {
		return nil
	}
	var turns []any
	for _, m := range q.Messages {
		turns = append(turns, m.Content)
	}
	for _, c := range q.Contents {
		turns = append(turns, c.Parts)
	}
	for _, turn := range turns {
		if s, ok := turn.(string); ok {
			all = append(all, s)
		}
		parts, _ := turn.([]any)
		for _, p := range parts {
			if m, ok := p.(map[string]any); ok {
				if s, ok := m["text"].(string); ok {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// hang waits until the client has gone.
func hang(r *http.Request) { <-r.Context().Done() }

// reset breaks the connection without a goodbye.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// inAMinute is a date as Retry-After has it.
func inAMinute() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) }

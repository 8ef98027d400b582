package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// call is one request and how it is answered.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	d      dialect
	q      *Request
	stream bool
	text   string
}

// Words are what a model may be called, and what it then does. Beside them are
// the failing statuses in Failures.
var Words = map[string]string{
	"ok":          "a good answer",
	"empty":       "an answer without text",
	"truncated":   "half an answer, with the finish reason for that",
	"filter":      "half an answer, with the finish reason of a content filter",
	"refusal":     "the model refuses",
	"oddfinish":   "a finish reason that is in no documentation",
	"nofinish":    "a stream that ends without a finish reason",
	"cut":         "a clean end in the middle of a JSON text",
	"reset":       "the connection breaks in the middle of the answer",
	"early":       "the connection breaks before any reply",
	"slow":        "the reply's head, then no token until the client goes",
	"silent":      "not even a head until the client goes",
	"ping":        "pings without end in place of tokens",
	"stall":       "half an answer, then nothing until the client goes",
	"malformed":   "what should be JSON is none",
	"html":        "a web page, with status 200",
	"errorevent":  "an error in the middle of a stream",
	"wrong":       "a JSON value that no schema wants",
	"fenced":      "the answer as a block of Markdown",
	"wrongusage":  "negative counts of tokens",
	"nousage":     "no counts of tokens",
	"onepiece":    "no stream, though one was asked for",
	"tool":        "a call of the tool get_weather",
	"redirect":    "another address",
	"unavailable": "status 503 while the model is loaded",
}

func (c *call) play() {
	word, after, _ := strings.Cut(c.q.Word, ":")
	if f, ok := Failures[word]; ok {
		c.fail(&f, after)
		return
	}
	counted := usage(&struct{ in, out int }{11, 7})
	finish := "complete"
	switch word {
	case "empty":
		c.text = ""
	case "truncated", "filter", "refusal", "oddfinish":
		c.text, finish = half(c.text), word
	case "wrong":
		c.text = `[{"no":"schema wants this"}]`
	case "fenced":
		c.text = "```json\n" + c.text + "\n```"
	case "wrongusage":
		counted = usage(&struct{ in, out int }{-11, 7})
	case "nousage":
		counted = nil
	case "tool":
		finish = "tool"
	case "silent":
		hang(c.r)
		return
	case "early":
		reset(c.w)
		return
	case "redirect":
		http.Redirect(c.w, c.r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	case "html":
		c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(c.w, "<!doctype html><title>Sign in to the network</title>")
		return
	case "ok", "nofinish", "cut", "reset", "slow", "ping", "stall", "malformed", "errorevent", "onepiece":
	default:
		c.fail(&Failure{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found", Anthropic: "not_found_error", Gemini: "NOT_FOUND", Message: fmt.Sprintf("the model %q does not exist", c.q.Word)}, "")
		return
	}
	if word == "nofinish" {
		finish = ""
	}
	if c.stream && word != "onepiece" {
		c.playStream(word, finish, counted)
		return
	}
	b, _ := json.Marshal(c.d.whole(c.text, c.d.finish(finish), c.q.Word, counted))
	c.w.Header().Set("Content-Type", "application/json")
	switch word {
	case "cut":
		_, _ = c.w.Write(b[:len(b)/2])
	case "malformed":
		fmt.Fprint(c.w, `{"choices":[{]}`)
	case "reset":
		_, _ = c.w.Write(b[:len(b)/2])
		_ = http.NewResponseController(c.w).Flush()
		reset(c.w)
	case "slow", "ping", "stall":
		_ = http.NewResponseController(c.w).Flush()
		hang(c.r)
	case "errorevent":
		_ = json.NewEncoder(c.w).Encode(c.d.failure(&overloaded))
	default:
		_, _ = c.w.Write(b)
	}
}

var overloaded = Failures["overloaded"]

// playStream sends the answer event by event; what goes wrong does so after half
// of the text.
func (c *call) playStream(word, finish string, counted usage) {
	c.w.Header().Set("Content-Type", "text/event-stream")
	text := c.text
	broken := strings.Contains(" cut reset stall malformed errorevent nofinish ", " "+word+" ")
	if broken {
		text = half(text)
	}
	events := c.d.events(pieces(text), c.d.finish(finish), c.q.Word, counted)
	flush := http.NewResponseController(c.w).Flush
	switch word {
	case "slow":
		c.send(events[0]) // a role, no text
		_ = flush()
		hang(c.r)
		return
	case "ping":
		for c.r.Context().Err() == nil {
			fmt.Fprint(c.w, ": ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n")
			if flush() != nil {
				return
			}
		}
		return
	}
	for k, e := range events {
		if broken && finish != "" && k == 1+len(pieces(text)) {
			break // before the stream says that it ends
		}
		c.send(e)
		_ = flush()
	}
	switch word {
	case "cut":
		fmt.Fprint(c.w, `data: {"choices":[{"delta":{"content":"ca`)
	case "reset":
		reset(c.w)
	case "stall":
		hang(c.r)
	case "malformed":
		fmt.Fprint(c.w, "data: {\"choices\":[{]}\n\n")
	case "errorevent":
		b, _ := json.Marshal(c.d.failure(&overloaded))
		c.send(event{"error", string(b)})
	}
}

func (c *call) send(e event) {
	if e.name != "" {
		fmt.Fprintf(c.w, "event: %s\n", e.name)
	}
	fmt.Fprintf(c.w, "data: %s\n\n", e.data)
}

func half(text string) string {
	n := len(text) / 2
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// pieces are a text as tokens of a few characters.
func pieces(text string) (ps []string) {
	const size = 5
	rs := []rune(text)
	for len(rs) > size {
		ps = append(ps, string(rs[:size]))
		rs = rs[size:]
	}
	return append(ps, string(rs))
}

package main

import (
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// dialect is how one family of servers says things.
type dialect interface {
	// request is what asks q.
	request(c *config, q *question) (sdk.HTTPOp, any)
	// take reads a body, whole or one event of a stream, into a. Texts are
	// appended. The error is an *sdk.Error for what the server says is wrong,
	// any other for what it cannot have meant.
	take(data []byte, a *answer) error
	// outcome is what a finish reason means.
	outcome(reason string) outcome
	// list is the path that lists the models, names reads its reply.
	list(c *config) sdk.HTTPOp
	names(body []byte) ([]string, error)
}

// outcome is what a finish reason means, whatever its name.
type outcome int

const (
	unknown   outcome = iota // a word that is in no table
	complete                 // the model had said what it wanted
	truncated                // it was cut off
	refused                  // by the model or by a filter
	malformed                // it called a tool in a way that nobody understands
	broken                   // the server gave up
)

// answer is what has come of an answer so far.
type answer struct {
	text    strings.Builder
	calls   []toolCall
	refusal strings.Builder // what the model says in place of an answer
	finish  string          // "" until the server says why it ended
	model   string
	id      string
	tokens  *tokens // the last that was told

	json      []byte
	arguments []*strings.Builder // of calls, while they are streamed
}

// tokens are counts as a server tells them: of the input what was new, what came
// out of its cache and what went into it; of the output also what was thought.
type tokens struct{ fresh, cached, written, output int64 }

// call is the k-th tool call, which may be streamed in pieces.
func (a *answer) call(k int) (*toolCall, *strings.Builder) {
	for len(a.calls) <= k {
		a.calls = append(a.calls, toolCall{})
		a.arguments = append(a.arguments, &strings.Builder{})
	}
	return &a.calls[k], a.arguments[k]
}

// maxCalls bounds the index that a server gives a tool call.
const maxCalls = 1000

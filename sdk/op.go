package sdk

import (
	"bytes"
	"context"
	"encoding/json"
)

// Operation names: the "op" of a message to Host.Call. An operation the host
// does not know is answered with code "unsupported_op".
const (
	OpLog      = "log"      // LogOp; reply {}
	OpProgress = "progress" // ProgressOp; reply {}
	OpEmit     = "emit"     // EmitOp; reply {}
	OpUsage    = "usage"    // UsageOp; reply {}
	OpRespond  = "respond"  // RespondOp; reply {}

	OpHTTP        = "http"         // HTTPOp and the body; reply HTTPReply and the body
	OpStreamRead  = "stream_read"  // StreamReadOp; reply StreamReply and bytes
	OpStreamClose = "stream_close" // StreamCloseOp; reply {}
	OpBlobPut     = "blob_put"     // BlobPutOp and bytes; reply Blob, or BlobPart while there is more
	OpBlobGet     = "blob_get"     // BlobGetOp; reply BlobSlice and bytes
)

// CodeUnsupportedOp is the code of the reply to an unknown operation.
const CodeUnsupportedOp = "unsupported_op"

// LogOp writes one line to the run's log. Level is debug, info, warn or error.
type LogOp struct {
	Op      string         `json:"op"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
}

// ProgressOp tells how far the attempt is: Fraction from 0 to 1.
type ProgressOp struct {
	Op       string  `json:"op"`
	Fraction float64 `json:"fraction"`
	Message  string  `json:"message,omitempty"`
}

// EmitOp shows a piece of output while it is made. It is never stored; a slow
// watcher loses chunks.
type EmitOp struct {
	Op    string `json:"op"`
	Chunk string `json:"chunk"`
}

// UsageOp adds to the attempt's usage; it counts even if the attempt fails.
type UsageOp struct {
	Op string `json:"op"`
	Usage
}

// RespondOp gives the response early, for programs that want stdout for
// themselves. The last one wins.
type RespondOp struct {
	Op       string   `json:"op"`
	Response Response `json:"response"`
}

// StreamReadOp takes what has arrived of a stream: at least one byte unless the
// stream has ended, at most Max (0 and more than 1 MiB mean 1 MiB).
type StreamReadOp struct {
	Op        string `json:"op"`
	Stream    int    `json:"stream"`
	Max       int    `json:"max,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"` // the stream ends if nothing arrives for so long; 0 = what the attempt has left
}

// StreamReply goes before the bytes of a stream. After EOF the stream is closed.
type StreamReply struct {
	EOF bool `json:"eof"`
}

// StreamCloseOp gives up the rest of a stream. Closing twice is harmless.
type StreamCloseOp struct {
	Op     string `json:"op"`
	Stream int    `json:"stream"`
}

// Blob is a reference to large or binary data. It stands in an input or output
// in place of the data.
type Blob struct {
	Digest Digest `json:"$blob"`
	Size   int64  `json:"size"`
	Type   string `json:"type,omitempty"` // media type
}

// BlobPutOp keeps the raw bytes that follow it as a blob. A blob larger than one
// message is sent in parts: each but the last has More, each but the first has
// the Part that the reply before it gave.
type BlobPutOp struct {
	Op   string `json:"op"`
	Type string `json:"type,omitempty"`
	Part int    `json:"part,omitempty"`
	More bool   `json:"more,omitempty"`
}

// BlobPart answers a BlobPutOp with More.
type BlobPart struct {
	Part int `json:"part"`
}

// BlobGetOp reads at most Max bytes (0 and more than 1 MiB mean 1 MiB) of a blob
// that the attempt put or received, from Offset on.
type BlobGetOp struct {
	Op     string `json:"op"`
	Digest Digest `json:"digest"`
	Offset int64  `json:"offset,omitempty"`
	Max    int    `json:"max,omitempty"`
}

// BlobSlice goes before the bytes that blob_get gives; EOF says that they are
// the last.
type BlobSlice struct {
	EOF bool `json:"eof"`
}

// Reply is the answer to an operation: Ok or Error.
type Reply struct {
	Ok    json.RawMessage `json:"ok,omitempty"`
	Error *Error          `json:"error,omitempty"`
}

// Operate calls one operation: op is one of the Op structs, data are the raw
// bytes that follow the message (nil for none). It returns the reply's "ok"
// and the bytes that followed it; a refused operation is returned as *Error.
func Operate(ctx context.Context, host Host, op any, data []byte) (ok json.RawMessage, body []byte, err error) {
	msg, err := Marshal(op)
	if err != nil {
		return nil, nil, err
	}
	rep, err := host.Call(ctx, Join(msg, data))
	if err != nil {
		return nil, nil, err
	}
	head, body := Split(rep)
	var r Reply
	if err := Unmarshal(head, &r); err != nil {
		return nil, nil, &Error{Class: ClassProtocol, Message: "reply of the host: " + err.Error()}
	}
	if r.Error != nil {
		return nil, body, r.Error
	}
	return r.Ok, body, nil
}

// Log writes a line to the run's log and ignores a refusal.
func Log(ctx context.Context, host Host, level, message string, fields map[string]any) {
	_, _, _ = Operate(ctx, host, LogOp{OpLog, level, message, fields}, nil)
}

// Join appends raw data to a JSON message, after one zero byte (which JSON
// text never holds). Without data the message is returned as it is.
func Join(msg, data []byte) []byte {
	if data == nil {
		return msg
	}
	return append(append(msg[:len(msg):len(msg)], 0), data...)
}

// Split undoes Join. The results share b's memory; data is nil when b holds no
// zero byte.
func Split(b []byte) (msg, data []byte) {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

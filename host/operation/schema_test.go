package operation

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrace-dev/engine/sdk"
)

// checked is a Host whose messages, both ways, are held against their schemas.
type checked struct {
	t *testing.T
	*Host
}

func (c checked) Call(ctx context.Context, msg []byte) ([]byte, error) {
	c.t.Helper()
	head, _ := sdk.Split(msg)
	var op struct{ Op string }
	if err := sdk.Unmarshal(head, &op); err != nil {
		c.t.Fatal(err)
	}
	c.check("", op.Op, head)
	reply, err := c.Host.Call(ctx, msg)
	if err == nil {
		head, _ = sdk.Split(reply)
		c.check("#/$defs/reply", op.Op, head)
	}
	return reply, err
}

func (c checked) check(part, op string, text []byte) {
	c.t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile("../../sdk/schema/op/" + op + ".schema.json" + part)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		c.t.Errorf("%s%s: %s: %v", op, part, text, err)
	}
}

// TestRepliesFitTheirSchemas: every operation is answered as its schema says, and
// so is one that is refused.
func TestRepliesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	w := newWeb(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			rw.Header().Set("Retry-After", "2")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = rw.Write([]byte("中文"))
	})
	host := checked{t, w.host(t, func(o *Options) { o.Blobs = &MemoryBlobs{} })}
	answered := map[string]bool{}
	do := func(name string, op any, data []byte, ok any) {
		t.Helper()
		text, _, err := sdk.Operate(t.Context(), host, op, data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answered[name] = true
		if ok != nil {
			if err := sdk.Unmarshal(text, ok); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(sdk.OpLog, sdk.LogOp{Op: sdk.OpLog, Level: "info", Message: "m"}, nil, nil)
	do(sdk.OpProgress, sdk.ProgressOp{Op: sdk.OpProgress, Fraction: 1}, nil, nil)
	do(sdk.OpEmit, sdk.EmitOp{Op: sdk.OpEmit, Chunk: "c"}, nil, nil)
	do(sdk.OpUsage, sdk.UsageOp{Op: sdk.OpUsage, Usage: sdk.Usage{Model: "m", Calls: 1}}, nil, nil)
	do(sdk.OpRespond, sdk.RespondOp{Op: sdk.OpRespond, Response: sdk.Response{Output: []byte(`1`)}}, nil, nil)
	do(sdk.OpHTTP, sdk.HTTPOp{Op: sdk.OpHTTP, URL: w.URL}, nil, nil)
	do(sdk.OpHTTP, sdk.HTTPOp{Op: sdk.OpHTTP, URL: w.URL + "/busy"}, nil, nil)
	var reply sdk.HTTPReply
	do(sdk.OpHTTP, sdk.HTTPOp{Op: sdk.OpHTTP, URL: w.URL, Stream: true}, nil, &reply)
	do(sdk.OpStreamRead, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: reply.Stream}, nil, nil)
	do(sdk.OpStreamClose, sdk.StreamCloseOp{Op: sdk.OpStreamClose, Stream: reply.Stream}, nil, nil)
	var part sdk.BlobPart
	do(sdk.OpBlobPut, sdk.BlobPutOp{Op: sdk.OpBlobPut, More: true}, []byte("a"), &part)
	var blob sdk.Blob
	do(sdk.OpBlobPut, sdk.BlobPutOp{Op: sdk.OpBlobPut, Part: part.Part, Type: "text/plain"}, []byte("b"), &blob)
	do(sdk.OpBlobGet, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: blob.Digest}, nil, nil)
	for name := range operations {
		if !answered[name] {
			t.Errorf("operation %s was not asked", name)
		}
	}
	_, _, err := sdk.HTTP(t.Context(), host, sdk.HTTPOp{URL: "http://not.granted.example"}, nil)
	wantError(t, err, sdk.ClassSandbox, "host_denied")
	_, _, err = sdk.Operate(t.Context(), host, sdk.StreamReadOp{Op: sdk.OpStreamRead, Stream: 99}, nil)
	wantError(t, err, sdk.ClassInvalidInput, "")
}

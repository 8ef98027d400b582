package hcl

import (
	"net/http"

	"github.com/retrace-dev/engine/sdk"
	"github.com/zclconf/go-cty/cty"
)

// blobType is what fileblob gives: a reference, as sdk.Blob is encoded.
var blobType = cty.Object(map[string]cty.Type{"$blob": cty.String, "size": cty.Number, "type": cty.String})

// fileBlob is the reference to a file's content, which FileBlob then knows. Its
// media type is what the content begins with; names do not count, as in keys.
func (e *Evaluator) fileBlob(b []byte) cty.Value {
	d := sdk.Sum(b)
	e.blobs.LoadOrStore(d, b)
	return cty.ObjectVal(map[string]cty.Value{
		"$blob": cty.StringVal(d.String()),
		"size":  cty.NumberIntVal(int64(len(b))),
		"type":  cty.StringVal(http.DetectContentType(b)),
	})
}

// FileBlob returns the content of a file that fileblob has given a reference to
// so far; nil for any other digest. It must not be changed.
func (e *Evaluator) FileBlob(d sdk.Digest) []byte {
	if b, ok := e.blobs.Load(d); ok {
		return b.([]byte)
	}
	return nil
}

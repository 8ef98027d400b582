package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retrace-dev/engine/sdk"
)

// documentFormat names the form of a Document and its version.
const documentFormat = "engine.checkpoint/1"

// ErrDocument is in the chain of every error of ReadDocument.
var ErrDocument = errors.New("not a checkpoint that can be imported")

// Document is one checkpoint outside of a store: the record with its output, as
// JSON that can be kept in a file and reformatted. ReadDocument and NewDocument
// make one.
type Document struct {
	workflow string
	record   *Record
	output   Sanitized
	body     []byte
}

// documentBody is a Document's JSON form. The output is a string, so that its
// bytes survive whoever formats the JSON around it.
type documentBody struct {
	Format   string     `json:"format"`
	Workflow string     `json:"workflow"`
	Record   *Record    `json:"record"`
	Output   *string    `json:"output,omitempty"` // JSON text; none for a skipped step
	Digest   sdk.Digest `json:"digest,omitzero"`  // Merkle digest over all the rest
}

// digest is what Digest must be.
func (b documentBody) digest() (sdk.Digest, error) {
	b.Digest = sdk.Digest{}
	text, err := sdk.Marshal(b)
	if err != nil {
		return sdk.Digest{}, err
	}
	return ValueDigest(text)
}

// NewDocument makes a document of a record and its output, as Store.Record and
// Store.Data give them; data is nil for a skipped step. A husk has nothing to
// give, which is an error of ErrNotFound.
func NewDocument(workflow string, r *Record, data json.RawMessage) (*Document, error) {
	b := documentBody{Format: documentFormat, Workflow: workflow, Record: r}
	if r.Outcome == Succeeded {
		if data == nil {
			return nil, fmt.Errorf("output of checkpoint %s: %w; it was not kept", r.ID, ErrNotFound)
		}
		blobs, err := Blobs(data)
		if err != nil {
			return nil, fmt.Errorf("output of checkpoint %s: %w", r.ID, err)
		}
		if len(blobs) > 0 {
			return nil, fmt.Errorf("output of checkpoint %s refers to blobs, which a document cannot hold; where it is imported the step would run again anyway", r.ID)
		}
		text := string(data)
		b.Output = &text
	}
	var err error
	if b.Digest, err = b.digest(); err != nil {
		return nil, fmt.Errorf("export checkpoint %s: %w", r.ID, err)
	}
	text, err := sdk.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("export checkpoint %s: %w", r.ID, err)
	}
	return ReadDocument(text) // what cannot be read again is not given out
}

// ReadDocument reads what Bytes gave, and verifies it: the digest of the whole,
// of the output, and that the ID follows from them.
func ReadDocument(text []byte) (*Document, error) {
	refuse := func(format string, args ...any) (*Document, error) {
		return nil, fmt.Errorf("%w: %w", ErrDocument, fmt.Errorf(format, args...))
	}
	var b documentBody
	if err := sdk.Unmarshal(text, &b); err != nil {
		return refuse("%w", err)
	}
	if b.Format != documentFormat {
		return refuse("its format is %q, this engine reads %q", b.Format, documentFormat)
	}
	if b.Workflow == "" || b.Record == nil || b.Record.Step == "" || int(b.Record.Outcome) >= len(outcomeNames) {
		return refuse("workflow, record or step is missing, or the outcome is unknown")
	}
	if d, err := b.digest(); err != nil {
		return refuse("%w", err)
	} else if d != b.Digest {
		return refuse("its digest is %s, that of its content %s: it was changed", b.Digest, d)
	}
	d := &Document{workflow: b.Workflow, record: b.Record, body: text}
	r := d.record
	if r.Outcome != Succeeded {
		if b.Output != nil || r.ID != NewID(r.Plan, absentDigest) {
			return refuse("a skipped step has an output, or an ID that is not its own")
		}
		return d, nil
	}
	if b.Output == nil {
		return refuse("it has no output")
	}
	var err error
	if d.output, err = new(Sanitizer).Sanitize(json.RawMessage(*b.Output), r.Context.Reported); err != nil {
		return refuse("%w", err)
	}
	if d.output.digest != r.Output || d.output.sum != r.Data.SHA256 || int64(len(d.output.data)) != r.Data.Size {
		return refuse("its output is not the one that its record names")
	}
	if r.ID != NewID(r.Content, r.Output) {
		return refuse("its ID %s does not follow from content key and output", r.ID)
	}
	return d, nil
}

// Bytes returns the JSON text.
func (d *Document) Bytes() []byte { return d.body }

// Head returns the record's head, with the Seqs of no store. It must not be
// changed.
func (d *Document) Head() *Head { return &d.record.Head }

// Workflow returns the name of the workflow that the checkpoint belongs to.
func (d *Document) Workflow() string { return d.workflow }

// Batch returns a batch that commits the checkpoint for a tenant: a record like
// any other, found by its keys. It keeps its run, which this store may not have,
// and its times; so what has expired is due, and what may be reused only in its
// run is not reused.
func (d *Document) Batch(tenant string) *Batch {
	b, r := NewBatch(tenant, d.workflow), *d.record
	if r.Outcome != Succeeded {
		b.PutSkip(&r)
		return b
	}
	b.PutCheckpoint(&r, d.output)
	return b
}

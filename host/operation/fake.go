package operation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/retrace-dev/engine/sdk"
)

// Recorder is a Sink for tests: it keeps what it received as lines of text.
// The zero value is ready; it is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	lines []string
}

var _ Sink = (*Recorder)(nil)

// Lines returns what was received so far, one line per call, such as
// `log info "hello" map[]`, `progress 0.5 "half"`, `emit "a"`.
func (r *Recorder) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func (r *Recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// Log records one line.
func (r *Recorder) Log(level, message string, fields map[string]any) {
	r.add("log %s %q %v", level, message, fields)
}

// Progress records one line.
func (r *Recorder) Progress(fraction float64, message string) {
	r.add("progress %v %q", fraction, message)
}

// Emit records one line.
func (r *Recorder) Emit(chunk string) { r.add("emit %q", chunk) }

// Usage records one line.
func (r *Recorder) Usage(u sdk.Usage) { r.add("usage %+v", u) }

// MemoryBlobs is a Blobs for tests. The zero value is ready.
type MemoryBlobs struct {
	mu   sync.Mutex
	data map[sdk.Digest][]byte
	open int // blobs that were begun and neither committed nor discarded
}

var _ Blobs = (*MemoryBlobs)(nil)

// Unfinished is how many blobs were begun and neither committed nor discarded.
func (m *MemoryBlobs) Unfinished() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Create begins a blob.
func (m *MemoryBlobs) Create(context.Context) (BlobWriter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &memoryBlob{blobs: m}, nil
}

// Open reads a blob.
func (m *MemoryBlobs) Open(_ context.Context, d sdk.Digest, offset int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.data[d]
	if !ok {
		return nil, fmt.Errorf("there is no blob %s", d)
	}
	return io.NopCloser(bytes.NewReader(b[min(offset, int64(len(b))):])), nil
}

type memoryBlob struct {
	bytes.Buffer
	blobs *MemoryBlobs
	ended bool
}

func (b *memoryBlob) end(keep bool) sdk.Digest {
	b.blobs.mu.Lock()
	defer b.blobs.mu.Unlock()
	d := sdk.Sum(b.Bytes())
	if !b.ended {
		b.ended = true
		b.blobs.open--
	}
	if keep {
		if b.blobs.data == nil {
			b.blobs.data = map[sdk.Digest][]byte{}
		}
		b.blobs.data[d] = b.Bytes()
	}
	return d
}

// Commit keeps the blob.
func (b *memoryBlob) Commit() (sdk.Digest, error) { return b.end(true), nil }

// Discard drops it.
func (b *memoryBlob) Discard() { b.end(false) }

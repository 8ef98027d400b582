package wasm

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one attempt: address space for all it may ever
// use is taken at once and filled by the system as it is touched, so that a
// fresh instance costs what it touches and growing never copies.
type memory struct {
	limit   uint64
	buf     []byte // of limit bytes, nil until allocated
	refused bool   // the guest asked for more than limit
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

func newMemory(limit int64) *memory { return &memory{limit: uint64(limit)} }

// Allocate is called by wazero once per instance.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	m.buf = reserve(min(m.limit, most))
	return m
}

// Reallocate returns nil for more than the limit: memory.grow then gives -1, and
// if the guest dies of it, the limit is named as the cause.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.buf)) {
		m.refused = true
		return nil
	}
	return m.buf[:size:size]
}

// Free may be called more than once.
func (m *memory) Free() {
	if m.buf != nil {
		release(m.buf)
		m.buf = nil
	}
}

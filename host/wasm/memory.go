package wasm

import (
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// keepUsed is how much an attempt may have used of a memory that is kept for
// the next one. Clearing used memory is far cheaper than having the system map
// and fault in fresh pages (1.1 MiB: 6 µs against 200 µs on a virtual machine);
// beyond some size it would make sparse memories dense.
const keepUsed = 8 << 20

// memories keeps cleared address space between attempts of one program.
type memories struct {
	mu     sync.Mutex
	kept   [][]byte
	closed bool
}

// take returns n zero bytes.
func (p *memories) take(n uint64) []byte {
	p.mu.Lock()
	if last := len(p.kept) - 1; last >= 0 && uint64(len(p.kept[last])) == n {
		b := p.kept[last]
		p.kept = p.kept[:last]
		p.mu.Unlock()
		return b
	}
	p.mu.Unlock()
	return reserve(n)
}

// give takes b back, of which the first used bytes may not be zero.
func (p *memories) give(b []byte, used uint64) {
	if used <= keepUsed {
		clear(b[:used])
		p.mu.Lock()
		keep := !p.closed && len(p.kept) < runtime.GOMAXPROCS(0)
		if keep {
			p.kept = append(p.kept, b)
		}
		p.mu.Unlock()
		if keep {
			return
		}
	}
	release(b)
}

// close frees what is kept, and what is given back later.
func (p *memories) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, b := range p.kept {
		release(b)
	}
	p.kept = nil
}

// memory is the linear memory of one attempt: address space for all it may ever
// use is taken at once and filled by the system as it is touched, so growing
// never copies.
type memory struct {
	pool    *memories
	limit   uint64
	buf     []byte // all it may use, nil until allocated
	used    uint64 // the largest size so far
	refused bool   // the guest asked for more than limit
}

var (
	_ experimental.MemoryAllocator = (*memory)(nil)
	_ experimental.LinearMemory    = (*memory)(nil)
)

// Allocate is called by wazero once per instance.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	m.buf = m.pool.take(min(m.limit, most))
	return m
}

// Reallocate returns nil for more than the limit: memory.grow then gives -1, and
// if the guest dies of it, the limit is named as the cause.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.buf)) {
		m.refused = true
		return nil
	}
	m.used = max(m.used, size)
	return m.buf[:size:size]
}

// Free may be called more than once.
func (m *memory) Free() {
	if m.buf != nil {
		m.pool.give(m.buf, m.used)
		m.buf = nil
	}
}

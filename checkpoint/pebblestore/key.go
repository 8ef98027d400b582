package pebblestore

import (
	"encoding/binary"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Every key begins with its tenant, as length and bytes, so that no tenant's
// keys lie among another's and all of one can be dropped as a range. Then:
//
//	h workflow seq   head of a checkpoint       what Snapshot scans
//	c seq            workflow, context          what Record adds to the head
//	d seq            output                     removed to make a husk
//	b seq            which file holds a large output, instead of d
//	l seq            which blobs an output refers to
//	r run seq        workflow, run record
//	a run seq        attempt
//	i run seq        intent
//	f digest seq     text of a flow's file
//
// Names are length-prefixed too. The store's own keys begin with the empty
// tenant, which no batch can have.
const (
	kindHead    = 'h'
	kindContext = 'c'
	kindData    = 'd'
	kindBlob    = 'b'
	kindLinks   = 'l'
	kindRun     = 'r'
	kindAttempt = 'a'
	kindIntent  = 'i'
	kindFile    = 'f'
)

var (
	keyVersion = []byte{0, 'v'} // layout of the keys
	keyLast    = []byte{0, 'q'} // the last Seq, in every batch
)

// layoutVersion is the version of this layout. Version 1 had no b: its large
// outputs lie under d and are read from there. In sealedLayout every value but
// the store's own is sealed under its key, and digests go by other names.
const (
	layoutVersion = 2
	sealedLayout  = 3
)

func appendName(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func tenantPrefix(dst []byte, tenant string, kind byte) []byte {
	return append(appendName(dst, tenant), kind)
}

func namePrefix(dst []byte, tenant string, kind byte, name string) []byte {
	return appendName(tenantPrefix(dst, tenant, kind), name)
}

func filePrefix(dst []byte, tenant string, digest sdk.Digest) []byte {
	return namePrefix(dst, tenant, kindFile, string(digest[:]))
}

func appendSeq(dst []byte, seq checkpoint.Seq) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(seq))
}

// keySeq reads the Seq a key ends with.
func keySeq(key []byte) (checkpoint.Seq, bool) {
	if len(key) < 8 {
		return 0, false
	}
	return checkpoint.Seq(binary.BigEndian.Uint64(key[len(key)-8:])), true
}

// splitName takes a length-prefixed name off the front of a stored value.
func splitName(b []byte) (name string, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", nil, false
	}
	return string(b[w : w+int(n)]), b[w+int(n):], true
}

// prefixEnd is the first key after all keys that begin with prefix.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/retrace-dev/engine/checkpoint"
)

// headFile names the last sync known to have returned. It is one block of two
// slots, written in turn, so that a torn write leaves the other; a slot is a
// magic with its version, the Seq and a checksum. The block is never made
// longer or shorter, so that writing it is one fdatasync without metadata.
const (
	headFile  = "HEAD"
	headSize  = 4096
	slotSize  = 512
	slotMagic = "engHEAD\x01"
	slotBytes = len(slotMagic) + 8 + 8
)

func appendSlot(dst []byte, seq checkpoint.Seq) []byte {
	from := len(dst)
	dst = append(dst, slotMagic...)
	dst = appendSeq(dst, seq)
	sum := sha256.Sum256(dst[from:])
	return append(dst, sum[:8]...)
}

func decodeSlot(b []byte) (seq checkpoint.Seq, ok bool) {
	if len(b) < slotBytes {
		return 0, false
	}
	seq = checkpoint.Seq(binary.BigEndian.Uint64(b[len(slotMagic):]))
	return seq, bytes.Equal(appendSlot(nil, seq), b[:slotBytes])
}

// readHead gives the Seq that was durable when HEAD was last written; there is
// false if there is no HEAD.
func readHead(fsys vfs.FS, path string) (seq checkpoint.Seq, there bool, err error) {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	b := make([]byte, headSize)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	b = b[:n]
	for i := range 2 {
		if s, ok := decodeSlot(b[min(i*slotSize, n):]); ok {
			seq, there = max(seq, s), true
		}
	}
	if !there {
		return 0, false, fmt.Errorf("%w: %s: neither of its slots verifies; remove the file to open the store without knowing how far it had come", checkpoint.ErrCorrupt, path)
	}
	return seq, true, nil
}

// createHead makes the file in one step, so that a HEAD that is there is whole.
func createHead(fsys vfs.FS, dir string, seq checkpoint.Seq) error {
	path := fsys.PathJoin(dir, headFile)
	f, err := fsys.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	block := make([]byte, headSize)
	copy(block, appendSlot(nil, seq))
	_, err = f.Write(block)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}

// A durable Seq is in HEAD at once, and synced when the disk has been left alone for
// headQuiet, at the latest after headDelay. Each sync of HEAD delays one of the log,
// for the disk does one at a time: with one per step a chain of steps with effects
// that take no time lost a sixth of its speed (host BenchmarkDurable). A process that
// is killed leaves what it has written; after a power cut HEAD may be so much older.
const (
	headQuiet = time.Millisecond
	headDelay = 20 * time.Millisecond
)

// headWriter follows the syncs: it writes the newest durable Seq while the next
// sync is under way, since nobody waits for it.
type headWriter struct {
	f    vfs.File
	slot int64
	busy atomic.Bool         // a sync of the log is under way
	seqs chan checkpoint.Seq // the newest one, closed to end
	done chan struct{}
}

// startHead spares the slot that holds the newest Seq.
func startHead(fsys vfs.FS, dir string, newest checkpoint.Seq) (*headWriter, error) {
	path := fsys.PathJoin(dir, headFile)
	f, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	b := make([]byte, slotBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	w := &headWriter{f: f, seqs: make(chan checkpoint.Seq, 1), done: make(chan struct{})}
	if seq, ok := decodeSlot(b); ok && seq == newest {
		w.slot = 1
	}
	go w.loop()
	return w, nil
}

func (w *headWriter) loop() {
	defer close(w.done)
	// An error of the file has frozen the file system and so ended the store.
	due, dirty := time.NewTimer(headDelay), false
	var since time.Time // when what is not synced began to be
	defer due.Stop()
	for open := true; open; {
		var seq checkpoint.Seq
		select {
		case seq, open = <-w.seqs:
			if !open {
				break
			}
			// Into the slot that is not synced yet: the other one is whole.
			_, _ = w.f.WriteAt(appendSlot(nil, seq), w.slot*slotSize)
			if !dirty {
				dirty, since = true, time.Now()
			}
			due.Reset(min(headQuiet, headDelay-time.Since(since)))
		case <-due.C:
			if left := headDelay - time.Since(since); w.busy.Load() && left > 0 {
				due.Reset(min(headQuiet, left))
				break
			}
			w.sync(&dirty)
		}
	}
	w.sync(&dirty)
	_ = w.f.Close()
}

func (w *headWriter) sync(dirty *bool) {
	if *dirty {
		_ = w.f.SyncData()
		w.slot, *dirty = 1-w.slot, false
	}
}

// syncing says that a sync of the log begins; put ends it.
func (w *headWriter) syncing() { w.busy.Store(true) }

// put hands over a durable Seq; one sender.
func (w *headWriter) put(seq checkpoint.Seq) {
	w.busy.Store(false)
	select {
	case <-w.seqs:
	default:
	}
	w.seqs <- seq
}

// close waits until the last Seq is written.
func (w *headWriter) close() {
	close(w.seqs)
	<-w.done
}

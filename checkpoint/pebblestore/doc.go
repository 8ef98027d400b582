// Package pebblestore is the durable checkpoint.Store: one Pebble database in
// one directory, written by one process at a time.
//
// It keeps records in commit order, syncs them behind the run and reads them
// back verified. It does not decide what is kept for how long, nor what is
// reused. Nothing of Pebble leaves the package.
//
// # Design
//
// Why write-behind? A sync takes as long as thousands of short steps. Commit
// writes to the log without one and returns; a single goroutine syncs what has
// gathered meanwhile. A crash loses a suffix of the order and never the middle,
// so what is left is a state the run was in. What must not be lost waits at
// Barrier.
//
// Why does a failed write freeze the disk? Pebble panics or ends the process
// when its log or manifest cannot be written, and spins when a flush fails. The
// first failed write instead stops all writing (see frozenFS): Pebble goes on
// over files that nobody will read, Close ends everything, and what is on disk
// is what a crash at that moment would have left. Nothing is retried, for after
// a failed fsync the kernel may have dropped the pages.
//
// Why is the log filled with zeros ahead? A step with effects waits for a sync of
// a few hundred bytes. Where they make the file longer the sync also writes the
// file system's own records (see walFS).
//
// Why may a batch promise another (Batch.Soon)? The result of a step with effects
// is followed by the intents of those below within microseconds. A sync begun for
// the result alone would make them wait for two.
//
// Why does Close write a table? Open would read the log, put it into memory and
// write the table then, before the first step can start again: 900 outputs of 4 KiB
// make that three times as long (BenchmarkFirstStep in package host). Below 1 MiB
// the log is read sooner than a table is made.
//
// Why a HEAD file? Pebble opens without a word when its newest log is gone. HEAD
// names a sync that returned; a store that is behind it has lost records that
// were reported as persisted (Store.Behind). It lies outside of Pebble, so that
// a directory without its database is not mistaken for a new one. It is written
// after each sync, and synced when the disk has been left alone for a millisecond, at
// the latest after 20 ms and at Close, so that the log has the disk for itself: a
// killed process leaves the newest Seq, a power cut one that is so much older.
//
// Why are large outputs files? In the database each would be written three times
// (log, table, compaction) and push the heads, which every plan reads, out of
// the cache. By their digest equal ones are stored once, and never across
// tenants, which would tell one what another has.
//
// When is such a file written? By the syncing goroutine, before the sync of the
// log that makes its record durable, so that the run's loop waits for no file.
// The kernel may write the log back earlier by itself; a store that a crash has
// left like that is cut before the first batch that lacks a file (cutIncomplete),
// and is again a prefix of what was committed.
//
// Why does Check not stop at the first damage? Who has to decide whether to
// restore a copy or to go on needs all of it; what is damaged is as good as
// absent to a run.
//
// Why are values sealed, and keys not? The order of keys is how records are found.
// The key is what its value is bound to: it holds tenant, workflow or run, kind
// and Seq, and no Seq is given twice. Step and fingerprints are in the sealed head
// that lies under it, and the digest of the output too.
//
// Why is an encrypted store told by its layout version? A keyring that was removed
// must not make a plain store of it.
//
// Why is one writer enough? Runs of one state directory wait for each other, and
// a lock that dies with its process needs no lease and no unlock command.
package pebblestore

// Package control is the local socket of a live run: who asks at it learns how
// the run stands, reads its records, or ends it.
//
// It carries messages and knows nothing of runs: cmd/engine gives it a Run. It
// is not for other machines, nor for other users of this one, and nothing that
// a run needs depends on it.
//
// # Design
//
// Why a socket and not a signal to the pid in the lock's note? A pid may be
// another process by now, signals do not exist everywhere, and who cancels
// wants to know when the work has really stopped: the answer to Cancel comes
// when the run has ended and everything is stored.
//
// Why are records read through it, and plans not made by the run? A plan is made
// of a flow, variables and secrets as who asks has them; none of that is the run's.
// Records are all that it lacks, for a database has no readers beside its writer.
//
// Why gob for records? Both ends are engines, and types of package checkpoint
// arrive as they are, their fields that JSON leaves out included.
//
// Why a directory for one socket? The directory is made for its owner alone
// before the socket is in it, so there is no moment at which others may
// connect.
//
// Why /proc in a path? The name of a socket may have about 100 bytes, state
// directories are longer. Below /proc/self/fd the directory has a short name.
package control

//go:build unix

package subprocess

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// autoMTLS is for loopback ports; a Unix socket in a private directory needs no
// more.
const autoMTLS = false

var inheritedEnv = []string{"PATH", "HOME", "LANG"}

func isTextBusy(err error) bool { return errors.Is(err, syscall.ETXTBSY) }

// gone reports whether no process has this pid.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// maxPipe is what a pipe holds at most, unless somebody has raised that.
const maxPipe = 1 << 20

// readLines reads stderr to its end. drain returns when all that was written
// before the call has been given to lines: it takes what the pipe holds itself,
// which is cheaper than to wait for the reader to do so.
func readLines(reading *sync.WaitGroup, f *os.File, lines *stderrLines) (drain func()) {
	raw, err := f.SyscallConn()
	if err != nil { // of an open file it is nil
		return nil
	}
	var taking sync.Mutex // what was read first is given away first
	buf := make([]byte, 32<<10)
	take := func(fd uintptr) (n int, err error) {
		taking.Lock()
		defer taking.Unlock()
		for n, err = syscall.Read(int(fd), buf); err == syscall.EINTR; n, err = syscall.Read(int(fd), buf) {
		}
		if n > 0 {
			lines.write(buf[:n])
		}
		return n, err
	}
	reading.Go(func() {
		for ended := false; !ended; {
			err := raw.Read(func(fd uintptr) bool {
				n, err := take(fd)
				ended = n <= 0
				return err != syscall.EAGAIN
			})
			ended = ended || err != nil // the deadline of finish
		}
		lines.flush()
		_ = f.Close()
	})
	return func() {
		_ = raw.Control(func(fd uintptr) { // when it is closed, all was given
			for taken := 0; taken < maxPipe; {
				n, _ := take(fd)
				if n <= 0 {
					return
				}
				taken += n
			}
		})
	}
}

// finish lets readers of a dead process's pipe end, though someone may still
// hold the other end.
func finish(files ...*os.File) {
	for _, f := range files {
		_ = f.SetReadDeadline(time.Now().Add(time.Second))
	}
}

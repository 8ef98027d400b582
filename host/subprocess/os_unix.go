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

// readLines reads stderr to its end. drain returns when all that was written
// before the call has been given to lines: it interrupts the reader by a read
// deadline, and the reader then takes what the pipe holds without waiting.
func readLines(reading *sync.WaitGroup, f *os.File, lines *stderrLines) (drain func()) {
	asked := make(chan chan struct{}, 1)
	ended := make(chan struct{})
	reading.Go(func() {
		defer close(ended)
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			lines.write(buf[:n])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				select {
				case done := <-asked:
					_ = f.SetReadDeadline(time.Time{})
					readNow(f, buf, lines)
					close(done)
					continue
				default: // the deadline of finish
				}
			}
			if err != nil {
				break
			}
		}
		lines.flush()
		_ = f.Close()
	})
	return func() {
		done := make(chan struct{})
		select {
		case asked <- done:
		case <-ended:
			return
		}
		_ = f.SetReadDeadline(time.Unix(1, 0))
		select {
		case <-done:
		case <-ended:
		}
	}
}

// readNow reads what the pipe holds.
func readNow(f *os.File, buf []byte, lines *stderrLines) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for more := true; more; {
		err := raw.Read(func(fd uintptr) bool {
			n, err := syscall.Read(int(fd), buf)
			if n > 0 {
				lines.write(buf[:n])
			}
			more = n > 0 || err == syscall.EINTR
			return true
		})
		if err != nil {
			return
		}
	}
}

// finish lets readers of a dead process's pipe end, though someone may still
// hold the other end.
func finish(files ...*os.File) {
	for _, f := range files {
		_ = f.SetReadDeadline(time.Now().Add(time.Second))
	}
}

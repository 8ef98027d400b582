package subprocess

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// confinement is what a process leaves itself.
type confinement struct {
	memory   uint64   // bytes of data, the process's own included
	time     uint64   // seconds of the processor; 0 is no limit
	files    uint64   // open descriptors
	fileSize uint64   // bytes of a file it writes
	read     []string // directories it may read, with all that is in them
	write    []string // and change
}

// landlockABI is the version that the kernel has, 0 for none.
func landlockABI() int {
	v, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// confine gives up, for the whole process and for good, what c does not name: it
// opens no files, sockets or programs, and touches no other process. It needs a
// build without cgo: threads that Go does not know would keep what they have.
func confine(c confinement) error {
	if errCgo != nil {
		return errCgo
	}
	for _, l := range []struct {
		what  int
		limit uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, c.fileSize}, {unix.RLIMIT_NOFILE, c.files}, {unix.RLIMIT_DATA, c.memory}, {unix.RLIMIT_CPU, c.time}} {
		if l.what == unix.RLIMIT_CPU && l.limit == 0 {
			continue
		}
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.limit, Max: l.limit}); err != nil {
			return fmt.Errorf("resource limit %d of %d: %w", l.what, l.limit, err)
		}
	}
	if err := everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	// What is not there is for those to report who look for it.
	read, write := landlock.RODirs(c.read...).IgnoreIfMissing(), landlock.RWDirs(c.write...).WithRefer().IgnoreIfMissing()
	if err := landlock.V11.BestEffort().Restrict(read, write); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	if err := filterCalls(os.Getpid()); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

func everyThread(trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return errno
	}
	return nil
}

func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)), 0)
}

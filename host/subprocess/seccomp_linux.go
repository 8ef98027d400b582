//go:build amd64 || arm64

package subprocess

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the system calls that a confined process is refused: those that
// reach other processes, the network or the kernel's own affairs. What files it
// may open is Landlock's to say.
var denied = append([]uint32{
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_PRLIMIT64, unix.SYS_SETRLIMIT,
}, deniedHere...)

// Answers of a filter (linux/seccomp.h).
const (
	answerAllow = 0x7fff0000
	answerErrno = 0x00050000 // and the number of the error
	answerKill  = 0x80000000 // the process

	filterMode = 1 // SECCOMP_SET_MODE_FILTER
	filterSync = 1 // SECCOMP_FILTER_FLAG_TSYNC: all threads, or none
)

// Offsets in struct seccomp_data; of an argument its lower half, which comes
// first on these machines.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
)

// filter is the program that the kernel asks about each call of the process pid.
func filter(pid int) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(a uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: a} }
	// when jumps over the next n instructions unless the loaded word is k.
	when := func(k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
	}
	refuse := answer(answerErrno | uint32(unix.EPERM))
	f := []unix.SockFilter{
		load(dataArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1}, answer(answerKill), // another machine's numbers
		load(dataNumber),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 0x40000000, Jf: 1}, refuse, // x32 has the same calls under other numbers
		// Go falls back to clone, whose flags can be looked at.
		when(unix.SYS_CLONE3, 1), answer(answerErrno | uint32(unix.ENOSYS)),
		// Threads, no processes.
		when(unix.SYS_CLONE, 4), load(dataArg0), {Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1}, refuse, answer(answerAllow),
		// Go's scheduler signals its own threads.
		when(unix.SYS_TGKILL, 4), load(dataArg0), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(pid), Jt: 1}, refuse, answer(answerAllow),
	}
	for _, number := range denied {
		f = append(f, when(number, 1), refuse)
	}
	return append(f, answer(answerAllow))
}

// filterCalls filters the calls of all threads from now on.
func filterCalls(pid int) error {
	f := filter(pid)
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	switch thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, filterMode, filterSync, uintptr(unsafe.Pointer(&p))); {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has a filter of its own", thread)
	}
	return nil
}

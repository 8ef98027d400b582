package main

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// escape tries what a confined process must not do, and some things that it
// must. It answers with the error of each.
func escape(engine int) map[string]string {
	got := map[string]string{}
	try := func(what string, err error) {
		got[what] = "done"
		if err != nil {
			got[what] = err.Error()
		}
	}
	call := func(what string, number uintptr, args ...uintptr) {
		args = append(args, 0, 0, 0, 0)
		_, _, errno := syscall.Syscall6(number, args[0], args[1], args[2], args[3], 0, 0)
		if errno == 0 {
			try(what, nil)
		} else {
			try(what, errno)
		}
	}
	_, err := os.ReadFile("/etc/passwd")
	try("read /etc/passwd", err)
	_, err = os.ReadDir("/")
	try("list /", err)
	_, err = os.ReadFile("/proc/self/environ")
	try("read /proc/self/environ", err)
	try("write /tmp", os.WriteFile("/tmp/engine-escaped", []byte("x"), 0o600))
	for _, network := range []string{"tcp", "udp"} {
		_, err = net.Dial(network, "127.0.0.1:9")
		try(network, err)
	}
	for what, path := range map[string]string{"unix": "/run/no-socket", "abstract": "@engine-test"} {
		_, err = net.Dial("unix", path)
		try(what, err)
	}
	try("exec", exec.Command("/bin/true").Run())
	call("fork", unix.SYS_CLONE, uintptr(unix.SIGCHLD))
	call("kill", unix.SYS_KILL, uintptr(max(engine, 1)), 0)
	call("tgkill", unix.SYS_TGKILL, uintptr(max(engine, 1)+1), uintptr(max(engine, 1)+1), 0)
	call("ptrace", unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(max(engine, 1)))
	call("process_vm_readv", unix.SYS_PROCESS_VM_READV, uintptr(max(engine, 1)))
	call("io_uring", unix.SYS_IO_URING_SETUP, 1)
	call("bpf", unix.SYS_BPF)
	call("mount", unix.SYS_MOUNT)
	call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	call("keyctl", unix.SYS_KEYCTL)
	lift := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	call("prlimit", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, uintptr(unsafe.Pointer(&lift)))
	if runtime.GOARCH == "amd64" {
		call("x32", 0x40000000|unix.SYS_GETPID)
	}
	_, err = unix.Mmap(-1, 0, 8<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	try("8 GiB", err)

	try("write the own directory", os.WriteFile(os.TempDir()+"/x", []byte("x"), 0o600))
	var wg sync.WaitGroup
	for range 8 { // as many threads
		wg.Go(runtime.LockOSThread)
	}
	wg.Wait()
	try("threads", nil)
	got["user"] = strconv.Itoa(os.Getuid())
	return got
}

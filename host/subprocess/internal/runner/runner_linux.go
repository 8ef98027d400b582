package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What a program is started with to be a runner.
const (
	Name = "engine-runner" // argv[0]; behind it the plugin's executable and its argv[0]
	Env  = "ENGINE_SUBPROCESS_RUNNER"
)

// Descriptors of a runner.
const (
	fdLife   = 3 // ends when the engine is gone or wants the plugin dead
	fdReport = 4 // how the plugin ended: a Status, or a text that says why there was none
)

// Status is how a plugin ended.
type Status = unix.WaitStatus

const statusFormat = "status %d"

// ParseReport reads what a runner has reported. ok is false for a text.
func ParseReport(report string) (s Status, ok bool) {
	n, err := fmt.Sscanf(report, statusFormat, &s)
	return s, n == 1 && err == nil
}

func init() {
	if len(os.Args) != 3 || os.Args[0] != Name || os.Getenv(Env) == "" {
		return
	}
	runtime.LockOSThread() // the plugin gets its death signal when this thread ends
	superviseUntilGone(os.Args[1], os.Args[2])
	os.Exit(0)
}

// superviseUntilGone starts the plugin, reaps everything that is or becomes a child of this
// process, and returns when there is none. When the plugin ends or the engine
// is gone, what is left is killed.
func superviseUntilGone(exe, name string) {
	report := os.NewFile(fdReport, "report")
	unix.CloseOnExec(fdLife)
	unix.CloseOnExec(fdReport)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(report, "could not be supervised (subreaper: %v)", err)
		return
	}
	p, err := startPlugin(exe, name)
	if err != nil {
		fmt.Fprintf(report, "could not be started (%v)", err)
		return
	}
	dead := make(chan struct{})
	var once sync.Once
	die := func() { once.Do(func() { close(dead) }) }
	go func() {
		_, _ = os.NewFile(fdLife, "life").Read(make([]byte, 1)) // nothing is ever written
		die()
	}()
	go func() {
		<-dead
		for { // until there is no child, and the process exits
			killDescendants()
			time.Sleep(2 * time.Millisecond)
		}
	}()
	for {
		var ws unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &ws, 0, nil); {
		case err == unix.ECHILD:
			return
		case err == nil && pid == p.Pid:
			fmt.Fprintf(report, statusFormat, ws)
			die()
		}
	}
}

func startPlugin(exe, name string) (*os.Process, error) {
	env := os.Environ()
	env = removePrefix(env, Env+"=")
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for wait := time.Millisecond; ; wait *= 2 {
		p, err := os.StartProcess(exe, []string{name}, &os.ProcAttr{Env: env, Files: []*os.File{null, os.Stdout, os.Stderr},
			Sys: &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}})
		if err == nil || !errors.Is(err, unix.ETXTBSY) || wait > time.Second {
			return p, err
		}
		time.Sleep(wait)
	}
}

func removePrefix(list []string, prefix string) []string {
	kept := list[:0]
	for _, s := range list {
		if !strings.HasPrefix(s, prefix) {
			kept = append(kept, s)
		}
	}
	return kept
}

// killDescendants kills every process that descends from this one, as of now.
func killDescendants() {
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if ppid, ok := ParentOf(pid); ok {
			parents[pid] = ppid
		}
	}
	self := os.Getpid()
	for pid := range parents {
		for p, steps := parents[pid], 0; p > 1 && steps < len(parents); p, steps = parents[p], steps+1 {
			if p == self {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
				break
			}
		}
	}
}

// ParentOf reads the parent from /proc/PID/stat: "pid (name) state ppid ...",
// where the name may hold anything.
func ParentOf(pid int) (ppid int, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	ppid, err = strconv.Atoi(string(fields[1]))
	return ppid, err == nil
}

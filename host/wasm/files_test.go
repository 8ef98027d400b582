//go:build unix

package wasm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/host/operation"
	"github.com/retrace-dev/engine/sdk"
)

// fileProgram does to files what its arguments say, and prints what came of it.
const fileProgram = `package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

func main() {
	var open []*os.File
	for _, arg := range os.Args[1:] {
		do, path, _ := strings.Cut(arg, " ")
		path, to, _ := strings.Cut(path, " ")
		var err error
		switch do {
		case "cat":
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				fmt.Printf("%q ", b)
			}
		case "ls":
			err = fs.WalkDir(os.DirFS(path), ".", func(p string, d fs.DirEntry, err error) error {
				fmt.Printf("%s:%s ", p, d.Type().String()[:1])
				return err
			})
		case "stat":
			var st fs.FileInfo
			if st, err = os.Stat(path); err == nil {
				fmt.Print(st.Mode(), " ", st.Size(), " ", st.ModTime().Unix(), " ")
			}
		case "write":
			err = os.WriteFile(path, []byte(to), 0o666)
		case "append":
			var f *os.File
			if f, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err == nil {
				_, err = f.WriteString(to)
				f.Close()
			}
		case "sparse":
			err = os.Truncate(path, 1<<40)
		case "flood":
			var f *os.File
			if f, err = os.Create(path); err == nil {
				for b := make([]byte, 8<<20); err == nil; {
					_, err = f.Write(b)
				}
			}
		case "many":
			for i := 0; err == nil; i++ {
				err = os.Mkdir(fmt.Sprint(path, i), 0o777)
			}
		case "deep":
			for err == nil {
				path += "/d"
				err = os.Mkdir(path, 0o777)
			}
		case "open":
			for err == nil {
				var f *os.File
				f, err = os.Open(path)
				open = append(open, f)
			}
		case "mkdir":
			err = os.MkdirAll(path, 0o777)
		case "rm":
			err = os.Remove(path)
		case "mv":
			err = os.Rename(path, to)
		case "symlink":
			err = os.Symlink(to, path)
		case "link":
			err = os.Link(to, path)
		case "readlink":
			_, err = os.Readlink(path)
		case "temp":
			_, err = os.CreateTemp("", "x")
		}
		var errno syscall.Errno
		switch {
		case errors.As(err, &errno):
			fmt.Println(do, errno)
		case err != nil:
			fmt.Println(do, err)
		default:
			fmt.Println(do, "ok")
		}
	}
}
`

// TestFiles: what a program can do to files, and what not.
func TestFiles(t *testing.T) {
	t.Parallel()
	module := goModule(t, fileProgram)
	if err := os.Remove(sdk.SidecarPath(module)); err != nil {
		t.Fatal(err)
	}
	l := newLoader(t, Options{})
	p := loadertest.Load(t, l, module)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	mount := func(t *testing.T, readWrite bool) (string, loader.Limits) {
		dir, limits := mounted(t, readWrite, map[string]string{"a.txt": "a", "b/c.txt": "c", "z": ""})
		for link, to := range map[string]string{"abs": secret, "up": "../../../../../../../../../../etc/passwd", "in": "a.txt", "dir": "b", "loop": "loop"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
		limits.Memory = 256 << 20
		return dir, limits
	}
	for _, c := range []struct {
		name      string
		readWrite bool
		do        []string
		want      string // lines
		class     sdk.Class
		code      string
		left      map[string]string // in the mount, of a writer
	}{
		{name: "reading", do: []string{"ls /data", "cat /data/a.txt", "cat /data/b/c.txt", "cat /data/absent", "cat /data", "stat /data/z", "cat /data/a.txt/", "cat /data/../data/z"},
			want: ".:d a.txt:- b:d b/c.txt:- z:- ls ok|\"a\" cat ok|\"c\" cat ok|cat No such file or directory|cat Is a directory|-rw------- 0 946684800 stat ok|cat Not a directory|\"\" cat ok"},
		{name: "links and pipes are not there", do: []string{"cat /data/abs", "cat /data/up", "cat /data/in", "cat /data/dir/c.txt", "cat /data/loop", "cat /data/fifo", "stat /data/fifo", "readlink /data/a.txt", "readlink /data/in"},
			want: "cat No such file or directory|cat No such file or directory|cat No such file or directory|cat No such file or directory|cat No such file or directory|cat No such file or directory|stat No such file or directory|readlink Invalid argument|readlink No such file or directory"},
		{name: "outside", do: []string{"cat /etc/passwd", "cat /data/../../etc/passwd", "cat ../etc/passwd", "ls /"},
			want: "cat No such file or directory|cat No such file or directory|cat No such file or directory|.:d data:d data/a.txt:- data/b:d data/b/c.txt:- data/z:- engine:d engine/call:- tmp:d ls ok"},
		{name: "reading only", do: []string{"write /data/new x", "write /data/a.txt x", "append /data/a.txt x", "rm /data/a.txt", "mkdir /data/new", "mv /data/a.txt /data/d", "sparse /data/a.txt", "rm /data", "rm /engine/call", "write /engine/new x", "mkdir /engine", "mkdir /data"},
			want: strings.Repeat("write Read-only file system|", 2) + "append Read-only file system|rm Read-only file system|mkdir Read-only file system|mv Read-only file system|sparse Read-only file system|rm Operation not permitted|rm Operation not permitted|write Read-only file system|mkdir ok|mkdir ok"},
		{name: "writing", readWrite: true, do: []string{"write /data/new x", "append /data/new y", "write /data/a.txt 1", "mkdir /data/n/m", "mv /data/new /data/n/m/o", "rm /data/z", "rm /data/b", "mv /data/a.txt /elsewhere", "write /data/in x", "rm /data/fifo", "mv /data/in /data/x", "write /data/dir/x y"},
			want: "write ok|append ok|write ok|mkdir ok|mv ok|rm ok|rm Directory not empty|mv Operation not permitted|write File exists|rm No such file or directory|mv No such file or directory|write No such file or directory",
			left: map[string]string{"n/m/o": "xy", "a.txt": "1", "b/c.txt": "c"}},
		{name: "no links are made", readWrite: true, do: []string{"symlink /data/l ../../../../etc/passwd", "symlink l /etc/passwd", "link /data/l /data/a.txt", "cat /data/l", "cat l"},
			want: "symlink Not implemented on wasip1|symlink Not implemented on wasip1|link Not implemented on wasip1|cat No such file or directory|cat No such file or directory"},
		{name: "scratch", do: []string{"write a 1", "mkdir b/c", "write b/c/d 2", "cat /b/c/d", "mv a b/e", "ls /b", "temp", "rm /tmp", "mkdir /tmp", "cat a"},
			want: "write ok|mkdir ok|write ok|\"2\" cat ok|mv ok|.:d c:d c/d:- e:- ls ok|temp ok|rm Operation not permitted|mkdir ok|cat No such file or directory"},
		{name: "descriptors", do: []string{"open /data/a.txt"}, class: sdk.ClassResourceExhausted, code: "descriptors"},
		{name: "bytes", do: []string{"flood x"}, class: sdk.ClassResourceExhausted, code: "file_too_large"},
		{name: "a sparse file", do: []string{"write x 1", "sparse x"}, class: sdk.ClassResourceExhausted, code: "file_too_large"},
		{name: "files", do: []string{"many x"}, class: sdk.ClassResourceExhausted, code: "files"},
		{name: "depth", do: []string{"mkdir x", "deep x"}, want: "mkdir ok|deep File name too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, limits := mount(t, c.readWrite)
			a, err := runRaw(t, p, limits, &operation.MemoryBlobs{}, map[string]any{"args": c.do})
			if c.class != "" {
				if err == nil || err.Class != c.class || err.Code != c.code {
					t.Fatalf("%v, %v", a.Stdout, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v, stderr %s", err, err.Stderr)
			}
			if got := strings.TrimSuffix(strings.ReplaceAll(fmt.Sprint(a.Stdout), "\n", "|"), "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for name, want := range c.left {
				if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
					t.Errorf("%s holds %q, %v", name, b, err)
				}
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "outside" {
				t.Errorf("the file outside holds %q, %v", b, err)
			}
			for name := range a.Files {
				if strings.HasPrefix(name, "tmp/") {
					t.Errorf("%s is in the answer", name)
				}
			}
		})
	}
}

// TestScratchIsRemoved: nothing of an attempt stays in the directory for temporary
// files, however it ends.
func TestScratchIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir) // not parallel for it
	p := loadertest.Load(t, newLoader(t, Options{}), "testdata/programs/sort.wasm")
	for _, args := range [][]string{{"-o", "x"}, {"absent"}} {
		_, _ = runRaw(t, p, loader.Limits{}, &operation.MemoryBlobs{}, map[string]any{"args": args, "files": map[string]any{"a/b": "1"}})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

//go:build unix

package subprocess

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/host/loader/loadertest"
	"github.com/retrace-dev/engine/sdk"
)

func elf(machine uint16) string {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(b[18:], machine)
	return string(b)
}

func pe(machine uint16) string {
	b := make([]byte, 128)
	copy(b, "MZ")
	binary.LittleEndian.PutUint32(b[0x3c:], 0x40)
	copy(b[0x40:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[0x44:], machine)
	return string(b)
}

func macho(cpu uint32) string {
	b := binary.LittleEndian.AppendUint32(nil, 0xfeedfacf)
	return string(binary.LittleEndian.AppendUint32(b, cpu)) + strings.Repeat("\x00", 24)
}

func fat(cpus ...uint32) string {
	b := binary.BigEndian.AppendUint32(nil, 0xcafebabe)
	b = binary.BigEndian.AppendUint32(b, uint32(len(cpus)))
	for _, c := range cpus {
		b = append(binary.BigEndian.AppendUint32(b, c), make([]byte, 16)...)
	}
	return string(b)
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head string
		want string // on linux/amd64; "" runs
	}{
		"script":    {"#!/bin/sh\n", ""},
		"amd64":     {elf(62), ""},
		"arm64":     {elf(183), "is an ELF executable for arm64, this machine is amd64"},
		"other cpu": {elf(9999), "CPU 0x270f"},
		"cut off":   {"\x7fELF", "the file is cut off"},
		"exe":       {pe(0x8664), "is a PE executable for amd64 (windows), this machine runs linux"},
		"mac":       {macho(0x0100000c), "is a Mach-O executable for arm64 (darwin, ios)"},
		"universal": {fat(0x01000007, 0x0100000c), "for amd64, arm64 (darwin"},
	} {
		err := identify([]byte(c.head)).runsHere("linux", "amd64")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := identify([]byte(fat(0x01000007, 0x0100000c))).runsHere("darwin", "arm64"); err != nil {
		t.Error(err)
	}
	if err := identify([]byte("#!/bin/sh\n")).runsHere("windows", "amd64"); err == nil {
		t.Error("a script on Windows")
	}
	for _, other := range []string{"hello", "\x00asm\x01\x00\x00\x00", "MZ is not enough", "\xca\xfe\xba\xbe\x00\x00\x00\x41 is Java"} {
		if e := identify([]byte(other)); e.format != "" {
			t.Errorf("%q is %s", other, e)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	for _, s := range []string{"#!", elf(62), pe(0x8664), macho(7), fat(7, 8)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e := identify(b); e.format != "" && e.runsHere("plan9", "mips") == nil && e.format != "script" {
			t.Errorf("%s runs on plan9/mips", e)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, content string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		write(t, p, content, mode)
		return p
	}
	l := New(Options{})
	for name, c := range map[string]struct{ path, want string }{
		"empty":     {put("empty", "", 0o700), "is empty; build or download it again"},
		"no bit":    {put("nobit", "#!/bin/sh\n", 0o600), "is a script but may not be run (mode 600); chmod +x it"},
		"wrong cpu": {put("cpu", elf(9999), 0o700), "CPU 0x270f"},
		"directory": {dir, "is a directory; name the executable in it"},
		"absent":    {filepath.Join(dir, "absent"), "no such file"},
		"device":    {os.DevNull, "is not a file"},
	} {
		_, err := l.Open(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, other := range []string{"hello", "\x00asm\x01\x00\x00\x00"} {
		if _, err := l.Open(put("other", other, 0o700)); !errors.Is(err, loader.ErrForeign) {
			t.Errorf("%q: %v", other, err)
		}
	}
	const script = "#!/bin/sh\n"
	plain, err := l.Open(put("plain.sh", script, 0o700))
	if err != nil || plain.Kind != loader.Native || plain.Digest != sdk.Sum([]byte(script)) || plain.Manifest != nil {
		t.Errorf("%+v, %v", plain, err)
	}
	put("with.step.json", `{"abi":1,"name":"with","steps":{"a":{}}}`, 0o600)
	with, err := l.Open(put("with.sh", script, 0o700))
	if err != nil || with.Manifest.Name != "with" || with.Digest == plain.Digest {
		t.Errorf("%+v, %v", with, err)
	}
	for manifest, want := range map[string]string{`{"abi":7}`: "abi 7", `{"abi":1,"name":"x","io":"raw"}`: "speaks json", strings.Repeat(" ", sdk.MaxManifest+1): "larger than 256 KiB"} {
		put("bad.step.json", manifest, 0o600)
		if _, err := l.Open(put("bad.sh", script, 0o700)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", manifest, err)
		}
	}
	if _, err := l.Load(t.Context(), &loader.Artifact{Kind: loader.Wasm}); sdk.AsError(err).Class != sdk.ClassInternal {
		t.Error(err)
	}
}

// TestLongTempDir: the address of a socket has little room, wherever the user
// keeps temporary files.
func TestLongTempDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 12))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := New(Options{TempDir: dir, Self: self})
	p := loadertest.Load(t, l, probe(t, ""))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

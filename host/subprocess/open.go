package subprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/host/loader"
	"github.com/retrace-dev/engine/sdk"
)

// maxExecutable bounds what is hashed and copied.
const maxExecutable = 1 << 30

// Open reads the executable at path and its manifest, NAME.step.json beside
// NAME or NAME.exe. Nothing of it runs.
func (l *Loader) Open(path string) (*loader.Artifact, error) {
	if strings.HasPrefix(path, loader.Std) {
		return nil, loader.ErrForeign
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("plugin: %w", err)
	case st.IsDir():
		return nil, fmt.Errorf("plugin %s is a directory; name the executable in it", path)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("plugin %s is not a file but a %s", path, st.Mode().Type())
	case st.Size() == 0:
		return nil, fmt.Errorf("plugin %s is empty; build or download it again", path)
	case st.Size() > maxExecutable:
		return nil, fmt.Errorf("plugin %s has %d bytes, the limit is %d", path, st.Size(), maxExecutable)
	}
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	head = head[:n]
	kind := identify(head)
	if kind.format == "" {
		return nil, loader.ErrForeign
	}
	if err := kind.runsHere(runtime.GOOS, runtime.GOARCH); err != nil {
		return nil, fmt.Errorf("plugin %s %w", path, err)
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o111 == 0 {
		return nil, fmt.Errorf("plugin %s is %s but may not be run (mode %o); chmod +x it", path, kind, st.Mode().Perm())
	}
	sidecar, err := sdk.ReadSidecar(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	a := &loader.Artifact{Kind: loader.Native, Path: path}
	if a.Digest, err = digest(f, st.Size(), sidecar, io.Discard); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	if sidecar == nil {
		return a, nil
	}
	if a.Manifest, err = sdk.ParseManifest(sidecar); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	if a.Manifest.IO == "raw" {
		return nil, fmt.Errorf(`plugin %s: manifest: io "raw" is for modules; a native plugin speaks json`, path)
	}
	return a, nil
}

// executable is what the first bytes of a file say.
type executable struct {
	format string // "ELF", "PE", "Mach-O", "script"; "" is none of them
	oses   []string
	archs  []string // GOARCHes it holds code for; nil is any
	cpu    string   // for messages
}

var article = map[string]string{"ELF": "an ELF", "PE": "a PE", "Mach-O": "a Mach-O"}

func (e executable) String() string {
	if e.format == "script" {
		return "a script"
	}
	return fmt.Sprintf("%s executable for %s", article[e.format], e.cpu)
}

// runsHere says why e does not run on a machine, in words that follow its path.
func (e executable) runsHere(goos, goarch string) error {
	switch {
	case e.format == "script" && goos == "windows":
		return errors.New("is a script, which Windows does not run; use an .exe")
	case e.oses != nil && !slices.Contains(e.oses, goos):
		return fmt.Errorf("is %s (%s), this machine runs %s; build it with GOOS=%s", e, strings.Join(e.oses, ", "), goos, goos)
	case e.archs != nil && !slices.Contains(e.archs, goarch):
		return fmt.Errorf("is %s, this machine is %s; build it for %s", e, goarch, goarch)
	}
	return nil
}

var elfMachines = map[uint16]string{3: "386", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64", 22: "s390x", 21: "ppc64le", 258: "loong64"}
var peMachines = map[uint16]string{0x14c: "386", 0x1c4: "arm", 0x8664: "amd64", 0xaa64: "arm64"}
var machCPUs = map[uint32]string{7: "386", 0x01000007: "amd64", 0x0100000c: "arm64"}

// identify reads the first bytes of a file. It accepts any bytes.
func identify(b []byte) executable {
	switch {
	case bytes.HasPrefix(b, []byte("#!")):
		return executable{format: "script"}
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		var order binary.ByteOrder = binary.LittleEndian
		if len(b) > 5 && b[5] == 2 {
			order = binary.BigEndian
		}
		e := executable{format: "ELF", oses: []string{"linux", "freebsd", "netbsd", "openbsd", "dragonfly", "android"}}
		if len(b) < 20 {
			return e.on("an unknown CPU (the file is cut off)", "none")
		}
		return e.cpuOf(uint32(order.Uint16(b[18:])), elfMachines[order.Uint16(b[18:])])
	case bytes.HasPrefix(b, []byte("MZ")) && len(b) >= 0x40:
		at := int64(binary.LittleEndian.Uint32(b[0x3c:]))
		if at+6 > int64(len(b)) || !bytes.HasPrefix(b[at:], []byte("PE\x00\x00")) {
			return executable{}
		}
		m := binary.LittleEndian.Uint16(b[at+4:])
		return executable{format: "PE", oses: []string{"windows"}}.cpuOf(uint32(m), peMachines[m])
	case len(b) >= 8 && (binary.LittleEndian.Uint32(b) == 0xfeedfacf || binary.LittleEndian.Uint32(b) == 0xfeedface):
		cpu := binary.LittleEndian.Uint32(b[4:])
		return executable{format: "Mach-O", oses: []string{"darwin", "ios"}}.cpuOf(cpu, machCPUs[cpu])
	case len(b) >= 8 && binary.BigEndian.Uint32(b) == 0xcafebabe && binary.BigEndian.Uint32(b[4:]) < 20: // more would be a Java class
		return universal(b)
	}
	return executable{}
}

func universal(b []byte) executable {
	e := executable{format: "Mach-O", oses: []string{"darwin", "ios"}, archs: []string{}}
	for i := range int(binary.BigEndian.Uint32(b[4:])) {
		if at := 8 + i*20; at+4 <= len(b) {
			if a := machCPUs[binary.BigEndian.Uint32(b[at:])]; a != "" {
				e.archs = append(e.archs, a)
			}
		}
	}
	e.cpu = strings.Join(e.archs, ", ")
	return e
}

func (e executable) cpuOf(number uint32, arch string) executable {
	if arch == "" {
		return e.on(fmt.Sprintf("CPU %#x", number), "none")
	}
	return e.on(arch, arch)
}

func (e executable) on(cpu, arch string) executable {
	e.cpu, e.archs = cpu, []string{arch}
	return e
}

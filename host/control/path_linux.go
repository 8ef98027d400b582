package control

import (
	"fmt"
	"os"
	"path/filepath"
)

// shorten gives a socket a name that fits into an address, valid until done.
func shorten(socket string) (short string, done func(), err error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)), func() { _ = dir.Close() }, nil
}

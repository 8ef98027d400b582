package subprocess

import (
	"os"
	"sync"
)

// autoMTLS guards the loopback port, which any local user can reach.
const autoMTLS = true

var inheritedEnv = []string{"PATH", "HOME", "LANG", "SYSTEMROOT"}

func isTextBusy(error) bool { return false }

// gone is never sure here: files in use cannot be removed anyway.
func gone(int) bool { return false }

// readLines reads stderr to its end. Whether something is left to read cannot
// be told here, so there is no drain.
func readLines(reading *sync.WaitGroup, f *os.File, lines *stderrLines) (drain func()) {
	reading.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			lines.write(buf[:n])
			if err != nil {
				break
			}
		}
		lines.flush()
		_ = f.Close()
	})
	return nil
}

func finish(...*os.File) {}

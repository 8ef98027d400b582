package sdk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// SidecarPath is where the manifest of the artifact at path lies when it is not
// in the artifact: NAME.step.json beside NAME, NAME.wasm or NAME.exe.
func SidecarPath(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".step.json"
}

// ReadSidecar reads the manifest beside the artifact at path; nil and nil say
// that there is none. It reads at most MaxManifest bytes and does not look at
// what they say.
func ReadSidecar(path string) ([]byte, error) {
	side := SidecarPath(path)
	f, err := os.Open(side)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if len(b) > MaxManifest {
		return nil, fmt.Errorf("manifest %s is larger than %d KiB", side, MaxManifest>>10)
	}
	return b, nil
}

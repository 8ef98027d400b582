package subprocess

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/retrace-dev/engine/sdk"
)

// digest hashes a file of the given size, and with a sidecar both, each with
// its length before it. What it hashes it also copies to w.
func digest(f io.Reader, size int64, sidecar []byte, w io.Writer) (sdk.Digest, error) {
	h := sha256.New()
	if sidecar != nil {
		fmt.Fprintf(h, "%d:", size)
	}
	n, err := io.Copy(io.MultiWriter(h, w), io.LimitReader(f, size+1))
	if err != nil {
		return sdk.Digest{}, err
	}
	if n != size {
		return sdk.Digest{}, errors.New("it changed while it was read; try again")
	}
	if sidecar != nil {
		fmt.Fprintf(h, "%d:%s", len(sidecar), sidecar)
	}
	return sdk.Digest(h.Sum(nil)), nil
}

// privateCopy copies the file to a new one that only this user may run, and
// wants the digest of it and its sidecar.
func privateCopy(from, to string, want sdk.Digest) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	sidecar, err := sdk.ReadSidecar(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	got, err := digest(in, st.Size(), sidecar, out)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("it changed since it was planned (%s, now %s); run again", want.Short(), got.Short())
	}
	return nil
}

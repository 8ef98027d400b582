package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"

	"slices"
	"strings"
	"unicode/utf8"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	wsys "github.com/tetratelabs/wazero/sys"

	"github.com/retrace-dev/engine/sdk"
)

// Raw programs know nothing of requests: they are given arguments, stdin, an
// environment and files, and what they leave is the answer.

const (
	ioRaw = "raw"
	// maxText is how much of an output is given as text; more is a blob.
	maxText = 64 << 10
	// blobPiece is how much of a blob goes with one operation.
	blobPiece = 1 << 20
)

const blobSchema = `{"type":"object","format":"engine-blob","properties":{"$blob":{"type":"string"},"size":{"type":"integer"},"type":{"type":"string"}},"required":["$blob","size"]}`

// Schemas of raw programs, for step types whose manifest has none.
const (
	rawInputSchema = `{"type":"object","additionalProperties":false,"properties":{` +
		`"args":{"type":"array","items":{"type":"string"},"description":"arguments, without the program's own name"},` +
		`"stdin":{"anyOf":[{"type":"string"},` + blobSchema + `],"description":"what it reads; nothing without it"},` +
		`"env":{"type":"object","additionalProperties":{"type":"string"},"description":"variables beside those of the sandbox"},` +
		`"files":{"type":"object","additionalProperties":{"anyOf":[{"type":"string"},` + blobSchema + `]},"description":"files in its working directory, by path"},` +
		`"ok_exit_codes":{"type":"array","items":{"type":"integer"},"description":"exit codes that are no failure; [0] without it"}}}`
	rawOutputSchema = `{"type":"object","properties":{"exit_code":{"type":"integer"},` +
		`"stdout":{"anyOf":[{"type":"string"},` + blobSchema + `]},"stderr":{"anyOf":[{"type":"string"},` + blobSchema + `]},` +
		`"files":{"type":"object","additionalProperties":` + blobSchema + `,"description":"files that it made or changed, by path"}},` +
		`"required":["exit_code","stdout","stderr","files"]}`
)

// rawManifest is the manifest of a command that has none.
func rawManifest() *sdk.Manifest {
	return rawDefaults(&sdk.Manifest{ABI: 1, IO: ioRaw, Steps: map[string]sdk.StepType{untyped: {Description: "runs the program"}}})
}

// rawDefaults gives the step types of m the schemas of raw programs where they
// have none of their own.
func rawDefaults(m *sdk.Manifest) *sdk.Manifest {
	for name, t := range m.Steps {
		if t.Input == nil {
			t.Input = json.RawMessage(rawInputSchema)
		}
		if t.Output == nil {
			t.Output = json.RawMessage(rawOutputSchema)
		}
		m.Steps[name] = t
	}
	return m
}

// rawInput is what a raw program is given.
type rawInput struct {
	Args        []string           `json:"args"`
	Stdin       rawData            `json:"stdin"`
	Env         map[string]string  `json:"env"`
	Files       map[string]rawData `json:"files"`
	OKExitCodes []int64            `json:"ok_exit_codes"`
}

func parseRawInput(b []byte) (*rawInput, error) {
	in := rawInput{OKExitCodes: []int64{0}}
	if err := sdk.Unmarshal(b, &in); err != nil {
		return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Message: "input of a raw program: " + err.Error()}
	}
	for k, arg := range in.Args {
		if strings.ContainsRune(arg, 0) {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: fmt.Sprintf("/args/%d", k), Message: "an argument holds a zero byte"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(in.Env[name], 0) {
			return nil, &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/env", Message: fmt.Sprintf("%q cannot be an environment variable", name)}
		}
	}
	return &in, nil
}

// rawData is text, or a blob.
type rawData struct {
	text string
	blob *sdk.Blob
}

func (d *rawData) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		d.blob = &sdk.Blob{}
		return json.Unmarshal(b, d.blob)
	}
	return json.Unmarshal(b, &d.text)
}

// reader reads the data; a blob as it is asked for.
func (a *attempt) reader(d *rawData) io.Reader {
	if d.blob == nil {
		return strings.NewReader(d.text)
	}
	return &blobReader{a: a, digest: d.blob.Digest}
}

// blobReader reads a blob by operations.
type blobReader struct {
	a      *attempt
	digest sdk.Digest
	at     int64
	rest   []byte
	eof    bool
}

func (r *blobReader) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.eof {
			return 0, io.EOF
		}
		ok, data, err := sdk.Operate(r.a.ctx, r.a.host, sdk.BlobGetOp{Op: sdk.OpBlobGet, Digest: r.digest, Offset: r.at}, nil)
		if err == nil {
			var slice sdk.BlobSlice
			err = sdk.Unmarshal(ok, &slice)
			r.eof = slice.EOF
		}
		if err != nil {
			r.a.end(sdk.AsError(err)) // no errno could say why
		}
		r.at += int64(len(data))
		r.rest = data
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// rawProgram is what an attempt of a raw program keeps.
type rawProgram struct {
	in     *rawInput
	given  map[string]sdk.Digest // the files it was given
	stderr bytes.Buffer
}

// stage puts the input's files into the scratch directory.
func (a *attempt) stage() error {
	a.program.given = map[string]sdk.Digest{}
	for _, name := range slices.Sorted(maps.Keys(a.program.in.Files)) {
		d := a.program.in.Files[name]
		sum, err := a.files.put(name, a.reader(&d))
		if err != nil {
			return &sdk.Error{Class: sdk.ClassInvalidInput, Path: "/files", Message: fmt.Sprintf("file %q: %v", name, err)}
		}
		a.program.given[name] = sum
	}
	return nil
}

// put writes a file as an attempt would, with the directories it lies in.
func (f *files) put(name string, r io.Reader) (sum sdk.Digest, err error) {
	if !fs.ValidPath(name) {
		return sum, errors.New("want a path below the working directory, such as \"in/a.txt\"")
	}
	for end, c := range name {
		if c != '/' {
			continue
		}
		if errno := f.Mkdir(name[:end], 0); errno != 0 && errno != esys.EEXIST {
			return sum, errno
		}
	}
	file, errno := f.OpenFile(name, esys.O_WRONLY|esys.O_CREAT|esys.O_EXCL, 0)
	if errno != 0 {
		return sum, errno
	}
	h := sha256.New()
	_, err = io.Copy(fileWriter{file, h}, r)
	if errno := file.Close(); errno != 0 && err == nil {
		err = errno
	}
	return sdk.Digest(h.Sum(nil)), err
}

type fileWriter struct {
	file esys.File
	hash hash.Hash
}

func (w fileWriter) Write(b []byte) (int, error) {
	w.hash.Write(b)
	n, errno := w.file.Write(b)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}

// judgeRaw makes the answer of a raw program that ended with err.
func (a *attempt) judgeRaw(err error) (*sdk.Response, error) {
	if a.why != nil || a.response != nil { // it answered by the respond operation
		return a.judge(err)
	}
	var code int64
	var exit *wsys.ExitError
	switch {
	case errors.As(err, &exit):
		code = int64(exit.ExitCode())
	case err != nil && a.memory.refused:
		return nil, a.needsMemory()
	case err != nil:
		return nil, crash(err)
	}
	if !slices.Contains(a.program.in.OKExitCodes, code) {
		return nil, &sdk.Error{Class: sdk.ClassAPIError, Code: fmt.Sprintf("exit_%d", code), Message: fmt.Sprintf("the program exited with code %d; if that is no failure, name it in ok_exit_codes", code)}
	}
	out := struct {
		ExitCode int64               `json:"exit_code"`
		Stdout   any                 `json:"stdout"`
		Stderr   any                 `json:"stderr"`
		Files    map[string]sdk.Blob `json:"files"`
	}{ExitCode: code}
	if out.Stdout, err = a.textOrBlob(a.stdout.Bytes()); err != nil {
		return nil, err
	}
	if out.Stderr, err = a.textOrBlob(a.program.stderr.Bytes()); err != nil {
		return nil, err
	}
	if out.Files, err = a.made(); err != nil {
		return nil, err
	}
	return sdk.Output(out)
}

func (a *attempt) textOrBlob(b []byte) (any, error) {
	if len(b) <= maxText && utf8.Valid(b) {
		return string(b), nil
	}
	return a.putBlob(bytes.NewReader(b))
}

// made are the files that the program made or changed, but for those below
// /tmp.
func (a *attempt) made() (map[string]sdk.Blob, error) {
	made := map[string]sdk.Blob{}
	root := a.files.scratch.root
	if root == nil {
		return made, nil
	}
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == dirTmp:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		case !utf8.ValidString(name):
			return &sdk.Error{Class: sdk.ClassProtocol, Message: fmt.Sprintf("the program made a file %q, whose name is not UTF-8 text", name)}
		}
		b, changed, err := a.madeFile(root, name)
		if err == nil && changed {
			made[name] = b
		}
		return err
	})
	if err != nil {
		return nil, sdk.AsError(err)
	}
	return made, nil
}

func (a *attempt) madeFile(root *os.Root, name string) (b sdk.Blob, changed bool, err error) {
	f, err := root.Open(name)
	if err != nil {
		return b, false, err
	}
	defer f.Close()
	if sum, given := a.program.given[name]; given {
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return b, false, err
		}
		if sdk.Digest(h.Sum(nil)) == sum {
			return b, false, nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return b, false, err
		}
	}
	b, err = a.putBlob(f)
	return b, true, err
}

// putBlob keeps what r gives as a blob, of the type that its beginning shows.
func (a *attempt) putBlob(r io.Reader) (b sdk.Blob, err error) {
	op := sdk.BlobPutOp{Op: sdk.OpBlobPut, More: true}
	for buf := make([]byte, blobPiece); op.More; {
		n, err := io.ReadFull(r, buf)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			op.More = false
		case err != nil:
			return b, err
		}
		if op.Part == 0 {
			op.Type = http.DetectContentType(buf[:n])
		}
		ok, _, err := sdk.Operate(a.ctx, a.host, op, buf[:n])
		if err != nil {
			return b, sdk.AsError(err)
		}
		if !op.More {
			return b, sdk.Unmarshal(ok, &b)
		}
		var part sdk.BlobPart
		if err := sdk.Unmarshal(ok, &part); err != nil {
			return b, err
		}
		op.Part = part.Part
	}
	return b, nil
}

// runRaw is run for a raw program.
func (p *program) runRaw(ctx context.Context, a *attempt, pure bool, seed string) (*sdk.Response, error) {
	err := guarded(a.stage)
	if err == nil && a.why == nil {
		err = p.call(ctx, a, pure, seed)
	}
	a.over = true
	a.stderr.flush()
	var e *sdk.Error
	if errors.As(err, &e) && a.why == nil {
		return nil, e // nothing has run
	}
	return a.judgeRaw(err)
}

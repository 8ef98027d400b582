package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Server answers at the socket of one state directory.
type Server struct {
	run      Run
	records  Records
	socket   string
	listener net.Listener
	conns    sync.WaitGroup // of the accepting goroutine and of each connection
	reading  sync.Mutex     // none begins after Stop
	readers  sync.WaitGroup // of answers that read records

	stop, end sync.Once
	stopped   chan struct{} // closed by Stop
	ended     chan struct{} // closed by Close
}

// Listen opens the socket of a state directory. The caller holds the state's
// lock, so a socket that is there is a dead process's. records are the run's; they
// are read until Stop returns.
func Listen(state string, run Run, records Records) (*Server, error) {
	dir := filepath.Join(state, dirName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// The directory may be of an earlier engine, or made by hand.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	socket := filepath.Join(dir, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	short, done, err := shorten(socket)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer done()
	l, err := net.Listen("unix", short)
	if err != nil {
		return nil, fmt.Errorf("control socket %s: %w", socket, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its name may be a short one; Close removes it
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), l.Close())
	}
	s := &Server{run: run, records: records, socket: socket, listener: l, stopped: make(chan struct{}), ended: make(chan struct{})}
	s.conns.Go(s.accept)
	return s, nil
}

// Stop removes the socket and ends reading. It is called while the state's lock is still held,
// for what is there afterwards is the next process's. Who has asked for a
// cancel waits on. It is idempotent.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.reading.Lock()
		close(s.stopped)
		s.reading.Unlock()
		_ = s.listener.Close()
		s.readers.Wait()
		_ = os.Remove(s.socket)
	})
}

// Close is Stop, and tells those who wait how the run ended, which is what
// Run.Snapshot now says. It is called when everything of the run is stored, is
// idempotent and returns when nothing of the server runs any more.
func (s *Server) Close() {
	s.Stop()
	s.end.Do(func() { close(s.ended) })
	s.conns.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.stopped:
				return
			case <-time.After(100 * time.Millisecond): // out of descriptors; they come back
			}
			continue
		}
		s.conns.Go(func() { s.serve(c) })
	}
}

// serve answers one request.
func (s *Server) serve(c net.Conn) {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	limited := &io.LimitedReader{R: c, N: maxMessage}
	from := bufio.NewReader(limited)
	line, err := from.ReadBytes('\n')
	if err != nil {
		return // it has changed its mind
	}
	var q request
	r := reply{V: protocol}
	switch err := json.Unmarshal(line, &q); {
	case err != nil:
		r.Error = "the request is not JSON: " + err.Error()
	case q.V != protocol:
		r.Error = fmt.Sprintf("version %d of the protocol is asked for, the run speaks %d; use the engine that started it", q.V, protocol)
	case q.Verb == "snapshot", q.Verb == "records":
	case q.Verb == "cancel":
		if at := s.run.Snapshot(); q.Run != "" && q.Run != at.Run {
			r.Error = fmt.Sprintf("run %s is going on, not %s", at.Run, q.Run)
			break
		}
		s.run.Cancel(q.Reason)
		<-s.ended
	default:
		r.Error = fmt.Sprintf("the run does not know %q", q.Verb)
	}
	r.Snapshot = s.run.Snapshot()
	b, err := json.Marshal(&r)
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.Write(append(b, '\n'))
	if q.Verb == "records" && r.Error == "" {
		_ = c.SetDeadline(time.Time{})
		limited.N = math.MaxInt64
		s.serveRecords(c, from)
	}
}

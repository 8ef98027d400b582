package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/host"
)

// journal writes a run's events to STATE/runs/ID.jsonl, one JSON object a line.
// It survives a kill of the process (not a power cut), and can be read while
// the run goes on.
type journal struct {
	dir    string
	sealer *checkpoint.Sealer // nil if the state is not encrypted
	file   *os.File
	run    checkpoint.RunID
	size   int64 // of the file
	buf    bytes.Buffer
	sealed []byte
	err    error
}

func newJournal(state string, sealer *checkpoint.Sealer) *journal {
	return &journal{dir: filepath.Join(state, "runs"), sealer: sealer}
}

// Observe appends the events in one write.
func (j *journal) Observe(events []host.Event) {
	if j.err != nil {
		return
	}
	j.buf.Reset()
	enc := json.NewEncoder(&j.buf)
	enc.SetEscapeHTML(false)
	for i := range events {
		e := &events[i]
		if e.Type == host.EventRunStarted && j.err == nil {
			j.err = j.open(e.Run)
		}
		if e.Type == host.EventEmit || e.Type == host.EventProgress {
			continue // for those who watch; never kept
		}
		if j.err == nil {
			j.err = enc.Encode(e)
		}
	}
	if j.file != nil && j.err == nil {
		text := j.buf.Bytes()
		if j.sealer != nil {
			j.sealed = appendSealed(j.sealed[:0], text, j.sealer, j.run, j.size)
			text = j.sealed
		}
		_, j.err = j.file.Write(text)
		j.size += int64(len(text))
	}
}

func (j *journal) open(id checkpoint.RunID) error {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(j.dir, string(id)+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	j.file, j.run = f, id
	if err := mend(f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		j.size = info.Size()
	}
	return err
}

// mend ends the last line of a journal whose writer was killed in the middle of
// it.
func mend(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = f.Write([]byte("\n"))
	return err
}

// Close reports the first error of a write.
func (j *journal) Close() error {
	if j.file != nil {
		j.err = errors.Join(j.err, j.file.Close())
		j.file = nil
	}
	if j.err != nil {
		return fmt.Errorf("journal of the run: %w", j.err)
	}
	return nil
}

// story is a journal that was read.
type story struct {
	ID       checkpoint.RunID
	Events   []host.Event // of all continuations
	Started  time.Time
	Ended    time.Time // zero while it goes on, or when it was interrupted
	Workflow string
	Status   checkpoint.RunStatus
	Counts   host.Counts
	Took     time.Duration // of the last continuation
	Outputs  []host.Output

	damaged error          // why it could not be read; all else but the ID is zero then
	fans    map[string]int // steps and instances whose for_each is known: how many instances
	crowds  crowds         // of the last continuation
}

// readStory reads one run's journal. A line that was cut by a kill is passed
// over; one that was changed in an encrypted state is an error.
func readStory(state string, sealer *checkpoint.Sealer, id checkpoint.RunID, live bool) (*story, error) {
	path := filepath.Join(state, "runs", string(id)+".jsonl")
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // a device or pipe would never end
		return nil, fmt.Errorf("journal %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &story{ID: id, crowds: crowds{}}
	r := bufio.NewReader(f)
	lines := lineReader{sealer: sealer, run: id}
	for {
		line, err := r.ReadBytes('\n')
		e, ok, derr := lines.decode(line)
		if derr != nil {
			return nil, fmt.Errorf("%s: %w", path, derr)
		}
		if ok {
			s.add(e)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if s.Status == checkpoint.RunRunning && !live {
		s.Status = checkpoint.RunInterrupted
	}
	return s, nil
}

func (s *story) add(e host.Event) {
	s.Events = append(s.Events, e)
	if s.crowds.stand(e.Step) && (e.Type == host.EventSucceeded || e.Type == host.EventFailed || e.Type == host.EventSkipped || e.Type == host.EventCancelled) {
		return // its instances are counted
	}
	switch e.Type {
	case host.EventRunStarted:
		if s.Started.IsZero() {
			s.Started = e.Time
		}
		s.Workflow, s.Status, s.Ended, s.Counts, s.Outputs = e.Workflow, checkpoint.RunRunning, time.Time{}, *e.Counts, nil
		s.crowds = crowds{}
	case host.EventRunEnded:
		s.Status, s.Ended, s.Counts, s.Took = e.Status, e.Time, *e.Counts, e.Took
	case host.EventOutputs:
		s.Outputs = e.Outputs
	case host.EventExpanded:
		if s.fans == nil {
			s.fans = map[string]int{}
		}
		s.fans[e.Step] = e.Instances
		s.Counts.Total += s.crowds.expanded(&e)
	case host.EventSucceeded: // counted here until the run's end brings the counts
		s.Counts.Ran++
	case host.EventReused:
		s.Counts.Reused++
	case host.EventSkipped:
		s.Counts.Skipped++
	case host.EventFailed:
		s.Counts.Failed++
	case host.EventCancelled:
		s.Counts.Cancelled++
	}
}

// stories reads all runs of a state, newest first, behind them those whose
// journals are damaged.
func stories(state place) ([]*story, error) {
	entries, err := os.ReadDir(filepath.Join(state.dir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sealer, err := state.sealer()
	if err != nil {
		return nil, err
	}
	live := isLive(state.dir)
	var ss []*story
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if !ok || !e.Type().IsRegular() {
			continue
		}
		s, err := readStory(state.dir, sealer, checkpoint.RunID(id), live)
		if err != nil {
			s = &story{ID: checkpoint.RunID(id), damaged: err}
		}
		if len(s.Events) > 0 || err != nil {
			ss = append(ss, s)
		}
	}
	slices.SortFunc(ss, func(a, b *story) int { return b.Started.Compare(a.Started) })
	return ss, nil
}

// called reports whether a person means this run by id, the beginning of its own.
func (s *story) called(id string) bool {
	return id == "" || id == "latest" || strings.HasPrefix(string(s.ID), id) || strings.HasPrefix(string(s.ID), "r_"+id)
}

// storyError is the exit for journals that cannot be read.
func storyError(err error) error {
	var known *exitError
	if errors.As(err, &known) {
		return err
	}
	return exit(exitStore, "%w", err)
}

// whole is the story, if it could be read.
func (s *story) whole() (*story, error) {
	if s.damaged != nil {
		return nil, storyError(s.damaged)
	}
	return s, nil
}

// readable leaves out the stories that are damaged, and says so.
func readable(io streams, ss []*story) []*story {
	return slices.DeleteFunc(ss, func(s *story) bool {
		if s.damaged != nil {
			fmt.Fprintf(io.err, "Warning: run %s is left out: %s\n", s.ID, oneLine(s.damaged.Error()))
		}
		return s.damaged != nil
	})
}

// findStory finds a run by its ID, a unique prefix of it, or "latest" ("" too).
func findStory(state place, id string) (*story, error) {
	ss, err := stories(state)
	if err != nil {
		return nil, storyError(err)
	}
	if len(ss) == 0 {
		return nil, exit(exitUsage, "there are no runs in %s; see: engine apply", state)
	}
	if id == "" || id == "latest" {
		return ss[0].whole()
	}
	var found []*story
	for _, s := range ss {
		if s.ID == checkpoint.RunID(id) {
			return s.whole()
		}
		if s.called(id) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, exit(exitUsage, "there is no run %q in %s; see: engine runs", id, state)
	case 1:
		return found[0].whole()
	}
	return nil, exit(exitUsage, "%q fits %s and %s; give more of the id", id, found[0].ID, found[1].ID)
}

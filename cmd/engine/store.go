package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/checkpoint/pebblestore"
	"github.com/retrace-dev/engine/hcl"
	"github.com/retrace-dev/engine/host/control"
)

// tenant is whose records the command line works on.
const tenant = "default"

// hasStore is an error that says what to do if there is no store yet.
func hasStore(state place) error {
	_, err := os.Stat(state.store())
	if errors.Is(err, fs.ErrNotExist) {
		return exit(exitUsage, "there is no store in %s; see: engine apply", state)
	}
	if err != nil {
		return exit(exitStore, "%w", err)
	}
	return nil
}

// openToRead opens the store there is, and changes nothing in it.
// what is not possible while a run has it.
func openToRead(io streams, state place, what string) (*pebblestore.Store, error) {
	s, err := openUnheld(io, state)
	if errors.Is(err, pebblestore.ErrLocked) {
		err = held(state.dir, err, what)
	}
	return s, err
}

// records are what is stored, whether a run has it open or not.
type records interface {
	checkpoint.Store
	control.Records
}

// recordsOf is openToRead for who does with the records of the run that has the
// state.
func recordsOf(io streams, state place, what string) (records, error) {
	s, err := openUnheld(io, state)
	if errors.Is(err, pebblestore.ErrLocked) {
		live, _, err := ofLiveRun(io, state, err, what)
		if err != nil {
			return nil, err
		}
		return live, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openUnheld opens the store of a state to be read, if no process has it.
func openUnheld(io streams, state place) (*pebblestore.Store, error) {
	if err := hasStore(state); err != nil {
		return nil, err
	}
	s, err := state.openForReading(pebblestore.Options{Logger: logger(io)})
	var given *exitError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &given), errors.Is(err, pebblestore.ErrLocked):
		return nil, err
	}
	return nil, storeError(err)
}

func newStore(io streams) *cobra.Command {
	c := &cobra.Command{Use: "store", Short: "Look after the store", Args: cobra.NoArgs}
	c.AddCommand(newStoreCheck(io), newStoreRotate(io))
	return c
}

// damageLine is one thing that is wrong.
type damageLine struct {
	Type     string           `json:"type"` // "damage"
	Tenant   string           `json:"tenant,omitempty"`
	What     string           `json:"what"`
	Seq      checkpoint.Seq   `json:"seq,omitempty"`
	Workflow string           `json:"workflow,omitempty"`
	Step     string           `json:"step,omitempty"`
	Instance string           `json:"instance,omitempty"`
	Run      checkpoint.RunID `json:"run,omitempty"`
	File     string           `json:"file,omitempty"`
	Cause    string           `json:"cause"`
}

// healthLine is the last line of a check.
type healthLine struct {
	Type        string         `json:"type"` // "store"
	OK          bool           `json:"ok"`
	Tenants     int            `json:"tenants"`
	Checkpoints int            `json:"checkpoints"`
	Husks       int            `json:"husks"`
	Runs        int            `json:"runs"`
	Attempts    int            `json:"attempts"`
	Intents     int            `json:"intents"`
	Outputs     int            `json:"outputs_verified"`
	OutputBytes int64          `json:"output_bytes"`
	Files       int            `json:"files"`
	FileBytes   int64          `json:"file_bytes"`
	DiskBytes   int64          `json:"database_bytes"`
	Orphans     int            `json:"orphans"`
	Last        checkpoint.Seq `json:"last"`
	Behind      checkpoint.Seq `json:"behind,omitempty"`
}

func newStoreCheck(io streams) *cobra.Command {
	var state place
	var asJSON bool
	c := &cobra.Command{
		Use: "check", Short: "Read everything that is stored and verify it", Args: cobra.NoArgs,
		Long: `Reads every record, output and file of the store, verifies their digests, and
names what is damaged: exit 74. It changes nothing. A checkpoint whose output is
damaged or missing is run again by the next apply that needs it. While a run goes
on there is no check: it reads all there is, and would hold the run up.`,
		Example: `  engine store check
  engine store check --json | jq -r 'select(.type=="damage").file'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				writeVersion(io.out)
			}
			s, err := openToRead(io, stateDir(state, "."), "a check reads all that is stored, which would hold a run up, so there is none")
			if asJSON && errors.Is(err, checkpoint.ErrCorrupt) { // too damaged to be opened
				writeJSON(io.out, damageLine{Type: "damage", What: "database", Cause: err.Error()})
				writeJSON(io.out, healthLine{Type: "store"})
			}
			if err != nil {
				return err
			}
			defer s.Close()
			h, err := s.Check(c.Context())
			if err != nil {
				return exit(exitStore, "%w", err)
			}
			for _, d := range h.Damages {
				if asJSON {
					writeJSON(io.out, damageLine{"damage", d.Tenant, d.What, d.Seq, d.Workflow, d.Step, d.Instance, d.Run, d.File, d.Cause.Error()})
					continue
				}
				fmt.Fprintf(io.out, "  damaged: %s\n", oneLine(damageText(d)))
			}
			if asJSON {
				writeJSON(io.out, healthLine{
					"store", len(h.Damages) == 0, h.Tenants, h.Checkpoints, h.Husks, h.Runs, h.Attempts, h.Intents, h.Outputs, h.OutputBytes,
					h.Files, h.FileBytes, h.DiskBytes, h.Orphans, h.Last, h.Behind,
				})
			} else {
				writeHealth(io, h)
			}
			if n := len(h.Damages); n > 0 {
				return exit(exitStore, "the store is damaged: %s; what is lost runs again with the next apply", count(n, "finding"))
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

func damageText(d pebblestore.Damage) string {
	text := d.What
	if d.Seq > 0 {
		text += fmt.Sprintf(" of record %d", d.Seq)
	}
	var of []string
	if d.Step != "" {
		of = append(of, hcl.InstanceAddress(d.Step, d.Instance))
	}
	if d.Workflow != "" {
		of = append(of, fmt.Sprintf("workflow %q", d.Workflow))
	}
	if d.Run != "" {
		of = append(of, fmt.Sprintf("run %s", d.Run))
	}
	if len(of) > 0 {
		text += " (" + strings.Join(of, ", ") + ")"
	}
	if d.Tenant != "" && d.Tenant != tenant {
		text += fmt.Sprintf(" of tenant %q", d.Tenant)
	}
	if d.File != "" && !strings.Contains(d.Cause.Error(), d.File) {
		text += ", " + d.File
	}
	return text + ": " + d.Cause.Error()
}

func writeHealth(io streams, h *pebblestore.Health) {
	fmt.Fprintf(io.out, "%s (%d without output), %s, %s, %s; the last record is %d\n",
		count(h.Checkpoints, "checkpoint"), h.Husks, count(h.Runs, "run"), count(h.Attempts, "attempt"), count(h.Intents, "intent"), h.Last)
	fmt.Fprintf(io.out, "%s verified, %s; the database has %s, %s %s\n",
		count(h.Outputs, "output"), formatSize(h.OutputBytes), formatSize(h.DiskBytes), count(h.Files, "file"), formatSize(h.FileBytes))
	if h.Orphans > 0 {
		fmt.Fprintf(io.out, "%s that nothing names; engine gc removes them\n", count(h.Orphans, "leftover"))
	}
	if len(h.Damages) == 0 {
		fmt.Fprintln(io.out, "everything verifies")
	}
}

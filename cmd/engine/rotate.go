package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/retrace-dev/engine/checkpoint/pebblestore"
)

func newStoreRotate(io streams) *cobra.Command {
	var state place
	var to string
	var asJSON bool
	c := &cobra.Command{
		Use: "rotate", Short: "Give an encrypted state another key", Args: cobra.NoArgs,
		Long: `Wraps the keys of the data with the new key instead of the one given with
--key-from, in one step: after a crash the state has the one or the other, and
the same command can be asked for again. The data itself is not touched.`,
		Example: `  engine store rotate --key-from old.key --new-key-from new.key
  engine store rotate --key-from old.key --new-key-from env:NEW_KEY`,
		RunE: func(c *cobra.Command, _ []string) error {
			state := stateDir(state, ".")
			if err := hasStore(state); err != nil {
				return err
			}
			from, err := state.key()
			if err != nil {
				return err
			}
			next, err := place{state.dir, to}.key()
			if err != nil {
				return err
			}
			if next.IsZero() {
				return exit(exitUsage, "rotate needs the new key: --new-key-from names the file or env:NAME that has it")
			}
			done, err := pebblestore.Rotate(state.store(), pebblestore.Options{Logger: logger(io), Key: from}, next)
			if errors.Is(err, pebblestore.ErrLocked) {
				return held(state.dir, err, "the key cannot be changed")
			}
			if err != nil {
				return storeError(err)
			}
			switch {
			case asJSON:
				writeVersion(io.out)
				writeJSON(io.out, map[string]any{"type": "rotate", "key": next.ID(), "rotated": done})
			case done:
				fmt.Fprintf(io.out, "%s opens the state in %s from now on, and %s does not any more\n", next, state, from)
			default:
				fmt.Fprintf(io.out, "%s opens the state in %s already\n", next, state)
			}
			return nil
		},
	}
	addState(c, &state)
	c.Flags().StringVar(&to, "new-key-from", "", "`file` that holds the new key, or env:NAME")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON to stdout, one object a line")
	return c
}

package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/retrace-dev/engine/checkpoint"
	"github.com/retrace-dev/engine/sdk"
)

// Damage is one thing that is wrong with a store.
type Damage struct {
	Tenant string
	What   string         // "checkpoint", "output", "file", "run", "attempt", "intent", "database", "head"
	Seq    checkpoint.Seq // of the record; 0 if it is none's
	File   string         // that is damaged or missing, where it is known
	Cause  error          // names the file where the database knows it

	// Whose record it is, as far as that can still be read. Of an output that several
	// records name it is the newest of them.
	Workflow, Step, Instance string
	Run                      checkpoint.RunID
}

// Health is what Check found.
type Health struct {
	Tenants     int
	Checkpoints int
	Husks       int // checkpoints whose output is not kept, on purpose
	Runs        int
	Attempts    int
	Intents     int
	Outputs     int // read and verified
	OutputBytes int64
	Files       int   // of large outputs, those that nothing names among them
	FileBytes   int64 // of them
	Orphans     int   // outputs and files that nothing names; gc removes them
	DiskBytes   int64 // of the database
	Last        checkpoint.Seq
	Behind      checkpoint.Seq // see Store.Behind
	Damages     []Damage
}

// Check reads everything, decodes it and verifies every output. What is wrong
// is in Health.Damages; the error is one of ctx or of the store as a whole. It
// may be called on a store in use and changes nothing.
func (s *Store) Check(ctx context.Context) (*Health, error) {
	c := check{s: s, ctx: ctx, h: &Health{Behind: s.behind}}
	err := s.read(ctx, "check", func() error {
		if !s.readOnly { // what is on its way to a file is not missing
			if err := s.Barrier(ctx); err != nil {
				return err
			}
		}
		s.blobs.io.Lock()
		defer s.blobs.io.Unlock()
		s.mu.Lock()
		c.h.Last = s.last
		s.mu.Unlock()
		return c.all()
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.h.Damages, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Seq, b.Seq))
	})
	return c.h, nil
}

// check is one Check under way.
type check struct {
	s   *Store
	ctx context.Context
	h   *Health
}

func (c *check) damage(d Damage) { c.h.Damages = append(c.h.Damages, d) }

func (c *check) all() error {
	if c.s.behind > 0 {
		c.damage(Damage{What: "head", File: c.s.fs.PathJoin(c.s.dir, headFile),
			Cause: fmt.Errorf("records up to %d were persisted, and the newest of them are lost", c.s.behind)})
	}
	m := c.s.db.Metrics()
	c.h.DiskBytes = int64(m.DiskSpaceUsage())
	if err := c.s.db.CheckLevels(&pebble.CheckLevelsStats{}); err != nil {
		c.damage(Damage{What: "database", Cause: readError(err)})
	}
	tenants, err := c.s.tenants()
	if err != nil {
		c.damage(Damage{What: "database", Cause: err})
	}
	c.h.Tenants = len(tenants)
	for _, tenant := range tenants {
		from := len(c.h.Damages)
		if err := c.tenant(tenant); err != nil {
			return err
		}
		c.name(tenant, c.h.Damages[from:])
	}
	return context.Cause(c.ctx)
}

// name says of damages whose records they are: by their heads, or where a head is
// damaged by its context. It reads again, for most stores have nothing to be named.
func (c *check) name(tenant string, damages []Damage) {
	of := map[checkpoint.Seq][]*Damage{}
	for i := range damages {
		if d := &damages[i]; d.Seq > 0 && d.Run == "" {
			of[d.Seq] = append(of[d.Seq], d)
		}
	}
	if len(of) == 0 {
		return
	}
	open := c.s.opener()
	// What cannot be read was told of by the scan before.
	prefix := tenantPrefix(nil, tenant, kindContext)
	_ = c.s.scanStored(c.ctx, prefix, func(key, value []byte) error {
		seq, _ := keySeq(key)
		if len(of[seq]) == 0 {
			return nil
		}
		value, err := open(key, value)
		if err != nil {
			return nil
		}
		workflow, part, ok := splitName(value)
		if !ok {
			return nil
		}
		for _, d := range of[seq] {
			d.Workflow = workflow
			if x, err := checkpoint.DecodePart[checkpoint.Context](part); err == nil {
				d.Step, d.Run = x.Producer.Step, x.Producer.Run
			}
		}
		return nil
	})
	prefix = tenantPrefix(nil, tenant, kindHead)
	_ = c.s.scanStored(c.ctx, prefix, func(key, value []byte) error {
		workflow, _, ok := splitName(key[len(prefix):])
		value, err := open(key, value)
		if !ok || err != nil {
			return nil
		}
		h, err := checkpoint.DecodeHead(value)
		if err != nil {
			return nil
		}
		h.Seq, _ = keySeq(key)
		for _, seq := range []checkpoint.Seq{h.Data.Seq, h.Seq} {
			for _, d := range of[seq] {
				d.Workflow, d.Step, d.Instance, d.Run = workflow, h.Step, h.Instance, h.Run
			}
		}
		return nil
	})
}

// scan calls f with each key and value; what it returns, and what the database
// cannot read, is a damage of this kind.
func (c *check) scan(tenant, what string, prefix []byte, f func(seq checkpoint.Seq, key, value []byte) error) {
	open := c.s.opener()
	err := c.s.scanStored(c.ctx, prefix, func(key, value []byte) error {
		seq, ok := keySeq(key[len(prefix):])
		err := error(checkpoint.ErrFormat)
		if ok {
			value, err = open(key, value)
		}
		if ok && err == nil {
			err = f(seq, key, value)
		}
		if err != nil {
			d := Damage{Tenant: tenant, What: what, Seq: seq, Cause: err}
			switch what {
			case "run", "attempt", "intent":
				id, _, _ := splitName(key[len(prefix):])
				d.Run = checkpoint.RunID(id)
			}
			c.damage(d)
		}
		return nil
	})
	if err != nil && c.ctx.Err() == nil {
		c.damage(Damage{Tenant: tenant, What: "database", Cause: fmt.Errorf("%ss after this are not checked: %w", what, err)})
	}
}

func (c *check) tenant(tenant string) error {
	refs := map[checkpoint.Seq]checkpoint.DataRef{} // what heads name
	heads := map[checkpoint.Seq]bool{}
	prefix := tenantPrefix(nil, tenant, kindHead)
	c.scan(tenant, "checkpoint", prefix, func(seq checkpoint.Seq, key, value []byte) error {
		if _, rest, ok := splitName(key[len(prefix):]); !ok || len(rest) != 8 {
			return checkpoint.ErrFormat
		}
		heads[seq] = true
		c.h.Checkpoints++
		h, err := checkpoint.DecodeHead(value)
		switch {
		case err != nil:
			return err
		case h.Outcome == checkpoint.Succeeded && h.ID != checkpoint.NewID(h.Content, h.Output):
			return fmt.Errorf("its ID %s does not follow from content key and output", h.ID)
		case h.Data.Seq != 0:
			refs[h.Data.Seq] = h.Data
		case h.Outcome == checkpoint.Succeeded:
			c.h.Husks++
		}
		return nil
	})
	c.scan(tenant, "checkpoint", tenantPrefix(nil, tenant, kindContext), func(seq checkpoint.Seq, _, value []byte) error {
		if !heads[seq] {
			return errors.New("its head is missing")
		}
		delete(heads, seq)
		_, part, ok := splitName(value)
		if !ok {
			return checkpoint.ErrFormat
		}
		_, err := checkpoint.DecodePart[checkpoint.Context](part)
		return err
	})
	for seq := range heads {
		c.damage(Damage{Tenant: tenant, What: "checkpoint", Seq: seq, Cause: errors.New("its context is missing")})
	}
	c.runs(tenant)
	c.files(tenant)
	return c.outputs(tenant, refs)
}

func (c *check) runs(tenant string) {
	seen := map[string]bool{}
	prefix := tenantPrefix(nil, tenant, kindRun)
	c.scan(tenant, "run", prefix, func(_ checkpoint.Seq, key, value []byte) error {
		id, _, ok := splitName(key[len(prefix):])
		_, part, ok2 := splitName(value)
		if !ok || !ok2 {
			return checkpoint.ErrFormat
		}
		seen[id] = true
		_, err := checkpoint.DecodePart[checkpoint.RunRecord](part)
		return err
	})
	c.h.Runs += len(seen)
	c.scan(tenant, "attempt", tenantPrefix(nil, tenant, kindAttempt), func(_ checkpoint.Seq, _, value []byte) error {
		c.h.Attempts++
		_, err := checkpoint.DecodePart[checkpoint.AttemptRecord](value)
		return err
	})
	c.scan(tenant, "intent", tenantPrefix(nil, tenant, kindIntent), func(_ checkpoint.Seq, _, value []byte) error {
		c.h.Intents++
		_, err := checkpoint.DecodePart[checkpoint.Intent](value)
		return err
	})
}

// files verifies the texts of flows.
func (c *check) files(tenant string) {
	prefix := tenantPrefix(nil, tenant, kindFile)
	c.scan(tenant, "file of a flow", prefix, func(_ checkpoint.Seq, key, value []byte) error {
		name, _, ok := splitName(key[len(prefix):])
		if !ok || len(value) == 0 {
			return checkpoint.ErrFormat
		}
		digest, err := c.s.vault.name(tenant, sdk.Sum(value[1:]))
		if err == nil && name != string(digest[:]) {
			err = fmt.Errorf("%w: its text is not the one it is stored under", checkpoint.ErrCorrupt)
		}
		return err
	})
}

// outputs verifies what the heads name; refs loses what was found.
func (c *check) outputs(tenant string, refs map[checkpoint.Seq]checkpoint.DataRef) error {
	c.scan(tenant, "output", tenantPrefix(nil, tenant, kindData), func(seq checkpoint.Seq, _, value []byte) error {
		ref, named := refs[seq]
		if !named {
			c.h.Orphans++
			return nil
		}
		delete(refs, seq)
		return c.verified(ref, ref.Verify(value))
	})
	needed := map[sdk.Digest]checkpoint.DataRef{} // files by their names, each read once
	c.scan(tenant, "output", tenantPrefix(nil, tenant, kindBlob), func(seq checkpoint.Seq, _, value []byte) error {
		e, ok := decodeBlobEntry(value)
		if !ok {
			return checkpoint.ErrFormat
		}
		ref, named := refs[seq]
		if !named {
			c.h.Orphans++
			return nil
		}
		delete(refs, seq)
		if e.sum != ref.SHA256 || e.size != ref.Size {
			return errors.New("its record names another file than it has")
		}
		name, err := c.s.vault.name(tenant, e.sum)
		needed[name] = ref
		return err
	})
	links := map[sdk.Digest]link{}
	c.scan(tenant, "output", tenantPrefix(nil, tenant, kindLinks), func(seq checkpoint.Seq, _, value []byte) error {
		ds, ok := decodeLinks(value)
		if !ok {
			return checkpoint.ErrFormat
		}
		for _, d := range ds {
			name, err := c.s.vault.name(tenant, d)
			if err != nil {
				return err
			}
			links[name] = link{seq, d}
		}
		return nil
	})
	for seq := range refs {
		c.damage(Damage{Tenant: tenant, What: "output", Seq: seq, Cause: checkpoint.ErrNotFound})
	}
	return c.blobFiles(tenant, needed, links)
}

// blobFiles reads the files of a tenant and says which of those that outputs and blobs
// name are missing or damaged.
func (c *check) blobFiles(tenant string, needed map[sdk.Digest]checkpoint.DataRef, links map[sdk.Digest]link) error {
	seen := map[sdk.Digest]bool{}
	err := c.s.blobs.each(tenant, func(f blobFile) error {
		c.h.Files++
		c.h.FileBytes += f.size
		ref, ok := needed[f.sum]
		l, linked := links[f.sum]
		if !f.named || !ok && !linked {
			c.h.Orphans++
			return nil
		}
		seen[f.sum] = true
		if !ok {
			if _, err := c.s.blobs.whole(blobKey{tenant, l.digest}); err != nil {
				c.damage(Damage{Tenant: tenant, What: "file", Seq: l.seq, File: f.path, Cause: err})
			}
			return context.Cause(c.ctx)
		}
		delete(needed, f.sum)
		_, err := c.s.blobs.read(blobKey{tenant, ref.SHA256}, ref)
		if err := c.verified(ref, err); err != nil {
			c.damage(Damage{Tenant: tenant, What: "file", Seq: ref.Seq, File: f.path, Cause: err})
		}
		return context.Cause(c.ctx)
	})
	if err != nil {
		return err // not all files were seen
	}
	for name, l := range links {
		if _, large := needed[name]; seen[name] || large {
			continue
		}
		_, file, err := c.s.blobs.path(blobKey{tenant, l.digest})
		if err != nil {
			return err
		}
		c.damage(Damage{Tenant: tenant, What: "file", Seq: l.seq, File: file, Cause: checkpoint.ErrNotFound})
	}
	for _, ref := range needed {
		_, file, err := c.s.blobs.path(blobKey{tenant, ref.SHA256})
		if err != nil {
			return err
		}
		c.damage(Damage{Tenant: tenant, What: "file", Seq: ref.Seq, File: file, Cause: checkpoint.ErrNotFound})
	}
	return nil
}

// link is a blob that the output of a record refers to.
type link struct {
	seq    checkpoint.Seq
	digest sdk.Digest
}

func (c *check) verified(ref checkpoint.DataRef, err error) error {
	if err == nil {
		c.h.Outputs++
		c.h.OutputBytes += ref.Size
	}
	return err
}

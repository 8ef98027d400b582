package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

type entitiesInput struct {
	document
	Limit int `json:"limit"`
}

type entitiesOutput struct {
	Entities []found `json:"entities"`
}

type found struct {
	Name     string   `json:"name"`
	Kind     string   `json:"kind"`
	Count    int      `json:"count"`
	Chapters []int    `json:"chapters"` // numbers
	Aliases  []string `json:"aliases"`
}

// entities finds who and what a text is about, by the capitals of its names, or,
// in Chinese, by who speaks and by surnames and endings of places.
func entities(_ context.Context, in entitiesInput, _ sdk.Host) (*entitiesOutput, error) {
	chapters, err := in.parts()
	if err != nil {
		return nil, err
	}
	if err := atMost("/limit", &in.Limit, 15, 1000); err != nil {
		return nil, err
	}
	t := table{}
	namesWithCapitals(texts(chapters), t)
	namesInChinese(texts(chapters), t)
	out := &entitiesOutput{Entities: []found{}}
	for _, e := range t.sorted() {
		if len(out.Entities) == in.Limit {
			break
		}
		f := found{Name: e.name, Kind: e.kind(), Count: e.count, Aliases: append([]string{}, e.aliases...)}
		for _, c := range e.chapters {
			f.Chapters = append(f.Chapters, chapters[c].Number)
		}
		out.Entities = append(out.Entities, f)
	}
	return out, nil
}

// entity is what is known of a name.
type entity struct {
	name     string
	count    int
	person   int   // signs that it is one: a title, a verb of speech
	place    int   // likewise: a preposition, "Street"
	chapters []int // indices, ascending
	aliases  []string
}

func (e *entity) see(chapter int) {
	e.count++
	if n := len(e.chapters); n == 0 || e.chapters[n-1] != chapter {
		e.chapters = append(e.chapters, chapter)
	}
}

func (e *entity) kind() string {
	switch {
	case e.person > 0 && e.person >= e.place:
		return "person"
	case e.place > 0:
		return "place"
	}
	return "other"
}

// covers tells whether every chapter that mentions the other mentions this one.
func (e *entity) covers(other *entity) bool {
	for _, c := range other.chapters {
		if !slices.Contains(e.chapters, c) {
			return false
		}
	}
	return true
}

// absorb takes over what is known of another name of the same thing, which this
// one covers.
func (e *entity) absorb(alias *entity) {
	e.count += alias.count
	e.person += alias.person
	e.place += alias.place
	e.aliases = append(e.aliases, alias.name)
}

// table holds the entities by name.
type table map[string]*entity

// of is the entity of that name, made at the first mention.
func (t table) of(name string) *entity {
	if t[name] == nil {
		t[name] = &entity{name: name}
	}
	return t[name]
}

// sorted gives the most mentioned first; equals in the order of their
// characters.
func (t table) sorted() []*entity {
	return slices.SortedFunc(maps.Values(t), func(a, b *entity) int {
		return cmp.Or(b.count-a.count, strings.Compare(a.name, b.name))
	})
}

package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// partStore is the store of a part; the engine's Close closes it.
type partStore struct{ *Store }

// Close implements store.Store.
func (partStore) Close() error { return nil }

// LoadVersions implements store.PartStore.
func (s partStore) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	if err := s.begin(ctx, "load versions"); err != nil {
		return nil, err
	}
	versions := make([]store.Version, len(keys))
	errs := s.perform(ctx, len(keys), &exchange{
		operation: "load versions",
		durable:   true, // as Load
		args: func(i int, _ bool) []any {
			return []any{"getrange", s.layout.place(keys[i]).record(), 0, versionLength - 1}
		},
		take: func(i int, reply any, _ bool) error {
			raw, _ := reply.(string) // "": there is none
			versions[i] = store.Version(raw)
			return nil
		},
	})
	if errs != nil {
		return versions, store.BatchError(errs)
	}
	return versions, nil
}

// DeleteVersion implements store.PartStore.
func (s partStore) DeleteVersion(ctx context.Context, key store.Key, version store.Version) (result store.SwapResult, err error) {
	if version == "" {
		result.Record, err = s.Load(ctx, key)
		return result, err
	}
	if err := s.begin(ctx, "delete version"); err != nil {
		return store.SwapResult{}, err
	}
	p := s.layout.place(key)
	errs := s.perform(ctx, 1, &exchange{
		operation: "delete version",
		durable:   true,
		args: func(_ int, whole bool) []any {
			return deleteVersionScript.args(whole, []string{p.record()}, string(version))
		},
		take: func(_ int, reply any, doubtful bool) (err error) {
			if _, deleted := reply.(int64); deleted {
				result = store.SwapResult{Swapped: true}
				return nil
			}
			if doubtful {
				return errOvertaken
			}
			s.stats.conflicts.Add(1)
			if raw, stands := reply.(string); stands {
				result.Record, err = decodeRecord(raw)
			}
			return err
		},
	})
	if errs != nil {
		return store.SwapResult{}, joined(errs)
	}
	if result.Swapped {
		s.purge(ctx, []store.Key{key})
	}
	return result, nil
}

// Part implements store.Parts. The store shares the engine's client, circuit breakers
// and counters, and has its own sweeper.
func (s *Store) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	if !part.IsKnown() {
		return nil, store.UnknownPart(part) // "" has the letter of the histories
	}
	o := s.options
	o.TTL = ttl
	return s.part(part, o), nil
}

// Chunks implements store.Chunks. Its log is as AppendLog's, with one list a key, and in place of records there
// are none.
func (s *Store) Chunks(length int, ttl time.Duration) store.ChunkLog {
	o := s.options
	o.TTL, o.LogLength, o.KeptLength = ttl, length, -1
	return s.part(store.ChunksPart, o)
}

// part returns the store of a part, which is made with these options if there is none.
func (s *Store) part(part store.Part, o Options) partStore {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	p := s.parts[part]
	if p == nil {
		p = newStore(o, s.layout.of(part), s.stats, s.closed)
		p.client = s.client
		if part.IsKnown() { // others have no index
			p.sweeper.start(p)
		}
		s.parts[part] = p
	}
	return partStore{p}
}

func (s *Store) allParts() []*Store {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	return slices.Collect(maps.Values(s.parts))
}

// LoadParts implements store.Parts.
func (s *Store) LoadParts(ctx context.Context, key store.Key, most int, parts ...store.Part) ([]store.Record, error) {
	if err := s.begin(ctx, "load"); err != nil {
		return nil, err
	}
	layouts := make([]*layout, len(parts))
	for i, part := range parts {
		if _, known := partLetters[part]; !known {
			return nil, fmt.Errorf("load: %w", store.UnknownPart(part))
		}
		layouts[i] = s.layout.of(part)
	}
	records, errs := s.loadFrom(ctx, len(parts), most, func(i int) place { return layouts[i].place(key) })
	if errs != nil {
		return records, store.BatchError(errs)
	}
	return records, nil
}

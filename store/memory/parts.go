package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// parts are the stores of parts, each a store of its own.
type parts struct {
	clock  func() time.Time
	mu     sync.Mutex
	stores map[store.Part]*Store // guarded by mu
}

// partStore is the store of a part; the engine's Close closes it.
type partStore struct{ *Store }

// Close implements store.Store.
func (partStore) Close() error { return nil }

// LoadVersions implements store.PartStore.
func (s partStore) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	now, err := s.begin(ctx, len(keys))
	if err != nil {
		return nil, fmt.Errorf("load versions of %d: %w", len(keys), err)
	}
	versions := make([]store.Version, len(keys))
	for i, key := range keys {
		sh := s.find(key)
		versions[i] = s.versions.write(sh.version(key, now))
	}
	return versions, nil
}

// DeleteVersion implements store.PartStore.
func (s partStore) DeleteVersion(ctx context.Context, key store.Key, version store.Version) (store.SwapResult, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return store.SwapResult{}, fmt.Errorf("delete version: %w", err)
	}
	sh := s.find(key)
	has, value, deleted := sh.deleteVersion(key, s.versions.read(version), now)
	return store.SwapResult{Swapped: deleted, Record: store.Record{Version: s.versions.write(has), Value: value}}, nil
}

// Part implements store.Parts.
func (s *Store) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	if !part.IsKnown() {
		return nil, store.UnknownPart(part)
	}
	return s.part(part, Options{TTL: ttl, LogLength: -1}), nil
}

// Chunks implements store.Chunks.
func (s *Store) Chunks(length int, ttl time.Duration) store.ChunkLog {
	return s.part(store.ChunksPart, Options{TTL: ttl, LogLength: length, KeptLength: -1})
}

// part returns the store of a part, which is made with these options if there is none.
func (s *Store) part(part store.Part, o Options) partStore {
	s.parts.mu.Lock()
	defer s.parts.mu.Unlock()
	p := s.parts.stores[part]
	if p == nil {
		o.FeedLength, o.Clock = -1, s.parts.clock
		p = New(o)
		if s.closed.Load() {
			_ = p.Close()
		}
		if s.parts.stores == nil {
			s.parts.stores = make(map[store.Part]*Store)
		}
		s.parts.stores[part] = p
	}
	return partStore{p}
}

// close closes the stores of all parts.
func (p *parts) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.stores {
		_ = s.Close()
	}
}

// LoadParts implements store.Parts.
func (s *Store) LoadParts(ctx context.Context, key store.Key, most int, parts ...store.Part) ([]store.Record, error) {
	records := make([]store.Record, len(parts))
	for i, part := range parts {
		of := s
		if part != "" {
			s.parts.mu.Lock()
			of = s.parts.stores[part]
			s.parts.mu.Unlock()
		}
		if of == nil {
			return nil, fmt.Errorf("load: %w", store.UnknownPart(part))
		}
		var err error
		if records[i], err = of.Load(ctx, key); err != nil {
			return nil, err
		}
		if most > 0 && len(records[i].Value) > most {
			records[i].Value, records[i].Cut = nil, true
		}
	}
	return records, nil
}

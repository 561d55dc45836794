package redis

import (
	"sync/atomic"

	"github.com/sony/gobreaker/v2"
)

// Stats are counts since the store was opened, and its state now.
type Stats struct {
	// RoundTrips are requests to a node with their answers, failed ones included: a
	// command or a pipeline. Commands are what they carried.
	RoundTrips, Commands uint64
	// Retries are commands that were sent again.
	Retries uint64
	// Conflicts are swaps that did not happen because the version was another.
	Conflicts uint64
	// Failures are commands that were given up.
	Failures uint64
	// ScriptLoads are scripts that had to be sent whole.
	ScriptLoads uint64
	// Purged are entries of expired keys that were taken out of the index.
	Purged uint64
	// Dials are attempts to connect.
	Dials uint64
	// BreakerTrips counts how often a circuit breaker opened, BreakersOpen how many
	// are open now: one stands before each node.
	BreakerTrips uint64
	BreakersOpen int
	// Connections are open ones, Idle those of them that wait for work.
	Connections, Idle int
	// PoolTimeouts counts waits for a connection that were given up.
	PoolTimeouts uint64
}

type counters struct {
	roundTrips, commands, retries, conflicts, failures atomic.Uint64
	scriptLoads, purged, dials, breakerTrips           atomic.Uint64
}

// breakersOpen counts the open breakers. The breaker of a node that has been replaced does
// not stay open.
func (s *Store) breakersOpen() (n int) {
	s.breakersMu.Lock()
	defer s.breakersMu.Unlock()
	for _, b := range s.breakers {
		if b.State() == gobreaker.StateOpen {
			n++
		}
	}
	return n
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	c := s.stats
	pool := s.client.PoolStats()
	return Stats{
		RoundTrips: c.roundTrips.Load(), Commands: c.commands.Load(), Retries: c.retries.Load(),
		Conflicts: c.conflicts.Load(), Failures: c.failures.Load(), ScriptLoads: c.scriptLoads.Load(),
		Purged: c.purged.Load(), Dials: c.dials.Load(),
		BreakerTrips: c.breakerTrips.Load(), BreakersOpen: s.breakersOpen(),
		Connections: int(pool.TotalConns), Idle: int(pool.IdleConns), PoolTimeouts: uint64(pool.Timeouts),
	}
}

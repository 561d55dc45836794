package redis

import (
	"sync/atomic"

	"github.com/sony/gobreaker/v2"
)

// Stats are counters since the store was opened, and its current state.
type Stats struct {
	// RoundTrips are requests to a node and their replies, including failed ones: a
	// command or a pipeline. Commands counts the commands in them.
	RoundTrips, Commands uint64
	// Retries are commands that were sent again.
	Retries uint64
	// Conflicts are swaps refused because the version had changed.
	Conflicts uint64
	// Failures are commands that failed after all retries.
	Failures uint64
	// ScriptLoads are commands that had to send the whole script.
	ScriptLoads uint64
	// Purged are index entries of expired and deleted keys that were removed.
	Purged uint64
	// Dials are attempts to connect.
	Dials uint64
	// BreakerTrips counts how often a circuit breaker opened; BreakersOpen is how many
	// are open now. Each node has one.
	BreakerTrips uint64
	BreakersOpen int
	// Connections is the number of open connections, Idle the unused ones among them.
	Connections, Idle int
	// PoolTimeouts counts the callers that gave up waiting for a connection.
	PoolTimeouts uint64
}

type counters struct {
	roundTrips, commands, retries, conflicts, failures atomic.Uint64
	scriptLoads, purged, dials, breakerTrips           atomic.Uint64
}

// breakersOpen counts the open breakers. go-redis drops replaced nodes, and their breakers
// are not counted.
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

// Stats returns the current counters.
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

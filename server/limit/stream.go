package limit

import "sync"

// Stream is an open stream of an identity. The zero value is closed.
type Stream struct {
	mu       sync.Mutex
	limiter  *Limiter
	identity *identity // guarded by mu
}

// Charge takes a unit of a caller's rate, for a stream that is a call by itself: it has one message, which needs no ticket.
// It is refused for IdentityRate.
func (l *Limiter) Charge(name string) Refusal {
	id := l.identities.find(name)
	refusal := id.charge(1, l.options.Clock)
	id.shard.mu.Unlock()
	if refusal.Refused() {
		return l.refuse(refusal.Reason, refusal.RetryAfter)
	}
	return Refusal{}
}

// Open opens a stream. The stream itself runs nothing: each of its messages is a call to
// admit. It is refused for Streams or IdentityStreams.
func (l *Limiter) Open(s *Stream, name string) Refusal {
	if !l.openStream() {
		return l.refuse(Streams, 0)
	}
	id := l.identities.find(name)
	if id.limits.Streams > 0 && id.streams >= int64(id.limits.Streams) {
		id.shard.mu.Unlock()
		l.streams.Add(-1)
		return l.refuse(IdentityStreams, 0)
	}
	if part := 3 * int64(l.options.Streams) / 4; part > 0 && name != "" && id.streams >= part {
		id.shard.mu.Unlock()
		l.streams.Add(-1)
		return l.refuse(IdentityStreams, 0)
	}
	id.streams++
	id.shard.mu.Unlock()
	s.mu.Lock()
	s.limiter, s.identity = l, id
	s.mu.Unlock()
	return Refusal{}
}

// Close closes the stream. It is idempotent.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identity == nil {
		return
	}
	s.identity.shard.mu.Lock()
	s.identity.streams--
	s.identity.shard.mu.Unlock()
	s.identity = nil
	s.limiter.streams.Add(-1)
}

// openStream takes one of the streams of all callers, if one is free.
func (l *Limiter) openStream() bool {
	if n := l.streams.Add(1); l.options.Streams > 0 && n > int64(l.options.Streams) {
		l.streams.Add(-1)
		return false
	}
	return true
}

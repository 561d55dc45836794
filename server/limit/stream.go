package limit

import "sync"

// Stream is an open stream of an identity. The zero value is one that is closed.
type Stream struct {
	mu       sync.Mutex
	identity *identity // guarded by mu
}

// Open opens a stream, which runs nothing by itself: its messages are calls, to be let in
// each. It is refused for IdentityStreams.
func (l *Limiter) Open(s *Stream, name string) Refusal {
	id := l.identities.find(name)
	if id.limits.Streams > 0 && id.streams >= int64(id.limits.Streams) {
		id.shard.mu.Unlock()
		return l.refuse(IdentityStreams, 0)
	}
	id.streams++
	id.shard.mu.Unlock()
	s.mu.Lock()
	s.identity = id
	s.mu.Unlock()
	return Refusal{}
}

// Close closes the stream; a second time it does nothing.
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
}

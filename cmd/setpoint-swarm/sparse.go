package main

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// sparseEvery is the least time between two lines of a sparse log.
const sparseEvery = time.Minute

// sparse logs what is written to it, of which others decide how often that is: a line a minute,
// which says how many were left out before it. It is safe for concurrent use.
type sparse struct {
	log *zap.Logger

	mu   sync.Mutex
	last time.Time // guarded by mu
	left int       // guarded by mu
}

// Write implements io.Writer.
func (s *sparse) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < sparseEvery {
		s.left++
		return len(line), nil
	}
	s.log.Warn("connection of a node", zap.String("error", strings.TrimSpace(string(line))), zap.Int("left_out", s.left))
	s.last, s.left = now, 0
	return len(line), nil
}

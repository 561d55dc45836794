package cluster

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/sharing"
)

// shared are answers of the cluster that several objects use, counted by call.
type shared[V any] struct {
	*sharing.Group[V]
	tally tally
}

func newShared[V any](tally tally, maxAge time.Duration) *shared[V] {
	return &shared[V]{sharing.New[V](maxAge), tally}
}

// get returns the answer for key, calling read if there is none yet. It returns the context's
// error when ctx ends.
func (s *shared[V]) get(ctx context.Context, call Call, key string, timeout time.Duration, read func(context.Context) (V, error)) (V, error) {
	value, joined, err := s.Get(ctx, key, timeout, func(ctx context.Context) (V, error) {
		value, err := read(ctx)
		s.tally.made(call, err)
		return value, err
	})
	if joined {
		s.tally.saved(call)
	}
	if ended := ctx.Err(); ended != nil {
		var none V
		return none, ended
	}
	return value, err
}

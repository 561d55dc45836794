package redis

import (
	"context"
	"errors"
	"net"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// nodeHook stands before each node: it counts round trips, and its circuit breaker
// answers for a node that has stopped to, so that callers fail fast instead of
// queueing up behind timeouts, and a shard that is away does not hold up others.
type nodeHook struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	stats   *counters
}

func (s *Store) newNodeHook(name string) *nodeHook {
	h := &nodeHook{stats: &s.stats}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        name,
		MaxRequests: 1,
		Timeout:     s.options.BreakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.options.BreakerFailures },
		OnStateChange: func(name string, from, to gobreaker.State) {
			s.stats.breakerChanged(from, to)
			if s.options.OnBreaker != nil {
				s.options.OnBreaker(name, to.String())
			}
		},
		IsSuccessful: func(err error) bool { return !isTransport(err) },
		// A caller that gave up says nothing of the node.
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
	})
	return h
}

// DialHook implements goredis.Hook.
func (h *nodeHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.stats.dials.Add(1)
		return next(ctx, network, addr)
	}
}

// ProcessHook implements goredis.Hook.
func (h *nodeHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if greets(cmd) {
			return next(ctx, cmd)
		}
		report, err := h.breaker.Allow()
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		h.stats.roundTrips.Add(1)
		h.stats.commands.Add(1)
		err = next(ctx, cmd)
		report(err)
		return err
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h *nodeHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if greets(cmds[0]) {
			return next(ctx, cmds)
		}
		report, err := h.breaker.Allow()
		if err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		h.stats.roundTrips.Add(1)
		h.stats.commands.Add(uint64(len(cmds)))
		err = next(ctx, cmds)
		report(transportError(err, cmds))
		return err
	}
}

// greets reports whether go-redis sends the command to greet the node on a new
// connection, which passes the hooks as well. It is part of the command that needs
// the connection: the only one that may try whether the node is back would be
// refused its own greetings, and the breaker never close.
func greets(cmd goredis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "readonly":
		return true
	}
	return false
}

// transportError finds what says that the node is not well: a pipeline returns
// the first command's error, which may be that command's own.
func transportError(err error, cmds []goredis.Cmder) error {
	if err == nil || isTransport(err) {
		return err
	}
	// A connection that breaks takes all that follow with it.
	if last := cmds[len(cmds)-1].Err(); isTransport(last) {
		return last
	}
	return nil
}

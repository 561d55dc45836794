package redis

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

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
	h := &nodeHook{stats: s.stats}
	h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        name,
		MaxRequests: 1,
		Timeout:     s.options.BreakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.options.BreakerFailures },
		OnStateChange: func(name string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				s.stats.breakerTrips.Add(1)
			}
			if s.options.OnBreaker != nil && (from == gobreaker.StateClosed || to == gobreaker.StateClosed) {
				s.options.OnBreaker(name, to != gobreaker.StateClosed)
			}
		},
		IsSuccessful: func(err error) bool { return !isTransport(err) },
		// A caller that gave up says nothing of the node, nor do more callers than there
		// are connections.
		IsExcluded: func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.Is(err, goredis.ErrPoolTimeout)
		},
	})
	s.breakersMu.Lock()
	defer s.breakersMu.Unlock()
	s.breakers[name] = h.breaker
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
		report(outcome(ctx, err))
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
		failUnsent(cmds, err)
		report(outcome(ctx, transportError(err, cmds)))
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

// failUnsent gives the commands of a pipeline the error that it ended with if none
// has one. Of a new connection whose greetings are answered by an error, which the
// driver takes for that of a command, they would know nothing and seem to have been
// answered by nil.
func failUnsent(cmds []goredis.Cmder, err error) {
	if err == nil || slices.ContainsFunc(cmds, func(c goredis.Cmder) bool { return c.Err() != nil }) {
		return
	}
	for _, c := range cmds {
		c.SetErr(err)
	}
}

// outcome is the input of the breaker. A caller whose time is up is one that gave up,
// though the driver says of both that reading took too long.
func outcome(ctx context.Context, err error) error {
	deadline, has := ctx.Deadline()
	if err != nil && (ctx.Err() != nil || has && !time.Now().Before(deadline)) {
		return context.Canceled
	}
	return err
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

package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// nodeHook runs before each command that go-redis sends to a node. It counts round
// trips, and its circuit breaker fails fast for a node that stopped responding, so that
// callers do not queue up behind timeouts and one failed shard does not block the
// others.
type nodeHook struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	stats   *counters
	// last is the last error that the breaker counted; nil: none.
	last atomic.Pointer[error]
	// cut is when a cut connection last counted, in nanoseconds since the Unix epoch.
	cut atomic.Int64
	// pool tells of the node's connections.
	pool func() *goredis.PoolStats
	// sentinels reports that the node is whichever sentinels name, and dialed is its address, nil: unknown.
	sentinels bool
	dialed    atomic.Pointer[string]
}

// noFurtherError is why there is no further connection to a node that has some: no sentinel answers, or its certificate
// has expired, say.
type noFurtherError struct{ error }

// Unwrap implements errors.Unwrap.
func (e *noFurtherError) Unwrap() error { return e.error }

// skippedError is why a node was left alone. Last, in its text, is why it was the last time that
// it was not. It is not unwrapped, since it is no error of this command: nobody knows what
// the node would answer now.
type skippedError struct{ breaker, last error }

// maxLastBytes limits what is quoted of an error.
const maxLastBytes = 300

// Error implements error.
func (e *skippedError) Error() string {
	text := e.last.Error()
	if len(text) > maxLastBytes {
		text = text[:maxLastBytes] + "…"
	}
	breaker := e.breaker.Error()
	if errors.Is(e.breaker, gobreaker.ErrTooManyRequests) {
		breaker = "circuit breaker is half open: one command tries the node"
	}
	return breaker + " (last: " + text + ")"
}

// Unwrap implements errors.Unwrap.
func (e *skippedError) Unwrap() error { return e.breaker }

// Last is the error for which the node is left alone.
func (e *skippedError) Last() error { return e.last }

// skipped adds the reason to an error of the breaker.
func (h *nodeHook) skipped(err error) error {
	if last := h.last.Load(); last != nil {
		return &skippedError{err, *last}
	}
	return err
}

// report tells the breaker how a command ended.
func (h *nodeHook) report(done func(error), err error) {
	if isTransport(err) && !errors.Is(err, goredis.ErrPoolTimeout) {
		last := err // so that only this one is on the heap
		h.last.Store(&last)
	}
	done(err)
}

func (s *Store) newNodeHook(name string, pool func() *goredis.PoolStats) *nodeHook {
	h := &nodeHook{stats: s.stats, pool: pool, sentinels: s.options.MasterName != ""}
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
				var because error
				if last := h.last.Load(); to != gobreaker.StateClosed && last != nil {
					because = *last
				}
				if address := h.dialed.Load(); address != nil {
					name = *address
				}
				s.options.OnBreaker(name, because)
			}
		},
		IsSuccessful: func(err error) bool { return !isTransport(err) },
		// A caller's cancellation says nothing about the node, nor does an exhausted
		// connection pool, nor that there is no further connection.
		IsExcluded: func(err error) bool {
			var further *noFurtherError
			return errors.Is(err, context.Canceled) || errors.Is(err, goredis.ErrPoolTimeout) || errors.As(err, &further)
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
		conn, err := next(ctx, network, addr)
		if h.sentinels {
			h.dialed.Store(dialedAt(conn, err))
		}
		if err != nil && h.pool().TotalConns > 0 {
			err = &noFurtherError{err}
		}
		return conn, err
	}
}

// dialedAt is the address of a connection or of its failure; nil if not even that is known, as where no sentinel answers.
func dialedAt(conn net.Conn, err error) *string {
	at := ""
	if failed, of := err.(*net.OpError); of && failed.Addr != nil { //nolint:errorlint // one wrapped is a sentinel's
		at = failed.Addr.String()
	} else if err == nil {
		at = conn.RemoteAddr().String()
	} else {
		return nil
	}
	return &at
}

// ProcessHook implements goredis.Hook.
func (h *nodeHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if setsUpConnection(cmd) {
			return next(ctx, cmd)
		}
		report, err := h.breaker.Allow()
		if err != nil {
			err = h.skipped(err)
			cmd.SetErr(err)
			return err
		}
		h.stats.roundTrips.Add(1)
		h.stats.commands.Add(1)
		err = next(ctx, cmd)
		h.report(report, h.outcome(ctx, err))
		return err
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h *nodeHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if setsUpConnection(cmds[0]) {
			return next(ctx, cmds)
		}
		report, err := h.breaker.Allow()
		if err != nil {
			err = h.skipped(err)
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		h.stats.roundTrips.Add(1)
		h.stats.commands.Add(uint64(len(cmds)))
		err = next(ctx, cmds)
		failUnsent(cmds, err)
		h.report(report, h.outcome(ctx, transportError(err, cmds)))
		return err
	}
}

// setsUpConnection reports whether the command is one that go-redis sends to set up a new
// connection; those pass the hooks as well. The breaker must let them pass: in its
// half-open state it admits one command, whose own connection set-up would otherwise be
// refused, and the breaker would never close.
func setsUpConnection(cmd goredis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "readonly":
		return true
	}
	return false
}

// failUnsent sets the pipeline's error on its commands if none has one. When a node
// answers the set-up of a new connection with an error, go-redis returns it for the
// pipeline only; the commands would look as if they had been answered with nil.
func failUnsent(cmds []goredis.Cmder, err error) {
	if err == nil || slices.ContainsFunc(cmds, func(c goredis.Cmder) bool { return c.Err() != nil }) {
		return
	}
	for _, c := range cmds {
		c.SetErr(err)
	}
}

// outcome converts an error to the breaker's input. A context that is over means that
// the caller gave up, although the driver reports a read timeout. Connections that are cut together, as by a proxy that
// restarts, are one failure: the next command of each has a new one.
func (h *nodeHook) outcome(ctx context.Context, err error) error {
	if err != nil && over(ctx) {
		return context.Canceled
	}
	if isCut(err) {
		now, last := time.Now().UnixNano(), h.cut.Load()
		if now-last < int64(cutTogether) || !h.cut.CompareAndSwap(last, now) {
			return context.Canceled
		}
	}
	return err
}

// cutTogether is within what time cut connections are one failure.
const cutTogether = 100 * time.Millisecond

// isCut reports whether an error is that of a connection that ended within a command.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// over reports whether a context is over, or about to be: a read ends at its deadline, too.
func over(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(deadline)
}

// transportError returns the error that shows that the node is failing: a pipeline
// returns its first command's error, which may concern that command only.
func transportError(err error, cmds []goredis.Cmder) error {
	if err == nil || isTransport(err) {
		return err
	}
	// A broken connection fails all commands that follow.
	if last := cmds[len(cmds)-1].Err(); isTransport(last) {
		return last
	}
	return nil
}

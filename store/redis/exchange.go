package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/store"
)

// command is a command that go-redis sends once. The exchange decides about retries,
// because it knows whether the command may have been performed.
type command struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (command) NoRetry() bool { return true }

func newCommand(ctx context.Context, args ...any) command {
	return command{goredis.NewCmd(ctx, args...)}
}

// exchange performs a number of commands: in one round trip per shard, and further ones
// for retries.
type exchange struct {
	// operation names it in errors.
	operation string
	// args returns the arguments of command i, with the whole script instead of its
	// hash if whole is set. They may be reused after the command was performed.
	args func(i int, whole bool) []any
	// beside returns the arguments of commands that go before and after command i in the
	// same round trip, nil for none. They save it writes, see scripts.go. Their own answers
	// are not looked at, and others may act between them. Nil: none.
	beside func(i int) (before, after []any)
	// take receives the reply of command i, nil for none. doubtful reports that an
	// earlier attempt may have performed the command. The command fails with take's
	// error.
	take func(i int, reply any, doubtful bool) error
	// once reports whether a command that may have been performed must not be sent again.
	once bool
	// durable reports whether replicas must acknowledge what the command writes, or reads
	// as the result of an earlier write, if the options require it.
	durable bool
}

// Backoff between attempts, random up to a bound that doubles.
const (
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = 250 * time.Millisecond
)

// perform runs the exchange over n commands. The errors are by command, nil if none
// failed.
func (s *Store) perform(ctx context.Context, n int, x *exchange) (errs []error) {
	if n == 0 {
		return nil
	}
	run := &run{store: s, exchange: x}
	run.pending = run.first[:]
	if n > len(run.first) {
		run.pending = make([]int, n)
	}
	for i := range run.pending {
		run.pending[i] = i
	}
	began := time.Now()
	for attempt := 1; ; attempt++ {
		failed := run.attempt(ctx, n)
		failed.waits = failed.waits && time.Since(began) < s.options.Timeout
		if len(run.pending) == 0 || !s.pause(ctx, attempt, failed) {
			break
		}
		s.stats.retries.Add(uint64(len(run.pending)))
		if run.failed {
			s.reconsider(ctx)
		}
	}
	if run.failed {
		s.reconsider(ctx)
	}
	for _, i := range run.pending {
		run.fail(n, i, s.operationError(ctx, x.operation, run.last[i]))
	}
	return run.errs
}

// run is an exchange in progress.
type run struct {
	store    *Store
	exchange *exchange
	pending  []int
	errs     []error // by command; nil until one failed
	last     []error // by command, of the last attempt that ended by itself; nil until one failed
	doubtful []bool  // by command; nil until one is
	// first avoids an allocation in the usual run of one command.
	first [1]int
	whole bool
	// failed reports whether a server failed.
	failed bool
}

func (r *run) fail(n, i int, err error) {
	if r.errs == nil {
		r.errs = make([]error, n)
	}
	r.errs[i] = err
	// Of a record that can't be read, the command succeeded: the store's own errors count it.
	if !errors.Is(err, store.ErrUnreadable) {
		r.store.stats.failures.Add(1)
	}
}

// attempt sends the pending commands and keeps those to retry. It returns the gravest
// fault.
func (r *run) attempt(ctx context.Context, n int) fault {
	commands, slab := make([]goredis.Cmder, len(r.pending)), make([]goredis.Cmd, len(r.pending))
	for k, i := range r.pending {
		slab[k] = *goredis.NewCmd(ctx, r.exchange.args(i, r.whole)...)
		commands[k] = command{&slab[k]}
	}
	r.whole = false
	r.store.send(ctx, r.withBeside(ctx, commands), r.exchange.durable)
	again := r.pending[:0]
	var worst fault
	var looked, renewed bool
	for k, i := range r.pending {
		reply, err := commands[k].(command).Result()
		if err == goredis.Nil { //nolint:errorlint // go-redis returns it as it is.
			reply, err = nil, nil
		}
		if err == nil {
			err = r.exchange.take(i, reply, r.doubtful != nil && r.doubtful[i])
		}
		if err == nil {
			continue
		}
		err = ofCommand(err)
		f := faultOf(err)
		if f.refused && !looked {
			looked, renewed = true, r.store.options.Secrets.renew(ctx)
		}
		f.again = f.again || f.refused && renewed
		r.failed = r.failed || f.kind == store.ErrUnavailable && !f.now //nolint:errorlint // it is the sentinel itself
		if f.doubtful {
			if r.doubtful == nil {
				r.doubtful = make([]bool, n)
			}
			r.doubtful[i] = true
		}
		if !f.again || f.doubtful && r.exchange.once {
			if f.kind == store.ErrUnreadable { //nolint:errorlint // it is the sentinel itself
				err = fmt.Errorf("%w (key %s)", err, keyOf(commands[k]))
			}
			r.fail(n, i, r.store.operationError(ctx, r.exchange.operation, err))
			continue
		}
		if f.now {
			// The server does not know the script; the first command that sends it
			// whole caches it there.
			r.whole = true
			r.store.stats.scriptLoads.Add(1)
		}
		if r.last == nil {
			r.last = make([]error, n)
		}
		// An attempt that the caller's time cut off says nothing of the server: the one before did.
		if r.last[i] == nil || !over(ctx) {
			r.last[i] = err
		}
		again = append(again, i)
		if len(again) == 1 || !f.now {
			worst = f
		}
	}
	r.pending = again
	return worst
}

// withBeside returns the commands with those beside them.
func (r *run) withBeside(ctx context.Context, commands []goredis.Cmder) []goredis.Cmder {
	if r.exchange.beside == nil {
		return commands
	}
	var ahead, behind []goredis.Cmder
	for _, i := range r.pending {
		before, after := r.exchange.beside(i)
		if before != nil {
			ahead = append(ahead, newCommand(ctx, before...))
		}
		if after != nil {
			behind = append(behind, newCommand(ctx, after...))
		}
	}
	if ahead == nil && behind == nil {
		return commands
	}
	return slices.Concat(ahead, commands, behind)
}

// send sends the commands in one round trip per shard. The commands carry their errors, also that too
// few replicas acknowledged them.
func (s *Store) send(ctx context.Context, commands []goredis.Cmder, durable bool) {
	cluster, clustered := s.client.(*goredis.ClusterClient)
	switch {
	case durable && s.options.WaitReplicas > 0 && clustered:
		s.sendToMasters(ctx, cluster, commands)
	case durable && s.options.WaitReplicas > 0:
		s.sendAndWait(ctx, s.client, commands, s.layout.bases[0], false)
	case len(commands) == 1:
		_ = s.client.Process(ctx, commands[0])
	default:
		pipe := s.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c)
		}
		_, _ = pipe.Exec(ctx)
	}
}

// sendToMasters sends each master of a Cluster its commands and a WAIT: go-redis would send a WAIT, which has
// no key, to any of them. A command for a slot that has moved, or for a key that has moved ahead of its slot, goes to the
// master that has it.
func (s *Store) sendToMasters(ctx context.Context, cluster *goredis.ClusterClient, commands []goredis.Cmder) {
	parts := map[*goredis.Client][]goredis.Cmder{}
	for _, c := range commands {
		master, err := cluster.MasterForKey(ctx, keyOf(c))
		if err != nil {
			c.SetErr(err)
			continue
		}
		parts[master] = append(parts[master], c)
	}
	var sending sync.WaitGroup
	for master, part := range parts {
		sending.Go(func() { s.sendAndWait(ctx, master, part, s.baseOn(ctx, cluster, master, part), false) })
	}
	sending.Wait()
	moved, ahead := map[string][]goredis.Cmder{}, map[string][]goredis.Cmder{} // by address
	for _, c := range commands {
		if at, is := goredis.IsMovedError(c.Err()); is {
			moved[at] = append(moved[at], c)
		} else if at, is := goredis.IsAskError(c.Err()); is {
			ahead[at] = append(ahead[at], c)
		}
	}
	if len(moved) == 0 && len(ahead) == 0 {
		return
	}
	if len(moved) > 0 {
		s.reconsider(ctx)
	}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, master *goredis.Client) error {
		at := master.Options().Addr
		if part := moved[at]; part != nil {
			s.sendAndWait(ctx, master, part, s.baseOn(ctx, cluster, master, part), false)
		}
		if part := ahead[at]; part != nil {
			// The base is of a slot that is the master's own: a key that both have when the other one moves it ends the resharding.
			s.sendAndWait(ctx, master, part, s.baseOn(ctx, cluster, master, nil), true)
		}
		return nil
	})
}

// baseOn is the base of a bucket of a master that has the keys of commands; without commands of any of its own.
func (s *Store) baseOn(ctx context.Context, cluster *goredis.ClusterClient, master *goredis.Client, commands []goredis.Cmder) string {
	for _, c := range commands {
		if base, _, of := strings.Cut(keyOf(c), "}"); of {
			return base + "}"
		}
	}
	for _, base := range s.layout.bases { // no commands, or secrets, which are in no bucket
		if of, err := cluster.MasterForKey(ctx, base); err == nil && of == master {
			return base
		}
	}
	return s.layout.bases[0] // the write fails, and WAIT counts for the commands all the same
}

// keyOf is the first key of a command: of a script it is behind its text and the number of keys.
func keyOf(c goredis.Cmder) string {
	args := c.Args()
	at := 1
	if strings.HasPrefix(c.Name(), "eval") {
		at = 3
	}
	if len(args) <= at {
		return ""
	}
	if key, of := args[at].(*string); of {
		return *key
	}
	return fmt.Sprint(args[at])
}

// sendAndWait sends a server commands and a WAIT in one round trip. The base is that of a bucket of its keys; asking
// reports that the slot of the commands is not yet the server's.
func (s *Store) sendAndWait(ctx context.Context, server interface{ Pipeline() goredis.Pipeliner }, commands []goredis.Cmder, base string, asking bool) {
	pipe := server.Pipeline()
	for _, c := range commands {
		if asking {
			_ = pipe.Process(ctx, newCommand(ctx, "asking"))
		}
		_ = pipe.Process(ctx, c)
	}
	// Since Redis 7.2 WAIT waits for the connection's last write. A load, or a swap
	// that an earlier attempt performed, writes nothing, so this writes a key in any
	// case.
	_ = pipe.Process(ctx, newCommand(ctx, "set", base+"p", "", "px", 60_000))
	acknowledged := newCommand(ctx, "wait", s.options.WaitReplicas, s.options.WaitTimeout.Milliseconds())
	_ = pipe.Process(ctx, acknowledged)
	_, _ = pipe.Exec(ctx)
	replicas, err := acknowledged.Int()
	if err == nil && replicas < s.options.WaitReplicas {
		err = &fewReplicasError{replicas, s.options.WaitReplicas}
	}
	if err == nil {
		return
	}
	for _, c := range commands {
		if of := c.Err(); of == nil || of == goredis.Nil { //nolint:errorlint // go-redis returns it as it is.
			c.SetErr(err)
		}
	}
}

// pause waits before the next attempt, and reports whether there is one.
func (s *Store) pause(ctx context.Context, attempt int, f fault) bool {
	switch {
	case ctx.Err() != nil:
		return false
	case f.now:
		// An immediate retry does not count against the caller's patience: allow one
		// more.
		return attempt <= s.options.MaxAttempts
	case attempt >= s.options.MaxAttempts && !f.waits:
		return false
	}
	timer := time.NewTimer(rand.N(min(firstBackoff<<min(attempt-1, 8), lastBackoff)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.closed:
		return false
	case <-timer.C:
		return true
	}
}

// reconsider makes go-redis reload the Cluster's slots: a failing master may have been
// replaced, even while its breaker is open.
func (s *Store) reconsider(ctx context.Context) {
	if cluster, ok := s.client.(*goredis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// joined combines errors by command: nil, the only command's error, or a
// store.BatchError.
func joined(errs []error) error {
	switch {
	case errs == nil:
		return nil
	case len(errs) == 1:
		return errs[0]
	}
	return store.BatchError(errs)
}

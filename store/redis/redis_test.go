package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// open opens a store on the Redis, closed with the test.
func open(t *testing.T, url, prefix string, change func(*redis.Options)) *redis.Store {
	t.Helper()
	o := &opener{url: url}
	s := o.open(t, prefix, change)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func numbered(from, to int) (swaps []store.Swap) {
	for i := from; i < to; i++ {
		swaps = append(swaps, store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprintf("t%05d", i)}, Value: []byte("value")})
	}
	return swaps
}

func create(t *testing.T, s *redis.Store, swaps []store.Swap) {
	t.Helper()
	results, err := s.CompareAndSwapBatch(t.Context(), swaps)
	fatal.If(t, err)
	for i, r := range results {
		if !r.Swapped {
			t.Fatalf("%v was not created", swaps[i].Key)
		}
	}
}

// indexed counts the entries of all buckets' indexes.
func indexed(t *testing.T, c *goredis.Client, prefix string) (n int64) {
	t.Helper()
	keys := c.Scan(t.Context(), 0, prefix+"*}i", 1000).Iterator()
	for keys.Next(t.Context()) {
		members, err := c.ZCard(t.Context(), keys.Val()).Result()
		fatal.If(t, err)
		n += members
	}
	return n
}

// Records and logs are gone some time after they were written, and not before.
func TestRecordsExpireByThemselves(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := open(t, redistest.Shared(t).URL(), redistest.Prefix(t), func(o *redis.Options) { o.TTL = ttl })
	swap := numbered(0, 1)[0]
	for what, wrote := range map[string]struct {
		write   func() error
		missing func() (bool, error)
	}{
		"record": {
			func() error { _, err := s.CompareAndSwap(t.Context(), swap); return err },
			func() (bool, error) { r, err := s.Load(t.Context(), swap.Key); return !r.Exists(), err },
		},
		"log": {
			func() error {
				return s.AppendLog(t.Context(), []store.LogEntry{{Key: swap.Key, Value: []byte("entry")}})
			},
			func() (bool, error) {
				values, _, err := s.ReadLog(t.Context(), swap.Key, "", 1)
				return len(values) == 0, err
			},
		},
	} {
		began := time.Now()
		fatal.If(t, wrote.write())
		for gone := false; !gone; time.Sleep(5 * time.Millisecond) {
			var err error
			gone, err = wrote.missing()
			fatal.If(t, err)
			// Redis counts in milliseconds.
			if took := time.Since(began); gone && took < ttl-time.Millisecond || !gone && took > unhurried {
				t.Fatalf("%s: gone after %s: %t, want it to expire after %s", what, took, gone, ttl)
			}
		}
	}
}

// Nobody has to list anything: new keys pay for finding those that have expired.
func TestExpiredKeysLeaveTheIndexAsNewOnesCome(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	prefix, admin := redistest.Prefix(t), server.Client(t)
	expiring := func(o *redis.Options) { o.TTL = time.Hour }
	const old, fresh = 3000, 3000
	before := open(t, server.URL(), prefix, expiring)
	create(t, before, numbered(0, old))
	if err := before.Close(); err != nil { // and with it its sweeps
		t.Fatal(err)
	}
	fatal.If(t, age(t.Context(), admin, prefix, 2*time.Hour))
	if n := indexed(t, admin, prefix); n != old {
		t.Fatalf("%d entries before, want %d", n, old)
	}
	s := open(t, server.URL(), prefix, expiring)
	deadline := time.Now().Add(2 * time.Minute)
	for from := old; ; from += fresh {
		create(t, s, numbered(from, from+fresh))
		for range 20 {
			if n := indexed(t, admin, prefix); n <= int64(from+fresh-old)+old/10 {
				if s.Stats().Purged == 0 {
					t.Error("the statistics know of nothing that was purged")
				}
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d expired keys are still in the index", indexed(t, admin, prefix)-int64(from+fresh-old))
		}
	}
}

func TestConcurrentSwapsShareRoundTrips(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Shared(t).URL(), redistest.Prefix(t), nil)
	fatal.If(t, s.Ping(t.Context()))
	const callers, swaps = 64, 50
	before := s.Stats()
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			key := store.Key{Cluster: "c", Namespace: "n", Target: fmt.Sprint(c)}
			var version store.Version
			for range swaps {
				result, err := s.CompareAndSwap(t.Context(), store.Swap{Key: key, Old: version, Value: []byte("value")})
				if err != nil || !result.Swapped {
					t.Errorf("%v: %v", result, err)
					return
				}
				version = result.Record.Version
			}
		})
	}
	running.Wait()
	after := s.Stats()
	trips, commands := after.RoundTrips-before.RoundTrips, after.Commands-before.Commands
	t.Logf("%d commands in %d round trips", commands, trips)
	if commands < callers*swaps {
		t.Errorf("%d commands, want %d at least", commands, callers*swaps)
	}
	if trips > callers*swaps/2 {
		t.Errorf("%d swaps took %d round trips", callers*swaps, trips)
	}
}

// A caller that gives up takes nobody along whose swap shares the round trip.
func TestACallerThatGivesUpIsAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s := open(t, server.URL(), redistest.Prefix(t), nil)
	fatal.If(t, s.Ping(t.Context()))
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, 40)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			ctx := ctx
			if i%2 == 0 {
				ctx = t.Context()
			}
			_, errs[i] = s.CompareAndSwap(ctx, numbered(i, i+1)[0])
		})
	}
	time.Sleep(20 * time.Millisecond) // lets them get on their way; the test holds without
	cancel()
	server.Resume()
	running.Wait()
	for i, err := range errs {
		if i%2 == 0 && err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
		if i%2 != 0 && err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("caller %d: %v, want it to be canceled, or served", i, err)
		}
	}
}

// A master that sentinels name is told by its own address, whether it ends or hangs.
func TestTheBreakerNamesTheMasterOfSentinels(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*redistest.Server){"killed": (*redistest.Server).Kill, "hangs": (*redistest.Server).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t, 0, 1, redistest.Config{Calm: true})
			told := make(chan string, 1)
			s := open(t, sentinel.URL(), redistest.Prefix(t), func(o *redis.Options) {
				o.Timeout, o.BreakerFailures, o.MaxAttempts = time.Second, 1, 1
				o.OnBreaker = func(node string, because error) {
					select {
					case told <- node:
					default:
					}
				}
			})
			for s.Ping(t.Context()) != nil { // the machine may be busy
				time.Sleep(10 * time.Millisecond)
			}
			for len(told) > 0 {
				<-told
			}
			fail(sentinel.Master())
			if s.Ping(t.Context()) == nil {
				t.Fatal("it answers")
			}
			if node, want := <-told, sentinel.Servers()[0].Addr(); node != want {
				t.Errorf("told of %s, want %s", node, want)
			}
		})
	}
}

// While no sentinel answers there are no new connections. Calls go on with those that there are to the master, and are refused
// at once when there are none.
func TestCallsGoOnWithoutSentinels(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 0, 1, redistest.Config{Calm: true})
	s := open(t, sentinel.URL(), redistest.Prefix(t), func(o *redis.Options) {
		o.Timeout, o.BreakerFailures, o.MaxAttempts = unhurried, 1, 1
		o.PoolSize = 10_000 // after so many failures go-redis has a goroutine that outlives the test
	})
	fatal.If(t, s.Ping(t.Context()))
	sentinel.Sentinels()[0].Kill()
	master := sentinel.Servers()[0]
	master.Pause()
	has, waits := make(chan error), make(chan error, 1)
	go func() { has <- s.Ping(t.Context()) }()
	for s.Stats().Idle > 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { waits <- s.Ping(t.Context()) }()
	for s.Stats().Retries == 0 && len(waits) == 0 {
		time.Sleep(time.Millisecond)
	}
	master.Resume()
	if err := <-has; err != nil {
		t.Error(err)
	}
	if err := <-waits; err != nil {
		t.Errorf("without a connection of its own: %v", err)
	}
	master.Kill()
	for s.Stats().BreakersOpen == 0 {
		if s.Ping(t.Context()) == nil {
			t.Fatal("it answers")
		}
	}
}

// Sentinels that answer are not told as a network that is down.
func TestAMasterThatNoSentinelKnowsIsTold(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 0, 1, redistest.Config{Calm: true})
	s := open(t, sentinel.URL()+"x", redistest.Prefix(t), nil)
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "does not know the master of the URL") {
		t.Error(err)
	}
}

// With WaitReplicas a write counts once so many replicas have it, in a Cluster so many of each master that
// is written to.
func TestWritesWaitForReplicas(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"sentinel": func(t *testing.T) string { return redistest.StartSentinel(t, 1, 1, redistest.Config{Calm: true}).URL() },
		"cluster":  func(t *testing.T) string { return redistest.StartCluster(t, 3, 1, redistest.Config{Calm: true}).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			waiting := func(replicas int, timeout time.Duration) func(*redis.Options) {
				return func(o *redis.Options) { o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = replicas, timeout, 1 }
			}
			enough := open(t, url, redistest.Prefix(t), waiting(1, unhurried/2))
			create(t, enough, numbered(0, 30))
			if _, err := enough.CompareAndSwap(t.Context(), numbered(30, 31)[0]); err != nil {
				t.Error(err)
			}
			if _, err := enough.Secret(t.Context(), "s", []byte("x")); err != nil {
				t.Error(err)
			}
			if err := enough.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			tooMany := open(t, url, redistest.Prefix(t), waiting(2, 100*time.Millisecond))
			if _, err := tooMany.CompareAndSwap(t.Context(), numbered(0, 1)[0]); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("with a replica too few: %v, want ErrUnavailable", err)
			}
			results, err := tooMany.CompareAndSwapBatch(t.Context(), numbered(1, 3))
			var failed store.BatchError
			if !errors.As(err, &failed) || len(failed) != 2 || !errors.Is(failed[1], store.ErrUnavailable) || results[0].Swapped {
				t.Errorf("in a batch: %v, %v", results, err)
			}
			// An attempt that the caller's time cuts off leaves the error of the one before.
			cut := open(t, url, redistest.Prefix(t), func(o *redis.Options) { o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = 2, 500*time.Millisecond, 1000 })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // time for several, on a busy machine, too
			defer cancel()
			if err := cut.Ping(ctx); err == nil || !strings.Contains(err.Error(), "not acknowledged by enough replicas in time: 1 of 2") {
				t.Errorf("with an attempt that was cut off: %v", err)
			}
		})
	}
}

// In a Cluster a master without its replica fails the writes to its own keys, and no others.
func TestAMasterWithoutItsReplicaFailsItsOwnWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 1, redistest.Config{Calm: true})
	s := open(t, cluster.URL(), redistest.Prefix(t), func(o *redis.Options) {
		o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = 1, 500*time.Millisecond, 1
	})
	create(t, s, numbered(0, 30))
	cluster.Replicas()[0].Kill()
	_, err := s.CompareAndSwapBatch(t.Context(), numbered(30, 60))
	var failed store.BatchError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	n := 0
	for _, err := range failed {
		if err != nil {
			n++
		}
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	if n == 0 || n == len(failed) {
		t.Errorf("%d of %d writes failed, want those of one of two masters", n, len(failed))
	}
}

// While a master of a Cluster is away that nobody replaces, the store is up, and tells what it lacks. A list has no gaps: it fails
// and tells that a part is away.
func TestAShardThatIsAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0, redistest.Config{Calm: true})
	s := open(t, cluster.URL(), redistest.Prefix(t), func(o *redis.Options) { o.MaxAttempts, o.BreakerPause = 1, time.Millisecond })
	create(t, s, numbered(0, 30))
	if err := s.Ping(t.Context()); err != nil || s.Lacking() != nil {
		t.Fatal(err, s.Lacking())
	}
	victim := cluster.Masters()[0]
	victim.Kill()
	fatal.If(t, s.Ping(t.Context()))
	if err := s.Lacking(); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), victim.Addr()) {
		t.Errorf("it lacks %v, want %s", err, victim.Addr())
	}
	keys, err := s.List(t.Context(), store.Filter{}, store.Key{}, 100)
	var failed store.BatchError
	if len(keys) > 0 || !errors.As(err, &failed) || !slices.Contains(failed, nil) {
		t.Errorf("listed are %v, %v", keys, err)
	}
	victim.Restart()
	for s.Ping(t.Context()) != nil || s.Lacking() != nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// A server that has forgotten the scripts, as after a restart, is told them again.
func TestForgottenScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	s := open(t, server.URL(), redistest.Prefix(t), nil)
	create(t, s, numbered(0, 300))
	for round := range 3 {
		fatal.If(t, admin.ScriptFlush(t.Context()).Err())
		create(t, s, numbered(300*(round+1), 300*(round+2)))
	}
	stats := s.Stats()
	if stats.ScriptLoads == 0 || stats.Failures != 0 || stats.Conflicts != 0 {
		t.Errorf("%+v", stats)
	}
}

// A proxy that restarts, or CLIENT KILL, cuts all connections at once, beside a Redis that answers: no caller gets an error.
func TestConnectionsThatAreCutCostNoCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	s := open(t, server.URL(), redistest.Prefix(t), nil)
	known := numbered(0, 1)
	create(t, s, known)
	var calls sync.WaitGroup
	done := make(chan struct{})
	for range 30 {
		calls.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Load(t.Context(), known[0].Key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 5 {
		for want := s.Stats().Commands + 1000; s.Stats().Commands < want && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		fatal.If(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	}
	close(done)
	calls.Wait()
}

// Nobody asks when a part of a target was deleted, so nothing is left of it.
func TestDeletedPartsLeaveNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	s := open(t, server.URL(), prefix, nil)
	specs, err := s.Part(store.Specs, 0)
	fatal.If(t, err)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	for _, remove := range []func(store.Version) (bool, error){
		func(store.Version) (bool, error) { return specs.Delete(t.Context(), key) },
		func(v store.Version) (bool, error) {
			result, err := specs.DeleteVersion(t.Context(), key, v)
			return result.Swapped, err
		},
	} {
		result, err := specs.CompareAndSwap(t.Context(), store.Swap{Key: key, Value: []byte("spec")})
		if err != nil || !result.Swapped {
			t.Fatalf("%+v, %v", result, err)
		}
		if removed, err := remove(result.Record.Version); err != nil || !removed {
			t.Fatalf("removed: %v, %v", removed, err)
		}
		if keys, err := server.Client(t).Keys(t.Context(), prefix+"*").Result(); err != nil || len(keys) != 0 {
			t.Errorf("left are %q, %v", keys, err)
		}
	}
}

// While a slot moves from one master to another, what has moved is asked for there, by a user with few rights, too. What is
// left moves afterwards: no key is on both.
func TestSwapsGoOnWhileASlotMoves(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"alone": 0, "waiting for a replica": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, further := documentedRights(t)
			cluster := redistest.StartCluster(t, 2, 1, redistest.Config{Calm: true, Directives: []string{userLine(all, further)}})
			prefix := redistest.Prefix(t)
			waiting := func(replicas int) func(*redis.Options) {
				return func(o *redis.Options) { o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = replicas, unhurried/2, 1 }
			}
			s := open(t, asUser(cluster.URL()), prefix, waiting(replicas))
			create(t, s, numbered(0, 1))
			moveRest := moving(t, cluster, prefix)
			before, err := s.Load(t.Context(), numbered(0, 1)[0].Key)
			if err != nil || !before.Exists() {
				t.Fatalf("loaded is %v, %v", before, err)
			}
			swap := store.Swap{Key: numbered(0, 1)[0].Key, Old: before.Version, Value: []byte("moved")}
			if result, err := s.CompareAndSwap(t.Context(), swap); err != nil || !result.Swapped {
				t.Errorf("the swap: %+v, %v", result, err)
			}
			if replicas > 0 {
				tooMany := open(t, cluster.URL(), prefix, func(o *redis.Options) { o.WaitReplicas, o.WaitTimeout, o.MaxAttempts = 2, 100*time.Millisecond, 1 })
				if _, err := tooMany.Load(t.Context(), swap.Key); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("with a replica too few: %v, want ErrUnavailable", err)
				}
			}
			moveRest()
			if after, err := s.Load(t.Context(), swap.Key); err != nil || string(after.Value) != "moved" {
				t.Errorf("after the move: %q, %v", after.Value, err)
			}
		})
	}
}

// moving moves the record of the only target with that prefix to the other of two masters, whose slot it is not yet. moveRest
// moves the other keys, and the slot.
func moving(t *testing.T, cluster *redistest.Cluster, prefix string) (moveRest func()) {
	t.Helper()
	masters := cluster.Masters()
	from, to := masters[0].Client(t), masters[1]
	keys, err := from.Keys(t.Context(), prefix+"*h:*").Result()
	if len(keys) == 0 {
		from, to = masters[1].Client(t), masters[0]
		keys, err = from.Keys(t.Context(), prefix+"*h:*").Result()
	}
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	do := func(c *goredis.Client, args ...any) any {
		t.Helper()
		reply, err := c.Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	slot, into := do(from, "cluster", "keyslot", keys[0]), to.Client(t)
	do(into, "cluster", "setslot", slot, "importing", do(from, "cluster", "myid"))
	do(from, "cluster", "setslot", slot, "migrating", do(into, "cluster", "myid"))
	host, port, err := net.SplitHostPort(to.Addr())
	fatal.If(t, err)
	move := func(keys []any) { do(from, append([]any{"migrate", host, port, "", 0, 5000, "keys"}, keys...)...) }
	move([]any{keys[0]})
	return func() {
		t.Helper()
		move(do(from, "cluster", "getkeysinslot", slot, 100).([]any))
		of := do(into, "cluster", "myid")
		do(into, "cluster", "setslot", slot, "node", of)
		do(from, "cluster", "setslot", slot, "node", of)
	}
}

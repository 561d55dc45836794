package redis_test

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

const (
	logLength, keptLength, feedLength = 8, 13, 800
	// expiry is that of records in the suite, where time is only told to have passed: much
	// longer than a few operations take on the busiest machine.
	expiry = time.Hour
	// unhurried is a timeout that does not pass, however busy the machine is.
	unhurried = time.Minute
)

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{})
	// A pool that could not connect tries once a second, and sees that it was closed after that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// quiet drops the driver's lines about connections that come and go.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// opener opens engines on one Redis and remembers their prefixes, so that peers can
// be opened over the same data.
type opener struct {
	url      string
	mu       sync.Mutex
	prefixes map[storetest.Engine]string // guarded by mu
}

func (o *opener) open(t testing.TB, prefix string, change func(*redis.Options)) *redis.Store {
	t.Helper()
	options, err := redis.ParseURL(o.url)
	fatal.If(t, err)
	options.KeyPrefix, options.LogLength, options.KeptLength, options.FeedLength = prefix, logLength, keptLength, feedLength
	options.Timeout = unhurried
	if change != nil {
		change(&options)
	}
	s, err := redis.New(options)
	fatal.If(t, err)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.prefixes == nil {
		o.prefixes = make(map[storetest.Engine]string)
	}
	o.prefixes[s] = prefix
	return s
}

func (o *opener) prefix(e storetest.Engine) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.prefixes[e]
}

// suite runs the suite of all engines on the Redis. each calls a function for each
// of its masters, to tell them that time has passed. That records expire as it passes
// indeed is TestRecordsExpireByThemselves.
func suite(t *testing.T, url string, each func(ctx context.Context, f func(context.Context, *goredis.Client) error) error) {
	o := &opener{url: url}
	storetest.Run(t,
		func(t testing.TB) storetest.Engine { return o.open(t, redistest.Prefix(t), nil) },
		storetest.Options{
			LogLength: logLength, KeptLength: keptLength, FeedLength: feedLength,
			Expiring: func(t testing.TB) (storetest.Engine, time.Duration, func(time.Duration)) {
				prefix := redistest.Prefix(t)
				pass := func(d time.Duration) {
					fatal.If(t, each(t.Context(), func(ctx context.Context, c *goredis.Client) error { return age(ctx, c, prefix, d) }))
				}
				return o.open(t, prefix, func(options *redis.Options) { options.TTL = expiry }), expiry, pass
			},
			Peer: func(t testing.TB, e storetest.Engine) storetest.Engine { return o.open(t, o.prefix(e), nil) },
		})
}

// age takes the duration off what is left of the lives of all keys of the prefix.
func age(ctx context.Context, c *goredis.Client, prefix string, d time.Duration) error {
	keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		left, err := c.PTTL(ctx, keys.Val()).Result()
		if err != nil {
			return err
		}
		if left < 0 {
			continue // lives for ever
		}
		if err := c.PExpire(ctx, keys.Val(), left-d).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// only is the each of a Redis with one master.
func only(c *goredis.Client) func(context.Context, func(context.Context, *goredis.Client) error) error {
	return func(ctx context.Context, f func(context.Context, *goredis.Client) error) error { return f(ctx, c) }
}

// partEngine is a part of a store, which it closes, with the log of the part.
type partEngine struct {
	store.Store
	store.Log
	whole *redis.Store
}

func (p partEngine) Close() error { return p.whole.Close() }

// The records of a part are records like those of histories.
func TestSuiteOnAPart(t *testing.T) {
	t.Parallel()
	o := &opener{url: redistest.Shared(t).URL()}
	open := func(t testing.TB, prefix string) storetest.Engine {
		s := o.open(t, prefix, nil)
		part, err := s.Part(store.Specs, 0)
		fatal.If(t, err)
		e := partEngine{part, part.(store.Log), s}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.prefixes[e] = prefix
		return e
	}
	storetest.Run(t,
		func(t testing.TB) storetest.Engine { return open(t, redistest.Prefix(t)) },
		storetest.Options{
			LogLength: logLength, KeptLength: keptLength, FeedLength: feedLength,
			Peer: func(t testing.TB, e storetest.Engine) storetest.Engine { return open(t, o.prefix(e)) },
			Skip: map[string]string{
				"Expiry": "a part's is tested in Parts/Expiry", "Parts/Expiry": "a part has no parts",
				"Usage": "of a part nobody asks for it", "Parts": "a part has no parts",
			},
		})
}

func TestSuiteOnASingleServer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	suite(t, server.URL(), only(server.Client(t)))
}

func TestSuiteOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	suite(t, cluster.URL(), cluster.Client(t).ForEachMaster)
}

func TestSuiteBehindSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1, 3, redistest.Config{Calm: true})
	suite(t, sentinel.URL(), only(sentinel.Master().Client(t)))
}

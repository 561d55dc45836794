package serve

import (
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/store/redis"
)

// redisSettings are the settings of the shared store.
type redisSettings struct {
	URLs         []string
	PasswordFile string
	// SentinelPasswordFile has the password for the sentinels.
	SentinelPasswordFile string
	CA                   string
	Cert, Key            string
	KeyPrefix            string
	Timeout              time.Duration
	MaxAttempts          int
	PoolSize             int
	WaitReplicas         int
	WaitTimeout          time.Duration
	BreakerFailures      int
	BreakerPause         time.Duration
}

func defaultRedisSettings() redisSettings {
	return redisSettings{
		KeyPrefix:       redis.DefaultKeyPrefix,
		Timeout:         redis.DefaultTimeout,
		MaxAttempts:     redis.DefaultMaxAttempts,
		WaitTimeout:     redis.DefaultWaitTimeout,
		BreakerFailures: redis.DefaultBreakerFailures,
		BreakerPause:    redis.DefaultBreakerPause,
	}
}

func (s *redisSettings) bind(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.URLs, "redis", s.URLs, "`URL` of the Redis that keeps the histories, redis://[user:password@]host[:port][,host…][/database][?master=NAME], rediss:// for TLS; "+
		"several hosts are a Cluster, or with master=NAME the sentinels; may be repeated for further hosts; empty: histories are kept in this process")
	flags.StringVar(&s.PasswordFile, "redis-password-file", s.PasswordFile, "`file` with the password for Redis, instead of one in the URL, where other users of the machine may see it; reloaded when it changes, as are the other files for Redis")
	flags.StringVar(&s.SentinelPasswordFile, "redis-sentinel-password-file", s.SentinelPasswordFile, "`file` with the password for the sentinels, instead of the parameter sentinelPassword of the URL")
	flags.StringVar(&s.CA, "redis-tls-ca", s.CA, "PEM `file` of the CAs that sign Redis' certificates; empty: the system's")
	flags.StringVar(&s.Cert, "redis-tls-cert", s.Cert, "PEM `file` of the client certificate for Redis")
	flags.StringVar(&s.Key, "redis-tls-key", s.Key, "PEM `file` of the certificate's key")
	flags.StringVar(&s.KeyPrefix, "redis-key-prefix", s.KeyPrefix, "`prefix` of all keys in Redis")
	flags.DurationVar(&s.Timeout, "redis-timeout", s.Timeout, "timeout of one attempt to reach Redis")
	flags.IntVar(&s.MaxAttempts, "redis-max-attempts", s.MaxAttempts, "attempts for one Redis operation that fails transiently")
	flags.IntVar(&s.PoolSize, "redis-pool-size", s.PoolSize, "maximum connections to each Redis node; 0 means 10 per processor")
	flags.IntVar(&s.WaitReplicas, "redis-wait-replicas", s.WaitReplicas, "replicas that must acknowledge each write (WAIT); not with a Cluster")
	flags.DurationVar(&s.WaitTimeout, "redis-wait-timeout", s.WaitTimeout, "how long to wait for the replicas of --redis-wait-replicas")
	flags.IntVar(&s.BreakerFailures, "redis-breaker-failures", s.BreakerFailures, "consecutive failures that open a Redis node's circuit breaker")
	flags.DurationVar(&s.BreakerPause, "redis-breaker-pause", s.BreakerPause, "how long an open circuit breaker skips a failing Redis node")
}

// used reports whether a Redis is configured.
func (s *redisSettings) used() bool { return len(s.URLs) > 0 }

func (s *redisSettings) validate(refuse func(flag, format string, args ...any)) {
	for flag, d := range map[string]time.Duration{
		"redis-timeout": s.Timeout, "redis-wait-timeout": s.WaitTimeout, "redis-breaker-pause": s.BreakerPause,
	} {
		if d <= 0 {
			refuse(flag, "%s is not above 0", d)
		}
	}
	for flag, n := range map[string]int{"redis-max-attempts": s.MaxAttempts, "redis-breaker-failures": s.BreakerFailures} {
		if n <= 0 {
			refuse(flag, "%d is not above 0", n)
		}
	}
	for flag, n := range map[string]int{"redis-pool-size": s.PoolSize, "redis-wait-replicas": s.WaitReplicas} {
		if n < 0 {
			refuse(flag, "%d is negative", n)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		refuse("redis-tls-cert", "must be given together with --redis-tls-key")
	}
	if !s.used() {
		for flag, value := range map[string]string{"redis-password-file": s.PasswordFile, "redis-sentinel-password-file": s.SentinelPasswordFile, "redis-tls-ca": s.CA, "redis-tls-cert": s.Cert, "redis-tls-key": s.Key} {
			if value != "" {
				refuse(flag, "only applies with Redis: give --redis")
			}
		}
		return
	}
	if o, err := s.parse(); err != nil {
		refuse("redis", "%v", err)
	} else if o.TLS == nil && (s.CA != "" || s.Cert != "") {
		refuse("redis", "certificates are given, but the URL does not ask for TLS: write rediss://")
	} else if o.MasterName == "" && s.SentinelPasswordFile != "" {
		refuse("redis-sentinel-password-file", "only applies with sentinels: give --redis with master=NAME")
	}
}

func (s *redisSettings) parse() (redis.Options, error) {
	o, err := redis.ParseURL(s.URLs[0], s.URLs[1:]...)
	if err != nil {
		return redis.Options{}, err
	}
	o.KeyPrefix, o.Timeout, o.MaxAttempts, o.PoolSize = s.KeyPrefix, s.Timeout, s.MaxAttempts, s.PoolSize
	o.WaitReplicas, o.WaitTimeout = s.WaitReplicas, s.WaitTimeout
	o.BreakerFailures, o.BreakerPause = s.BreakerFailures, s.BreakerPause
	return o, o.Validate()
}

// redisStore is the store, with the files that it follows.
type redisStore struct {
	*redis.Store
	files *redisFiles
}

// Close implements store.Store.
func (s redisStore) Close() error {
	defer s.files.close()
	return s.Store.Close()
}

// open opens the store. It does not wait for Redis.
func (s *redisSettings) open(ttl time.Duration, logLength, feedLength int, log *zap.Logger) (redisStore, error) {
	o, err := s.parse()
	if err != nil {
		return redisStore{}, err
	}
	follows, err := s.openFiles(log)
	if err != nil {
		return redisStore{}, err
	}
	o.Secrets = follows.secrets()
	o.TTL, o.LogLength, o.FeedLength = ttl, logLength, feedLength
	o.OnBreaker = func(node string, because error) {
		if because != nil {
			log.Warn("redis node left alone until it answers", zap.String("node", node), zap.Error(because))
		} else {
			log.Info("redis node answers", zap.String("node", node))
		}
	}
	opened, err := redis.New(o)
	if err != nil {
		follows.close()
		return redisStore{}, err
	}
	return redisStore{opened, follows}, nil
}

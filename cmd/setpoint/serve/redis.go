package serve

import (
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/server/certs"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// redisSettings are the settings of the shared store.
type redisSettings struct {
	redis.Options
	URLs         []string
	PasswordFile string
	// SentinelPasswordFile has the password for the sentinels.
	SentinelPasswordFile string
	TLSFiles             certs.Options
}

func (s *redisSettings) list() []config.Setting {
	return []config.Setting{
		config.Repeated(&s.URLs, "redis", "`URL` of the Redis that keeps the histories, redis://[user:password@]host[:port][,host…][/database][?master=NAME], rediss:// for TLS; "+
			"several hosts, or one with cluster=true, are a Cluster, or with master=NAME the sentinels; may be repeated for further hosts; empty: histories are kept in this process"),
		config.String(&s.PasswordFile, "redis-password-file", "`file` with the password for Redis, instead of one in the URL, where other users of the machine may see it; reloaded when it changes, as are the other files for Redis"),
		config.String(&s.SentinelPasswordFile, "redis-sentinel-password-file", "`file` with the password for the sentinels, instead of the parameter sentinelPassword of the URL"),
		config.String(&s.TLSFiles.CAFile, "redis-tls-ca-file", "PEM `file` of the CAs that sign Redis' certificates; empty: the system's"),
		config.String(&s.TLSFiles.CertFile, "redis-tls-cert-file", "PEM `file` of the client certificate for Redis"),
		config.String(&s.TLSFiles.KeyFile, "redis-tls-key-file", "PEM `file` of the certificate's key"),
		config.String(&s.KeyPrefix, "redis-key-prefix", "`prefix` of all keys in Redis"),
		config.Duration(&s.Timeout, "redis-timeout", "timeout of one attempt to reach Redis; above 1s, short waits for Redis are longer in proportion", config.Positive),
		config.Int(&s.MaxAttempts, "redis-max-attempts", "attempts for one Redis operation that fails transiently", config.Positive),
		config.Int(&s.PoolSize, "redis-pool-size", "maximum connections to each Redis node; 0 means 10 per processor", config.NotNegative),
		config.Int(&s.WaitReplicas, "redis-wait-replicas", "replicas that must acknowledge each write (WAIT), in a Cluster those of the key's master", config.NotNegative),
		config.Duration(&s.WaitTimeout, "redis-wait-timeout", "how long to wait for the replicas of --redis-wait-replicas", config.Positive),
		config.Int(&s.BreakerFailures, "redis-breaker-failures", "consecutive failures that open a Redis node's circuit breaker", config.Positive),
		config.Duration(&s.BreakerPause, "redis-breaker-pause", "how long an open circuit breaker skips a failing Redis node", config.Positive),
	}
}

// used reports whether a Redis is configured.
func (s *redisSettings) used() bool { return len(s.URLs) > 0 }

// parse returns the options with what the URLs say.
func (s *redisSettings) parse() (redis.Options, error) {
	o, err := s.WithURL(s.URLs[0], s.URLs[1:]...)
	if err != nil {
		return redis.Options{}, err
	}
	return o, o.Validate()
}

func (s *redisSettings) validate(refuse config.Refuse) {
	files := &s.TLSFiles
	if (files.CertFile == "") != (files.KeyFile == "") {
		refuse("redis-tls-cert-file", "must be given together with --redis-tls-key-file")
	}
	if !s.used() {
		for _, given := range []struct{ flag, value string }{
			{"redis-password-file", s.PasswordFile}, {"redis-sentinel-password-file", s.SentinelPasswordFile},
			{"redis-tls-ca-file", files.CAFile}, {"redis-tls-cert-file", files.CertFile}, {"redis-tls-key-file", files.KeyFile},
		} {
			if given.value != "" {
				refuse(given.flag, "only applies with Redis: give --redis")
			}
		}
		return
	}
	switch o, err := s.parse(); {
	case err != nil:
		refuse("redis", "%v", err)
	case s.PasswordFile != "" && o.Password != "" || s.SentinelPasswordFile != "" && o.SentinelPassword != "":
		refuse("redis", "the URL has a password, and so has a file: give one of them")
	case o.TLS == nil && (files.CAFile != "" || files.CertFile != ""):
		refuse("redis", "certificates are given, but the URL does not ask for TLS: write rediss://")
	case o.MasterName == "" && s.SentinelPasswordFile != "":
		refuse("redis-sentinel-password-file", "only applies with sentinels: give --redis with master=NAME")
	}
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

// open opens the store, which keeps so much. It does not wait for Redis.
func (s *redisSettings) open(kept memory.Options, log *zap.Logger) (redisStore, error) {
	o, err := s.parse()
	if err != nil {
		return redisStore{}, err
	}
	follows, err := s.openFiles(log)
	if err != nil {
		return redisStore{}, err
	}
	o.Secrets = follows.secrets()
	o.TTL, o.LogLength, o.KeptLength, o.FeedLength = kept.TTL, kept.LogLength, kept.KeptLength, kept.FeedLength
	o.OnBreaker = func(node string, because error) {
		if because != nil {
			log.Warn("redis node skipped until it answers", zap.String("node", node), zap.Error(because))
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

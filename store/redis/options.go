package redis

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Defaults of Options.
const (
	DefaultKeyPrefix       = "setpoint:"
	DefaultLogLength       = 240
	DefaultKeptLength      = 400
	DefaultFeedLength      = 20_000
	DefaultTimeout         = time.Second
	DefaultMaxAttempts     = 4
	DefaultWaitTimeout     = 500 * time.Millisecond
	DefaultBreakerFailures = 5
	DefaultBreakerPause    = time.Second
)

// Options are the settings of a Store. ParseURL sets the addresses and credentials;
// zero values of the rest are defaults.
type Options struct {
	// Addresses are host:port: of the server, of nodes of the Cluster, or of the
	// sentinels. Required.
	Addresses []string
	// Cluster reports whether the addresses are of a Redis Cluster.
	Cluster bool
	// MasterName is the name of the master that the sentinels watch. Empty: the
	// addresses are not those of sentinels.
	MasterName string
	// Database is the number of the database; a Cluster has only 0.
	Database int
	// Username and Password authenticate to the server. Empty: none.
	Username, Password string
	// SentinelUsername and SentinelPassword authenticate to the sentinels. Empty: none.
	SentinelUsername, SentinelPassword string
	// TLS is for connections to servers and sentinels. Nil: plain text.
	TLS *tls.Config
	// Secrets are those of the above that change.
	Secrets Secrets
	// KeyPrefix begins all keys. It contains no braces. Empty: DefaultKeyPrefix.
	KeyPrefix string
	// TTL is how long a record lives after its last swap, and a log after its last
	// entry, with a precision of milliseconds. Zero or less: for ever.
	TTL time.Duration
	// LogLength is how many log entries are kept per key, and KeptLength how many of those that
	// are kept longer; with many keys they take more memory than the records. Zero:
	// DefaultLogLength and DefaultKeptLength. Negative: no log; no entry is kept longer.
	LogLength, KeptLength int
	// FeedLength is about how many entries the feed keeps, of all keys together. Zero:
	// DefaultFeedLength. Negative: none.
	FeedLength int
	// Timeout limits each attempt: connecting, writing and reading separately. An
	// earlier deadline of the caller counts; a cancellation takes effect after the
	// attempt. Zero: DefaultTimeout.
	Timeout time.Duration
	// MaxAttempts limits how often a command is sent that failed with a temporary
	// error. Zero: DefaultMaxAttempts.
	MaxAttempts int
	// PoolSize limits the connections to each node. Zero: 10 per processor.
	PoolSize int
	// WaitReplicas is how many replicas must acknowledge a write before it counts (the
	// command WAIT), and WaitTimeout how long to wait for them; zero:
	// DefaultWaitTimeout, and it must be less than Timeout. Zero replicas: the master's
	// acknowledgement is enough. In a Cluster they are those of each master that is written to.
	WaitReplicas int
	WaitTimeout  time.Duration
	// BreakerFailures is how many failures in a row open a node's circuit breaker,
	// and BreakerPause how long it stays open before one command may try. Zero:
	// DefaultBreakerFailures and DefaultBreakerPause.
	BreakerFailures int
	BreakerPause    time.Duration
	// OnBreaker is called when the circuit breaker of a node opens, with the last error, and
	// with nil when it closes again. Of a master that sentinels name, node is the last address of it, or its
	// name if none is known. It must not block. Nil: not called.
	OnBreaker func(node string, because error)
}

// DefaultOptions returns the defaults, without an address.
func DefaultOptions() Options { return Options{}.withDefaults() }

func (o Options) withDefaults() Options {
	o.KeyPrefix = cmp.Or(o.KeyPrefix, DefaultKeyPrefix)
	o.LogLength = cmp.Or(o.LogLength, DefaultLogLength)
	o.KeptLength = cmp.Or(o.KeptLength, DefaultKeptLength)
	o.FeedLength = cmp.Or(o.FeedLength, DefaultFeedLength)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, DefaultMaxAttempts)
	if o.WaitTimeout == 0 {
		o.WaitTimeout = min(DefaultWaitTimeout, o.Timeout/2)
	}
	o.BreakerFailures = cmp.Or(o.BreakerFailures, DefaultBreakerFailures)
	o.BreakerPause = cmp.Or(o.BreakerPause, DefaultBreakerPause)
	return o
}

// Validate returns all errors of the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(o.Addresses) == 0 {
		refuse("no address")
	}
	if o.Cluster && o.MasterName != "" {
		refuse("both a cluster and a sentinels' master: a server is one or the other")
	}
	if o.Database < 0 || o.Cluster && o.Database != 0 {
		refuse("database %d: must be 0 or above, and 0 for a cluster", o.Database)
	}
	if strings.ContainsAny(o.KeyPrefix, "{}") {
		refuse("key prefix %q: must not contain braces, which delimit hash tags", o.KeyPrefix)
	}
	if o.Timeout < 0 || o.MaxAttempts < 0 || o.PoolSize < 0 || o.BreakerFailures < 0 || o.BreakerPause < 0 {
		refuse("timeout, attempts, pool size and breaker settings must not be negative")
	}
	switch {
	case o.WaitReplicas < 0:
		refuse("replicas to wait for: %d is negative", o.WaitReplicas)
	case o.WaitReplicas > 0 && (o.WaitTimeout <= 0 || o.WaitTimeout >= o.Timeout):
		refuse("time to wait for replicas %s: must be above 0 and below the timeout %s", o.WaitTimeout, o.Timeout)
	}
	return errors.Join(problems...)
}

// idleTime is how long a connection may be idle before it is closed rather than used. Load balancers forget connections
// after some minutes (AWS' after 350 s), some without a word.
const idleTime = 4 * time.Minute

// universal are the options of go-redis. It retries nothing: see command.
func (o *Options) universal() *goredis.UniversalOptions {
	u := &goredis.UniversalOptions{
		CredentialsProviderContext: o.credentials(), Dialer: o.dialer(),
		Addrs: o.Addresses, IsClusterMode: o.Cluster, MasterName: o.MasterName, DB: o.Database,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		TLSConfig: o.TLS, ClientName: "setpoint",
		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, PoolTimeout: o.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              o.PoolSize,
		// A pool apart for pipelines would come on top of PoolSize, and a node that
		// does not greet would be tried on both in each attempt.
		PipelinePoolSize: -1,
		ConnMaxIdleTime:  idleTime,
		// Nodes are asked about slots again when one fails, see Store.pause.
		FailingTimeoutSeconds: 1,
	}
	if o.Secrets.SentinelPassword != nil {
		u.SentinelUsername, u.SentinelPassword = "", "" // the dialer authenticates
	}
	return u
}
